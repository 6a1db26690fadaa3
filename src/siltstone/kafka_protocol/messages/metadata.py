"""Metadata: the brokers, the topics, and the leader of each partition.

Written by tools/kafka-messages.
"""

from typing import Annotated, ClassVar

from siltstone.kafka_protocol.api_key import ApiKey
from siltstone.kafka_protocol.notation import (
    NO_UUID,
    Int16,
    Int32,
    Message,
    NullableSince,
    Structure,
    Uuid,
    Versions,
)


class MetadataRequestTopic(Structure, frozen=True, kw_only=True):
    topic_id: Annotated[Uuid, Versions(10)] = NO_UUID
    name: Annotated[str | None, NullableSince(10)] = ""


class MetadataRequest(Message, frozen=True, kw_only=True):
    api_key: ClassVar[ApiKey] = ApiKey.METADATA
    versions: ClassVar[tuple[int, int]] = (0, 13)
    flexible_since: ClassVar[int | None] = 9

    topics: Annotated[list[MetadataRequestTopic] | None, NullableSince(1)] = []
    allow_auto_topic_creation: Annotated[bool, Versions(4)] = True
    include_cluster_authorized_operations: Annotated[bool, Versions(8, 10)] = False
    include_topic_authorized_operations: Annotated[bool, Versions(8)] = False


class MetadataResponseBroker(Structure, frozen=True, kw_only=True):
    node_id: Int32 = 0
    host: str = ""
    port: Int32 = 0
    rack: Annotated[str | None, Versions(1)] = None


class MetadataResponsePartition(Structure, frozen=True, kw_only=True):
    error_code: Int16 = 0
    partition_index: Int32 = 0
    leader_id: Int32 = 0
    leader_epoch: Annotated[Int32, Versions(7)] = -1
    replica_nodes: list[Int32] = []
    isr_nodes: list[Int32] = []
    offline_replicas: Annotated[list[Int32], Versions(5)] = []


class MetadataResponseTopic(Structure, frozen=True, kw_only=True):
    error_code: Int16 = 0
    name: Annotated[str | None, NullableSince(12)] = ""
    topic_id: Annotated[Uuid, Versions(10)] = NO_UUID
    is_internal: Annotated[bool, Versions(1)] = False
    partitions: list[MetadataResponsePartition] = []
    topic_authorized_operations: Annotated[Int32, Versions(8)] = -0x80000000


class MetadataResponse(Message, frozen=True, kw_only=True):
    api_key: ClassVar[ApiKey] = ApiKey.METADATA
    versions: ClassVar[tuple[int, int]] = (0, 13)
    flexible_since: ClassVar[int | None] = 9

    throttle_time_ms: Annotated[Int32, Versions(3)] = 0
    brokers: list[MetadataResponseBroker] = []
    cluster_id: Annotated[str | None, Versions(2)] = None
    controller_id: Annotated[Int32, Versions(1)] = -1
    topics: list[MetadataResponseTopic] = []
    cluster_authorized_operations: Annotated[Int32, Versions(8, 10)] = -0x80000000
    error_code: Annotated[Int16, Versions(13)] = 0
