"""The errors of scans: each cause for which a scan is refused or fails has a class. A scan that cannot return every row
raises an error."""

from siltstone.foundation.quantity_words import counted
from siltstone.model.errors import CorruptData, InvalidRequest, Stale, Unavailable


class TopicNotThere(InvalidRequest):
    """The store has no topic, or no partition, of that name."""


class ScanRefused(InvalidRequest):
    """The options of a scan contradict each other, or one of them has an impossible value."""


class DataLost(InvalidRequest):
    """The scan would begin below the partition's first offset: retention or DeleteRecords has removed what is between
    them."""

    def __init__(self, partition: str, wanted: int, first: int) -> None:
        super().__init__(
            f"{partition}: the scan wants offsets from {wanted} on, but the partition begins at {first}:"
            f" {first - wanted} offsets were removed by retention or DeleteRecords; begin at {first} or at earliest, or"
            " set failOnDataLoss=false (in Python fail_on_data_loss=False)"
        )
        self.partition, self.wanted, self.first = partition, wanted, first


class OffsetBeyondEnd(InvalidRequest):
    """The scan wants offsets that the partition does not have yet."""

    def __init__(self, partition: str, wanted: int, end: int) -> None:
        super().__init__(
            f"{partition}: the scan wants offsets up to {wanted}, but the partition ends at {end}; use an offset that"
            " it has, or latest, or set failOnDataLoss=false (in Python fail_on_data_loss=False)"
        )
        self.partition, self.wanted, self.end = partition, wanted, end


class NoRecordAtTime(InvalidRequest):
    """A partition has no record at or after the time at which the scan begins."""

    def __init__(self, partition: str, timestamp_ms: int) -> None:
        super().__init__(
            f"{partition} has no record at or after the time {timestamp_ms} ms, where the scan begins; use an earlier"
            " time, or startingOffsetsByTimestampStrategy=latest to begin at the end of such a partition"
        )
        self.partition, self.timestamp_ms = partition, timestamp_ms


class TailNotReadable(Unavailable):
    """Acknowledged records may be in no object yet, and the broker that has them cannot be asked."""

    def __init__(self, partitions: list[str], node_id: int, reason: str) -> None:
        named = ", ".join(partitions[:3]) + (" …" if len(partitions) > 3 else "")
        super().__init__(
            f"node {node_id} has {counted(len(partitions), 'partition')} open ({named}), may hold acknowledged records"
            f" that are in no object yet, and {reason}. If the node has died, start it again, which uploads them;"
            " or read only what is in objects: tail=committed, at the command line --tail committed"
        )
        self.partitions, self.node_id, self.reason = partitions, node_id, reason


class NodeNotFlushed(Unavailable):
    """A node that was stopped without a flush, or does not answer, may have records in its log and in memory."""

    def __init__(self, node_id: int, location: str, reason: str) -> None:
        super().__init__(
            f"node {node_id} may have records in its write-ahead log {location}, and {reason}: start it again if it has"
            " ended; if that log is gone for good, unregister the node"
        )
        self.node_id, self.location, self.reason = node_id, location, reason


class ScanOutdated(Stale):
    """An object of the plan is no longer in its bucket: the plan is older than its objects are kept."""

    def __init__(self, object_id: int, planned_ms: int, now_ms: int, lease_until_ms: int) -> None:
        minutes = max(now_ms - planned_ms, 0) // 60_000
        held = (
            "without a lease"
            if not lease_until_ms
            else f"under a lease of {_minutes(planned_ms, lease_until_ms)}"
        )
        super().__init__(
            f"object {object_id} is no longer in its bucket: this scan was planned {minutes} minutes ago {held}, and"
            " compaction has replaced the object since; plan the scan again: scan(), or load() of Spark's reader"
        )
        self.object_id = object_id


def _minutes(planned_ms: int, until_ms: int) -> str:
    return f"{max(until_ms - planned_ms, 0) // 60_000} minutes"


class ScanDamaged(CorruptData):
    """An object, or what a broker sent, does not hold the records that the plan names. No row is passed over."""

    def __init__(self, partition: str, offset: int, cause: Exception) -> None:
        super().__init__(
            f"{partition} cannot be read from offset {offset} on: {type(cause).__name__}: {cause}; run siltstone check"
        )
        self.partition, self.offset = partition, offset


class RangeNotCovered(CorruptData):
    """The metadata names no object for committed offsets of a stream, or the object's index lacks a block of them."""
