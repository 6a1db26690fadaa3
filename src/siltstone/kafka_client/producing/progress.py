"""A process that continues the work of an idempotent producer asks how far it came in a partition.

The process asks the broker first (DescribeProducers). The broker forgets a producer after a day; then the process reads
the headers of the partition's batches, which have producer id and sequence, too.
"""

from collections.abc import Iterable, Iterator

from siltstone.kafka_client.cluster import Cluster, TopicPartition
from siltstone.kafka_client.consuming import whole_batches
from siltstone.kafka_client.failures import KafkaNotReady, RequestNotSpoken
from siltstone.kafka_client.offsets import by_topic, refuse_partition_error
from siltstone.kafka_protocol.batch_header import BATCH_HEADER_BYTES, BatchHeader
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    TopicRequest,
)
from siltstone.kafka_protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from siltstone.kafka_protocol.records.control import Outcome, read_control_batch
from siltstone.model.buffers import Buffer
from siltstone.model.limits import MIB

FETCH_BYTES_MAX = 8 * MIB
FETCH_WAIT_MS = 500


def described_sequences(
    cluster: Cluster, partitions: Iterable[TopicPartition], producer_id: int
) -> dict[TopicPartition, int]:
    """Returns the last sequence of the producer in each partition that knows it. Raises KafkaRefusal, KafkaNotReady."""
    left = sorted(partitions)
    return cluster.patiently(lambda: _described(cluster, left, producer_id))


def _described(
    cluster: Cluster, partitions: list[TopicPartition], producer_id: int
) -> dict[TopicPartition, int]:
    found: dict[TopicPartition, int] = {}
    for leader, theirs in cluster.by_leader(partitions).items():
        topics = [
            TopicRequest(name=name, partition_indexes=numbers) for name, numbers in by_topic(theirs).items()
        ]
        try:
            answer = cluster.broker(leader).call(
                DescribeProducersRequest(topics=topics), DescribeProducersResponse
            )
        except RequestNotSpoken:
            return {}
        for topic in answer.topics:
            for row in topic.partitions:
                key = TopicPartition(topic.name, row.partition_index)
                refuse_partition_error(cluster, row.error_code, key)
                for known in row.active_producers:
                    if known.producer_id == producer_id:
                        found[key] = known.last_sequence
    return found


def last_sequence_between(
    cluster: Cluster, partition: TopicPartition, producer_id: int, start_offset: int, end_offset: int
) -> int | None:
    """Returns the last sequence that a batch of the producer has among the offsets [start, end); None if there is none.
    Raises KafkaRefusal, KafkaNotReady, RecordsDamaged."""
    found: int | None = None
    for header, _ in _batches_between(cluster, partition, start_offset, end_offset):
        if header.producer_id == producer_id and not header.is_control:
            found = header.last_sequence
    return found


def has_commit_between(
    cluster: Cluster, partition: TopicPartition, producer_id: int, start_offset: int, end_offset: int
) -> bool:
    """Returns whether a transaction of the producer was committed among the offsets [start, end). Raises KafkaRefusal,
    KafkaNotReady, RecordsDamaged, MalformedRecords."""
    return any(
        header.is_control
        and header.producer_id == producer_id
        and header.record_count > 0
        and read_control_batch(batch).outcome is Outcome.COMMIT
        for header, batch in _batches_between(cluster, partition, start_offset, end_offset)
    )


def _batches_between(
    cluster: Cluster, partition: TopicPartition, start_offset: int, end_offset: int
) -> Iterator[tuple[BatchHeader, Buffer]]:
    position = start_offset
    while position < end_offset:
        data = cluster.patiently(lambda: _fetched(cluster, partition, position))  # noqa: B023  called at once
        for header, batch in whole_batches(data):
            position = max(position, header.end_offset)
            if header.last_offset >= start_offset:
                yield header, batch


def _fetched(cluster: Cluster, partition: TopicPartition, position: int) -> memoryview:
    wanted = FetchPartition(index=partition.partition, fetch_offset=position, bytes_max=FETCH_BYTES_MAX)
    request = FetchRequest(
        max_wait_ms=FETCH_WAIT_MS, min_bytes=1, max_bytes=FETCH_BYTES_MAX,
        topics=[FetchTopic(name=partition.topic, partitions=[wanted])],
    )  # fmt: skip
    answer = cluster.broker(cluster.leader_of(partition)).call(request, FetchResponse)
    for topic in answer.topics:
        for row in topic.partitions:
            refuse_partition_error(cluster, row.error_code, partition, position)
            records = row.records[0] if row.records else b""
            if len(records) >= BATCH_HEADER_BYTES:
                return memoryview(records)
    raise KafkaNotReady(
        ErrorCode.OFFSET_NOT_AVAILABLE, f"{partition} does not give offset {position}: try again"
    )
