"""DescribeQuorum: the leader and the voters of the quorum that holds the metadata.

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
    Structure,
    UInt16,
    Uuid,
    Versions,
)


class AskedPartition(Structure, frozen=True, kw_only=True):
    partition_index: Int32 = 0


class AskedTopic(Structure, frozen=True, kw_only=True):
    topic_name: str = ""
    partitions: list[AskedPartition] = []


class DescribeQuorumRequest(Message, frozen=True, kw_only=True):
    api_key: ClassVar[ApiKey] = ApiKey.DESCRIBE_QUORUM
    versions: ClassVar[tuple[int, int]] = (0, 2)
    flexible_since: ClassVar[int | None] = 0

    topics: list[AskedTopic] = []


class ReplicaState(Structure, frozen=True, kw_only=True):
    replica_id: Int32 = 0
    replica_directory_id: Annotated[Uuid, Versions(2)] = NO_UUID
    log_end_offset: Int64 = 0
    last_fetch_timestamp: Annotated[Int64, Versions(1)] = -1
    last_caught_up_timestamp: Annotated[Int64, Versions(1)] = -1


class QuorumPartition(Structure, frozen=True, kw_only=True):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: Annotated[str | None, Versions(2)] = ""
    leader_id: Int32 = 0
    leader_epoch: Int32 = 0
    high_watermark: Int64 = 0
    current_voters: list[ReplicaState] = []
    observers: list[ReplicaState] = []


class QuorumTopic(Structure, frozen=True, kw_only=True):
    topic_name: str = ""
    partitions: list[QuorumPartition] = []


class Listener(Structure, frozen=True, kw_only=True):
    name: str = ""
    host: str = ""
    port: UInt16 = 0


class Node(Structure, frozen=True, kw_only=True):
    node_id: Int32 = 0
    listeners: list[Listener] = []


class DescribeQuorumResponse(Message, frozen=True, kw_only=True):
    api_key: ClassVar[ApiKey] = ApiKey.DESCRIBE_QUORUM
    versions: ClassVar[tuple[int, int]] = (0, 2)
    flexible_since: ClassVar[int | None] = 0

    error_code: Int16 = 0
    error_message: Annotated[str | None, Versions(2)] = ""
    topics: list[QuorumTopic] = []
    nodes: Annotated[list[Node], Versions(2)] = []
