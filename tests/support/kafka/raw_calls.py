"""The most frequent requests of clients over a ``RawConnection``, in few words: topics are made, batches sent and
fetched."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from siltstone.kafka_protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from siltstone.kafka_protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from siltstone.kafka_protocol.messages.init_producer_id import InitProducerIdRequest
from siltstone.kafka_protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from siltstone.kafka_protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from siltstone.kafka_protocol.messages.produce import ProducePartition, ProduceRequest, ProduceTopic
from siltstone.kafka_protocol.notation import NO_UUID
from siltstone.kafka_protocol.records.building import build_batch
from siltstone.kafka_protocol.records.reading import Record, iterate_records
from siltstone.model.buffers import Buffer
from support.kafka.kafka_batches import bytes_of_records, iterate_headers
from support.kafka.raw_kafka import RawConnection

MEBIBYTE = 1 << 20
TIMESTAMP_MS = 1_700_000_000_000


class RawTopic(msgspec.Struct, frozen=True):
    name: str
    id: bytes = NO_UUID


NOWHERE = RawTopic("nowhere", b"\x07" * 16)
"""Nobody has created it."""


# -- topics ----------------------------------------------------------------------------------------------


def create_topic(
    connection: RawConnection, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None
) -> RawTopic:
    rows = [CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()]
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=-1, configs=rows)
    (result,) = connection.ask(CreateTopicsRequest(topics=[topic]), 7).topics
    assert result.error_code == 0, result.error_message
    return RawTopic(name, bytes(result.topic_id))


def metadata_request(*names: str, creates: bool = False, **fields: Any) -> MetadataRequest:
    topics = [MetadataRequestTopic(name=name) for name in names]
    return MetadataRequest(topics=topics, allow_auto_topic_creation=creates, **fields)


# -- produce ---------------------------------------------------------------------------------------------


def batch_of(
    count: int = 1, *, value_bytes: int = 10, timestamp_ms: int = TIMESTAMP_MS, **fields: Any
) -> bytearray:
    """``fields`` as ``build_batch`` has them."""
    records = [Record(timestamp_ms=timestamp_ms, key=b"k", value=b"v" * value_bytes) for _ in range(count)]
    return build_batch(records, **fields)


def sequenced(producer: tuple[int, int], sequence: int, count: int = 1, **fields: Any) -> bytearray:
    producer_id, epoch = producer
    return batch_of(count, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, **fields)


def produce_request(
    topic: RawTopic,
    batches: Mapping[int, Buffer | None],
    *,
    acks: int = -1,
    timeout_ms: int = 5_000,
    **fields: Any,
) -> ProduceRequest:
    """``batches`` by partition."""
    data = [ProducePartition(index=index, records=batch) for index, batch in batches.items()]
    of_topic = ProduceTopic(name=topic.name, topic_id=topic.id, partitions=data)
    return ProduceRequest(acks=acks, timeout_ms=timeout_ms, topics=[of_topic], **fields)


def produced_rows(response: Any) -> list[Any]:
    return [row for topic in response.topics for row in topic.partitions]


def produce(
    connection: RawConnection, topic: RawTopic, batch: Buffer | None, *, partition: int = 0, version: int = 9
) -> Any:
    """The one row of the answer."""
    (row,) = produced_rows(connection.ask(produce_request(topic, {partition: batch}), version))
    return row


def produce_well(
    connection: RawConnection, topic: RawTopic, *batches: Buffer, partition: int = 0
) -> list[int]:
    """Their base offsets."""
    rows = [produce(connection, topic, batch, partition=partition) for batch in batches]
    assert [row.error_code for row in rows] == [0] * len(rows)
    return [row.base_offset for row in rows]


def new_producer(connection: RawConnection) -> tuple[int, int]:
    response = connection.ask(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1_000), 4)
    assert response.error_code == 0
    return response.producer_id, response.producer_epoch


# -- fetch -----------------------------------------------------------------------------------------------


def fetch_request(
    topic: RawTopic,
    offsets: Mapping[int, int],
    *,
    wait_ms: int = 0,
    bytes_max: int = MEBIBYTE,
    forgotten: Sequence[int] = (),
    **fields: Any,
) -> FetchRequest:
    """``offsets`` by partition. ``fields``: session_id, session_epoch, isolation_level."""
    partitions = [
        FetchPartition(index=index, fetch_offset=offset, bytes_max=MEBIBYTE)
        for index, offset in offsets.items()
    ]
    return FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=1,
        max_bytes=bytes_max,
        topics=[FetchTopic(name=topic.name, topic_id=topic.id, partitions=partitions)] if partitions else [],
        forgotten_topics=[ForgottenTopic(name=topic.name, topic_id=topic.id, partitions=list(forgotten))]
        if forgotten
        else [],
        **fields,
    )


def fetched_rows(response: Any) -> list[Any]:
    return [row for topic in response.topics for row in topic.partitions]


def fetch(
    connection: RawConnection,
    topic: RawTopic,
    offset: int,
    *,
    partition: int = 0,
    version: int = 11,
    **more: Any,
) -> Any:
    """The one row of the answer."""
    (row,) = fetched_rows(connection.ask(fetch_request(topic, {partition: offset}, **more), version))
    return row


def batches_in(row: Any) -> list[tuple[int, int]]:
    """First and last offset of each batch; they are whole, or this fails."""
    return [(header.base_offset, header.last_offset) for _, header in iterate_headers(bytes_of_records(row))]


def records_in(row: Any) -> list[Record]:
    return [
        record
        for start, header in iterate_headers(bytes_of_records(row))
        for record in iterate_records(bytes_of_records(row)[start : start + header.size_bytes])
    ]


def read_all(connection: RawConnection, topic: RawTopic, partition: int = 0, offset: int = 0) -> list[Record]:
    """Everything from ``offset`` to the high watermark, as a consumer reads it."""
    records: list[Record] = []
    while True:
        row = fetch(connection, topic, offset, partition=partition)
        assert row.error_code == 0
        found = [record for record in records_in(row) if record.offset >= offset]
        if not found and offset >= row.high_watermark:
            return records
        assert found, f"nothing at {offset}, and the high watermark is {row.high_watermark}"
        records += found
        offset = batches_in(row)[-1][1] + 1


# -- offsets ---------------------------------------------------------------------------------------------


def list_offsets_request(
    topic: RawTopic, timestamps: Mapping[int, int] | Iterable[tuple[int, int]], **fields: Any
) -> ListOffsetsRequest:
    """(partition, timestamp) each. ``fields``: isolation_level."""
    rows = timestamps.items() if isinstance(timestamps, Mapping) else timestamps
    partitions = [ListOffsetsPartition(partition_index=index, timestamp=stamp) for index, stamp in rows]
    return ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsTopic(name=topic.name, partitions=partitions)], **fields
    )


def list_offset(
    connection: RawConnection,
    topic: RawTopic,
    timestamp: int,
    *,
    partition: int = 0,
    version: int = 7,
    **fields: Any,
) -> Any:
    """The one row of the answer."""
    request = list_offsets_request(topic, {partition: timestamp}, **fields)
    (answered,) = connection.ask(request, version).topics
    (row,) = answered.partitions
    return row
