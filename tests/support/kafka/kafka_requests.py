"""Requests that carry data, and what is in their answers, in few words."""

from collections.abc import Iterable, Mapping
from typing import Any

from siltstone.broker.topics.registry import Topic
from siltstone.kafka_protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from siltstone.kafka_protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from siltstone.kafka_protocol.messages.produce import ProducePartition, ProduceRequest, ProduceTopic
from siltstone.kafka_protocol.records.building import build_batch
from siltstone.kafka_protocol.records.reading import Record
from siltstone.model.buffers import Buffer
from siltstone.runtime.clock import ManualClock
from support.kafka.kafka_batches import bytes_of_records, iterate_headers

NOW_MS = ManualClock().now_ms()
TOPIC_IDS = 13
"""Since this version of Produce and Fetch topics come by id."""


def batch_of(
    count: int = 1,
    *,
    value_bytes: int = 10,
    timestamp_ms: int = NOW_MS,
    key: bytes | None = b"k",
    **fields: Any,
) -> bytearray:
    """``fields``: producer_id, producer_epoch, base_sequence, compression."""
    records = [Record(timestamp_ms=timestamp_ms, key=key, value=b"v" * value_bytes) for _ in range(count)]
    return build_batch(records, **fields)


def timed_batch(*timestamps_ms: int, value: bytes = b"value", **fields: Any) -> bytearray:
    """A record for each time."""
    return build_batch([Record(timestamp_ms=ms, key=b"k", value=value) for ms in timestamps_ms], **fields)


def sequenced(producer_id: int, sequence: int, count: int = 1, epoch: int = 0, **fields: Any) -> bytearray:
    return batch_of(count, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, **fields)


def produce_request(
    topic: Topic, *batches: Buffer | None, acks: int = -1, timeout_ms: int = 30_000, **fields: Any
) -> ProduceRequest:
    """The first batch for partition 0, the second for 1 and so on."""
    partitions = [ProducePartition(index=index, records=batch) for index, batch in enumerate(batches)]
    return ProduceRequest(
        acks=acks,
        timeout_ms=timeout_ms,
        topics=[ProduceTopic(name=topic.name, topic_id=topic.topic_id, partitions=partitions)],
        **fields,
    )


def fetch_request(
    topic: Topic,
    offsets: Mapping[int, int] | Iterable[FetchPartition],
    *,
    bytes_max: int = 1 << 20,
    wait_ms: int = 500,
    forgotten: Iterable[int] = (),
    **fields: Any,
) -> FetchRequest:
    """``offsets`` by partition, or the partitions as they are to be asked."""
    if isinstance(offsets, Mapping):
        partitions = [
            FetchPartition(index=index, fetch_offset=offset, bytes_max=bytes_max)
            for index, offset in offsets.items()
        ]
    else:
        partitions = list(offsets)
    named = {"name": topic.name, "topic_id": topic.topic_id}
    forgotten = list(forgotten)
    return FetchRequest(
        max_wait_ms=wait_ms,
        topics=[FetchTopic(**named, partitions=partitions)] if partitions else [],
        forgotten_topics=[ForgottenTopic(**named, partitions=forgotten)] if forgotten else [],
        **{"min_bytes": 1, **fields},
    )


def list_offsets_request(topic: Topic, timestamp: int, index: int = 0, **fields: Any) -> ListOffsetsRequest:
    partition = ListOffsetsPartition(partition_index=index, timestamp=timestamp, **fields)
    return ListOffsetsRequest(topics=[ListOffsetsTopic(name=topic.name, partitions=[partition])])


def rows_of(response: Any) -> list[Any]:
    """The partitions of an answer to Produce, Fetch, ListOffsets, …, in order."""
    topics = response.responses if hasattr(response, "responses") else response.topics
    return [row for topic in topics for row in topic.partitions]


def row_of(response: Any) -> Any:
    (row,) = rows_of(response)
    return row


def batches_in(row: Any) -> list[tuple[int, int]]:
    """First and last offset of each batch in a row of a fetch; they are whole."""
    return [(header.base_offset, header.last_offset) for _, header in iterate_headers(bytes_of_records(row))]
