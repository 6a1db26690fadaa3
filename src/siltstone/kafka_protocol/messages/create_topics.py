"""CreateTopics: create topics.

Written by tools/kafka-messages.
"""

from typing import Annotated, ClassVar

from siltstone.kafka_protocol.api_key import ApiKey
from siltstone.kafka_protocol.notation import (
    NO_UUID,
    Int8,
    Int16,
    Int32,
    Message,
    Structure,
    Tag,
    Uuid,
    Versions,
)


class CreatableReplicaAssignment(Structure, frozen=True, kw_only=True):
    partition_index: Int32 = 0
    broker_ids: list[Int32] = []


class CreatableTopicConfig(Structure, frozen=True, kw_only=True):
    name: str = ""
    value: str | None = ""


class CreatableTopic(Structure, frozen=True, kw_only=True):
    name: str = ""
    num_partitions: Int32 = 0
    replication_factor: Int16 = 0
    assignments: list[CreatableReplicaAssignment] = []
    configs: list[CreatableTopicConfig] = []


class CreateTopicsRequest(Message, frozen=True, kw_only=True):
    api_key: ClassVar[ApiKey] = ApiKey.CREATE_TOPICS
    versions: ClassVar[tuple[int, int]] = (2, 7)
    flexible_since: ClassVar[int | None] = 5

    topics: list[CreatableTopic] = []
    timeout_ms: Int32 = 60_000
    validate_only: bool = False


class CreatableTopicConfigs(Structure, frozen=True, kw_only=True):
    name: str = ""
    value: str | None = ""
    read_only: bool = False
    config_source: Int8 = -1
    is_sensitive: bool = False


class CreatableTopicResult(Structure, frozen=True, kw_only=True):
    name: str = ""
    topic_id: Annotated[Uuid, Versions(7)] = NO_UUID
    error_code: Int16 = 0
    error_message: str | None = ""
    topic_config_error_code: Annotated[Int16, Versions(5), Tag(0)] = 0
    num_partitions: Annotated[Int32, Versions(5)] = -1
    replication_factor: Annotated[Int16, Versions(5)] = -1
    configs: Annotated[list[CreatableTopicConfigs] | None, Versions(5)] = []


class CreateTopicsResponse(Message, frozen=True, kw_only=True):
    api_key: ClassVar[ApiKey] = ApiKey.CREATE_TOPICS
    versions: ClassVar[tuple[int, int]] = (2, 7)
    flexible_since: ClassVar[int | None] = 5

    throttle_time_ms: Int32 = 0
    topics: list[CreatableTopicResult] = []
