"""Produce: append record batches to partitions.

Written by tools/kafka-messages.
"""

from typing import Annotated, ClassVar

from siltstone.kafka_protocol.api_key import ApiKey
from siltstone.kafka_protocol.notation import (
    NO_UUID,
    Int16,
    Int32,
    Int64,
    Message,
    Records,
    Structure,
    Tag,
    Uuid,
    Versions,
)


class ProducePartition(Structure, frozen=True, kw_only=True):
    index: Int32 = 0
    records: Records | None = None


class ProduceTopic(Structure, frozen=True, kw_only=True):
    name: Annotated[str, Versions(3, 12)] = ""
    topic_id: Annotated[Uuid, Versions(13)] = NO_UUID
    partitions: list[ProducePartition] = []


class ProduceRequest(Message, frozen=True, kw_only=True):
    api_key: ClassVar[ApiKey] = ApiKey.PRODUCE
    versions: ClassVar[tuple[int, int]] = (3, 13)
    flexible_since: ClassVar[int | None] = 9

    transactional_id: str | None = None
    acks: Int16 = 0
    timeout_ms: Int32 = 0
    topics: list[ProduceTopic] = []


class RecordError(Structure, frozen=True, kw_only=True):
    batch_index: Int32 = 0
    message: str | None = None


class CurrentLeader(Structure, frozen=True, kw_only=True):
    leader_id: Int32 = -1
    leader_epoch: Int32 = -1


class ProducedPartition(Structure, frozen=True, kw_only=True):
    index: Int32 = 0
    error_code: Int16 = 0
    base_offset: Int64 = -1
    log_append_time_ms: Int64 = -1
    log_start_offset: Annotated[Int64, Versions(5)] = -1
    record_errors: Annotated[list[RecordError], Versions(8)] = []
    error_message: Annotated[str | None, Versions(8)] = None
    current_leader: Annotated[CurrentLeader, Versions(10), Tag(0)] = CurrentLeader()


class ProducedTopic(Structure, frozen=True, kw_only=True):
    name: Annotated[str, Versions(3, 12)] = ""
    topic_id: Annotated[Uuid, Versions(13)] = NO_UUID
    partitions: list[ProducedPartition] = []


class NodeEndpoint(Structure, frozen=True, kw_only=True):
    node_id: Int32 = 0
    host: str = ""
    port: Int32 = 0
    rack: str | None = None


class ProduceResponse(Message, frozen=True, kw_only=True):
    api_key: ClassVar[ApiKey] = ApiKey.PRODUCE
    versions: ClassVar[tuple[int, int]] = (3, 13)
    flexible_since: ClassVar[int | None] = 9

    topics: list[ProducedTopic] = []
    throttle_time_ms: Int32 = 0
    node_endpoints: Annotated[list[NodeEndpoint], Versions(10), Tag(0)] = []
