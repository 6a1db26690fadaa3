"""Records on their way: one, and a batch of them."""

import msgspec

from siltstone.kafka_client.topic_partition import TopicPartition
from siltstone.kafka_protocol.records.record import RecordHeader
from siltstone.model.buffers import Buffer


class OutgoingRecord(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """``line``: where it stands in the input. ``timestamp_ms`` None: now. ``partition`` None: the key decides."""

    line: int
    key: bytes | None = None
    value: bytes | None = None
    headers: tuple[RecordHeader, ...] = ()
    timestamp_ms: int | None = None
    partition: int | None = None


class OutgoingBatch(msgspec.Struct, frozen=True, kw_only=True):
    """``number``: its place among all batches. ``lines``: those of its records, in order."""

    number: int
    partition: TopicPartition
    data: Buffer
    lines: list[int]
