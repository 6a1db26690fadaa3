"""Produce, as the broker speaks it: the hot path, so records are slices of the received buffer and never copied.

The same bytes as ``messages.produce`` describes, under shorter names; a property test holds them against each other.
Read next: ``batch_header``, which checks and patches the records.
"""

from typing import Annotated, ClassVar

from siltstone.kafka_protocol.api_key import ApiKey
from siltstone.kafka_protocol.codec import decode_in_place, encode
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
from siltstone.model.buffers import Buffer


class ProducePartition(Structure, frozen=True, kw_only=True):
    index: Int32 = 0
    records: Records | None = None
    """A slice of the request's own buffer."""


class ProduceTopic(Structure, frozen=True, kw_only=True):
    """Named up to version 12, identified from 13 on."""

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
    """Which record of a refused batch is to blame."""

    batch_index: Int32 = 0
    message: str | None = None


class CurrentLeader(Structure, frozen=True, kw_only=True):
    """Where a client should have gone (KIP-951)."""

    leader_id: Int32 = -1
    leader_epoch: Int32 = -1


class NodeEndpoint(Structure, frozen=True, kw_only=True):
    """How to reach a current leader (KIP-951)."""

    node_id: Int32 = 0
    host: str = ""
    port: Int32 = 0
    rack: str | None = None


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


class ProduceResponse(Message, frozen=True, kw_only=True):
    api_key: ClassVar[ApiKey] = ApiKey.PRODUCE
    versions: ClassVar[tuple[int, int]] = (3, 13)
    flexible_since: ClassVar[int | None] = 9

    topics: list[ProducedTopic] = []
    throttle_time_ms: Int32 = 0
    node_endpoints: Annotated[list[NodeEndpoint], Versions(10), Tag(0)] = []


def decode_produce_request(version: int, body: Buffer) -> ProduceRequest:
    """Raises MalformedMessage, UnknownVersion."""
    return decode_in_place(ProduceRequest, version, body)


def encode_produce_response(version: int, response: ProduceResponse) -> bytes:
    """Raises UnencodableMessage, UnknownVersion."""
    return encode(response, version)
