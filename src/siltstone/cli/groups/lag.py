"""The lag of a consumer group: per partition, and the sum, in records and in bytes."""

from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType

import msgspec

from siltstone.kafka_client.cluster import Cluster, TopicPartition
from siltstone.kafka_client.failures import KafkaRefusal
from siltstone.kafka_client.offsets import EARLIEST, LATEST, offsets_at
from siltstone.kafka_client.partition_sizes import partition_sizes


class PartitionLag(msgspec.Struct, frozen=True):
    """``committed`` None: the group has committed no offset; ``end_offset`` None: the partition does not exist any
    more. ``completed``: the records behind ``committed`` with which a share group is done."""

    key: TopicPartition
    committed: int | None
    end_offset: int | None
    completed: int = 0

    @property
    def lag(self) -> int | None:
        if self.committed is None or self.end_offset is None:
            return None
        return max(0, self.end_offset - self.committed - self.completed)

    @property
    def is_without_commit(self) -> bool:
        """Whether the partition has had records, and no offset that the group has committed: the lag there is not
        known, since the group's consumers may begin at the start or at the end."""
        return self.committed is None and bool(self.end_offset)


class LagRate(msgspec.Struct, frozen=True):
    """What has happened in the partitions of a group between two looks: ``written`` and ``committed`` offsets, in the
    partitions whose lag both looks know."""

    seconds: float
    written: int
    committed: int

    @property
    def written_per_s(self) -> float:
        return self.written / self.seconds

    @property
    def committed_per_s(self) -> float:
        return self.committed / self.seconds

    @property
    def change_per_s(self) -> float:
        """How fast the lag grows; it shrinks if this is negative."""
        return self.written_per_s - self.committed_per_s


def rate_between(before: Iterable[PartitionLag], after: Iterable[PartitionLag], seconds: float) -> LagRate:
    """Returns the rate of two looks at a group. An offset that moved back, because the group was reset, counts as a
    negative number of commits."""
    earlier = {each.key: each for each in before if each.lag is not None}
    written = committed = 0
    for now in after:
        was = earlier.get(now.key)
        if was is None or now.lag is None:
            continue
        assert now.end_offset is not None and was.end_offset is not None, "they have a lag"
        assert now.committed is not None and was.committed is not None, "they have a lag"
        written += now.end_offset - was.end_offset
        committed += now.committed - was.committed
    return LagRate(seconds, written, committed)


def end_offsets(cluster: Cluster, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """Returns the end offset of each partition that exists; a group can have offsets of topics that were deleted."""
    wanted = set(partitions)
    try:
        return _offsets_of(cluster, wanted, LATEST)
    except KafkaRefusal:
        return _offsets_of(cluster, _known(cluster, wanted), LATEST)


def _offsets_of(
    cluster: Cluster, partitions: Collection[TopicPartition], timestamp_ms: int
) -> dict[TopicPartition, int]:
    if not partitions:
        return {}
    return {key: found.offset for key, found in offsets_at(cluster, partitions, timestamp_ms).items()}


def record_bytes(
    cluster: Cluster, behind: Collection[TopicPartition], ends: Mapping[TopicPartition, int]
) -> dict[TopicPartition, float]:
    """Returns the bytes of an average offset in each of these partitions, in which groups have something left to read:
    the bytes of the partition, as its broker reports them, divided by its offsets. A partition is left out if its
    broker says nothing about it. It takes two requests for each leader, and no record is read."""
    sizes = partition_sizes(cluster, behind)
    starts = _offsets_of(cluster, sizes.keys(), EARLIEST)
    return {key: size / max(1, ends[key] - starts[key]) for key, size in sizes.items()}


def lag_bytes(rows: Iterable[PartitionLag], each: Mapping[TopicPartition, float]) -> int | None:
    """Returns about how many bytes a group has left to read, ``each`` being what ``record_bytes`` returns; None if one
    of the partitions is not among them."""
    behind = [row for row in rows if row.lag]
    if any(row.key not in each for row in behind):
        return None
    return round(sum((row.lag or 0) * each[row.key] for row in behind))


def partitions_of_topics(cluster: Cluster, names: Iterable[str]) -> set[TopicPartition]:
    """Returns all partitions of the topics that exist."""
    wanted = set(names)
    topics = cluster.learn(sorted(wanted)) if wanted else ()
    return {TopicPartition(t.name or "", p.partition_index) for t in topics for p in t.partitions}


def without_commit(
    committed: Mapping[TopicPartition, int],
    partitions: Iterable[TopicPartition],
    ends: Mapping[TopicPartition, int],
) -> int:
    """Returns how many of these partitions are without a commit of the group."""
    return sum(PartitionLag(key, committed.get(key), ends.get(key)).is_without_commit for key in partitions)


def _known(cluster: Cluster, wanted: set[TopicPartition]) -> set[TopicPartition]:
    return wanted & partitions_of_topics(cluster, {key.topic for key in wanted})


def partition_lags(
    committed: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    completed: Mapping[TopicPartition, int] = MappingProxyType({}),
) -> list[PartitionLag]:
    """Returns the lag of a group in each partition for which it has committed an offset."""
    return [
        PartitionLag(key, offset, ends.get(key), completed.get(key, 0)) for key, offset in committed.items()
    ]


def total_lag(rows: Iterable[PartitionLag]) -> int:
    return sum(row.lag or 0 for row in rows)
