"""Offsets of partitions: finds their ends and the offset for a timestamp, and deletes the records before an offset."""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from siltstone.kafka_client.cluster import Cluster, TopicPartition
from siltstone.kafka_client.failures import KafkaNotReady, RecordsDamaged, refuse_error
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from siltstone.kafka_protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

LATEST = -1
EARLIEST = -2
NEWEST = -3
"""Kafka's special timestamps: the end of the partition, its start, and the record with the largest timestamp."""

READ_UNCOMMITTED, READ_COMMITTED = 0, 1
"""Kafka's isolation levels. A reader of committed records gets those of committed transactions and those outside of
transactions, up to the first transaction that is not decided."""

NO_OFFSET = -1
NO_REPLICA = -1
DELETE_TIME_LIMIT_MS = 30_000


class FoundOffset(msgspec.Struct, frozen=True):
    """``offset`` is −1 if no record has the timestamp or a later one; ``timestamp_ms`` −1 for EARLIEST and LATEST."""

    offset: int
    timestamp_ms: int


class Ends(msgspec.Struct, frozen=True):
    """The offsets of a partition, [start, end)."""

    start_offset: int
    end_offset: int

    @property
    def span(self) -> int:
        """The number of offsets; the partition has at most as many records, fewer after compaction."""
        return self.end_offset - self.start_offset


def offsets_at(
    cluster: Cluster,
    partitions: Iterable[TopicPartition],
    timestamp_ms: int,
    isolation: int = READ_UNCOMMITTED,
) -> dict[TopicPartition, FoundOffset]:
    """Returns the offset, in each partition, of the first record at or after ``timestamp_ms``, or of LATEST, EARLIEST
    or NEWEST. Raises KafkaNotReady, KafkaRefusal."""
    left = sorted(partitions)
    return cluster.patiently(lambda: _offsets_at(cluster, left, timestamp_ms, isolation))


def _offsets_at(
    cluster: Cluster, partitions: Sequence[TopicPartition], timestamp_ms: int, isolation: int
) -> dict[TopicPartition, FoundOffset]:
    found: dict[TopicPartition, FoundOffset] = {}
    for leader, theirs in cluster.by_leader(partitions).items():
        topics = [
            ListOffsetsTopic(
                name=topic,
                partitions=[ListOffsetsPartition(partition_index=n, timestamp=timestamp_ms) for n in numbers],
            )
            for topic, numbers in by_topic(theirs).items()
        ]
        request = ListOffsetsRequest(replica_id=NO_REPLICA, isolation_level=isolation, topics=topics)
        found |= _checked(cluster, cluster.broker(leader).call(request, ListOffsetsResponse))
    return found


def _checked(cluster: Cluster, answer: ListOffsetsResponse) -> dict[TopicPartition, FoundOffset]:
    found: dict[TopicPartition, FoundOffset] = {}
    for topic in answer.topics:
        for partition in topic.partitions:
            key = TopicPartition(topic.name, partition.partition_index)
            refuse_partition_error(cluster, partition.error_code, key)
            found[key] = FoundOffset(partition.offset, partition.timestamp)
    return found


def refuse_partition_error(
    cluster: Cluster, code: int, partition: TopicPartition, offset: int | None = None
) -> None:
    """Raises RecordsDamaged, KafkaRefusal or KafkaNotReady unless ``code`` is 0; forgets the leaders after
    KafkaNotReady. ``offset`` is the one that was asked for, if any."""
    if code == ErrorCode.CORRUPT_MESSAGE:
        raise RecordsDamaged(partition, offset)
    try:
        refuse_error(code, f"partition {partition}")
    except KafkaNotReady:
        cluster.forget_leaders()
        raise


def ends_of(
    cluster: Cluster, partitions: Iterable[TopicPartition], isolation: int = READ_UNCOMMITTED
) -> dict[TopicPartition, Ends]:
    """Returns the start and end offsets of each partition. Raises KafkaNotReady, KafkaRefusal."""
    asked = list(partitions)
    starts = offsets_at(cluster, asked, EARLIEST)
    ends = offsets_at(cluster, asked, LATEST, isolation)
    return {key: Ends(starts[key].offset, ends[key].offset) for key in asked}


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    grouped: dict[str, list[int]] = {}
    for key in partitions:
        grouped.setdefault(key.topic, []).append(key.partition)
    return grouped


def delete_records(cluster: Cluster, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Deletes the records before the given offsets; returns the new start offset of each partition. Raises
    KafkaNotReady, KafkaRefusal."""
    return cluster.patiently(lambda: _delete_records(cluster, before))


def _delete_records(cluster: Cluster, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    starts: dict[TopicPartition, int] = {}
    for leader, theirs in cluster.by_leader(before).items():
        topics = [
            DeleteRecordsTopic(
                name=topic,
                partitions=[
                    DeleteRecordsPartition(
                        partition_index=number, offset=before[TopicPartition(topic, number)]
                    )
                    for number in numbers
                ],
            )
            for topic, numbers in by_topic(theirs).items()
        ]
        request = DeleteRecordsRequest(topics=topics, timeout_ms=DELETE_TIME_LIMIT_MS)
        for topic in cluster.broker(leader).call(request, DeleteRecordsResponse).topics:
            for result in topic.partitions:
                key = TopicPartition(topic.name, result.partition_index)
                refuse_partition_error(cluster, result.error_code, key)
                starts[key] = result.low_watermark
    return starts
