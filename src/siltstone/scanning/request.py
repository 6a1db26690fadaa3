"""Defines the request for a scan: its topics and partitions, where it begins and ends, its columns, and how tails are
read. Times are in milliseconds since 1970."""

import re
from collections.abc import Mapping
from enum import Enum, IntEnum

import msgspec

from siltstone.model import limits
from siltstone.offline.topic_streams import PartitionName
from siltstone.record_columns.row_columns import ROW_COLUMNS
from siltstone.scanning.failures import ScanRefused
from siltstone.topic_configs.table_export import TableColumn
from siltstone.value_formats.value_format import BadValues, FormatKind, Schema, ValueFormat

SCAN_LEASE_MS = 1 * limits.HOUR_MS
UNIT_BYTES_MAX = 64 * limits.MIB
"""Bytes as stored. A unit of that size keeps a task busy for about a second, compared with which the milliseconds that
Spark needs for each task are few."""


class BoundKind(IntEnum):
    EARLIEST = 1
    LATEST = 2
    OFFSET = 3
    TIME = 4


class Bound(msgspec.Struct, frozen=True):
    """Where the cut of a partition begins or ends: at its start, at its end, at an offset, or at the first record with
    the time ``value`` or a later one."""

    kind: BoundKind
    value: int = 0


EARLIEST = Bound(BoundKind.EARLIEST)
LATEST = Bound(BoundKind.LATEST)


class Bounds(msgspec.Struct, frozen=True):
    """One bound for all partitions, and others for the partitions that are named. Without ``default`` every partition
    has to be named."""

    default: Bound | None
    named: Mapping[PartitionName, Bound] = {}
    no_record_means_end: bool = False
    """If a scan begins at a time, and a partition has no record at that time or later: true means that the scan begins
    at the partition's end, false that it is refused. A scan that ends at such a time always ends at the partition's
    end."""

    def of(self, partition: PartitionName) -> Bound | None:
        return self.named.get(partition, self.default)


class Tail(Enum):
    """``AUTO``: records that are in no object yet are read from the broker of an open partition; the broker of a
    compacted topic uploads it first, since key compaction may remove records of a tail before they are read. ``FETCH``:
    the broker is asked for closed partitions, too. ``FLUSH``: brokers upload first, and only objects are read.
    ``COMMITTED``: a partition ends where its objects end."""

    AUTO = "auto"
    FETCH = "fetch"
    FLUSH = "flush"
    COMMITTED = "committed"


class Isolation(Enum):
    """``COMMITTED``: a partition ends before the first transaction that is not decided, and records of aborted ones are
    left out. ``UNCOMMITTED``: all records are read, also of transactions that are open or aborted."""

    COMMITTED = "committed"
    UNCOMMITTED = "uncommitted"


class TimeRange(msgspec.Struct, frozen=True):
    """Times in [from_ms, until_ms), each None for no bound. Every record is compared by itself. ``trusts_batches``:
    a block whose header gives only older times is not read, even if producers set the times of the topic."""

    from_ms: int | None = None
    until_ms: int | None = None
    trusts_batches: bool = False


class ValueWish(msgspec.Struct, frozen=True):
    """Says how the caller wants the column ``value`` decoded, before the schema has been looked up. The schema is
    ``reader`` or ``type_ipc`` if the caller gives one of them, otherwise the newest of ``subject`` in the registry.

    ``infers``: each field of JSON objects becomes a column, which is found from the records unless it is among
    ``listed``. The columns that were found are kept at ``location``, the URL or the folder of a place beside the
    query's own state; "": they are not kept."""

    kind: FormatKind
    reader: Schema | None = None
    type_ipc: bytes = b""
    registry: str = ""
    subject: str = ""
    message: str = ""
    on_bad: BadValues = BadValues.FAIL
    infers: bool = False
    listed: tuple[TableColumn, ...] = ()
    location: str = ""


class ScanRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Exactly one of ``topics``, ``pattern`` (a regular expression that has to match the whole name) and ``assigned``
    (topic → partitions) is given. If ``partitions`` is given, only partitions with these numbers are read.
    ``unit_bytes_max`` and ``unit_offsets_max`` limit each unit, and ``units_min`` lowers the limit of bytes; the latter
    two are no limit where they are 0.

    ``by_object`` joins the pieces of one object into one unit, so that its index is read once; otherwise the pieces are
    in the order of partitions and offsets. Tails come last.

    ``lease_ms`` is how long the objects of the plan are kept for the scan after compaction has replaced them. 0: for
    the grace period only; such a scan writes nothing into the metadata. ``pin_token`` belongs to a scan that renews its
    pin; other scans share pins.

    ``times`` leaves out records by their time. ``values`` asks for decoded values; ``value_format`` is set when their
    schema has been settled. ``rows_max``: the first records in the order of partitions and offsets are enough; 0: all
    are read."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    assigned: Mapping[str, tuple[int, ...]] | None = None
    partitions: tuple[int, ...] | None = None
    start: Bounds = Bounds(EARLIEST)
    end: Bounds = Bounds(LATEST, no_record_means_end=True)
    columns: tuple[str, ...] = ROW_COLUMNS
    tail: Tail = Tail.AUTO
    isolation: Isolation = Isolation.COMMITTED
    fail_on_data_loss: bool = True
    unit_bytes_max: int = UNIT_BYTES_MAX
    unit_offsets_max: int = 0
    units_min: int = 0
    by_object: bool = False
    lease_ms: int = SCAN_LEASE_MS
    pin_token: str = ""
    times: TimeRange | None = None
    values: ValueWish | None = None
    value_format: ValueFormat | None = None
    rows_max: int = 0


_DURATION = re.compile(r"(\d{1,12})(ms|s|min|h|d)?")
_UNITS_MS = {"ms": 1, "s": limits.SECOND_MS, "min": limits.MINUTE_MS, "h": limits.HOUR_MS, "d": limits.DAY_MS}


def duration_ms_of(text: str) -> int | None:
    """Parses ``1h``, ``90min`` or ``0`` into milliseconds; None for anything else."""
    parts = _DURATION.fullmatch(text.strip())
    if parts is None or not (parts[2] or int(parts[1]) == 0):
        return None
    return int(parts[1]) * _UNITS_MS[parts[2] or "ms"]


def lease_ms_of(text: str) -> int:
    """Parses the lease of a scan into milliseconds. Raises ScanRefused."""
    lease_ms = duration_ms_of(text)
    if lease_ms is None or lease_ms > limits.SCAN_PIN_MS_MAX:
        raise ScanRefused(f"the lease of a scan cannot be {text!r}: write 0 to 24h, such as 90min or 6h")
    return lease_ms
