"""OffsetFetch: the committed offsets of consumer groups.

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
    NullableSince,
    Structure,
    Uuid,
    Versions,
)


class OffsetFetchRequestTopic(Structure, frozen=True, kw_only=True):
    name: str = ""
    partition_indexes: list[Int32] = []


class OffsetFetchRequestTopics(Structure, frozen=True, kw_only=True):
    name: Annotated[str, Versions(8, 9)] = ""
    topic_id: Annotated[Uuid, Versions(10)] = NO_UUID
    partition_indexes: list[Int32] = []


class OffsetFetchRequestGroup(Structure, frozen=True, kw_only=True):
    group_id: str = ""
    member_id: Annotated[str | None, Versions(9)] = None
    member_epoch: Annotated[Int32, Versions(9)] = -1
    topics: list[OffsetFetchRequestTopics] | None = []


class OffsetFetchRequest(Message, frozen=True, kw_only=True):
    api_key: ClassVar[ApiKey] = ApiKey.OFFSET_FETCH
    versions: ClassVar[tuple[int, int]] = (1, 10)
    flexible_since: ClassVar[int | None] = 6

    group_id: Annotated[str, Versions(1, 7)] = ""
    topics: Annotated[list[OffsetFetchRequestTopic] | None, Versions(1, 7), NullableSince(2)] = []
    groups: Annotated[list[OffsetFetchRequestGroup], Versions(8)] = []
    require_stable: Annotated[bool, Versions(7)] = False


class OffsetFetchResponsePartition(Structure, frozen=True, kw_only=True):
    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Annotated[Int32, Versions(5)] = -1
    metadata: str | None = ""
    error_code: Int16 = 0


class OffsetFetchResponseTopic(Structure, frozen=True, kw_only=True):
    name: str = ""
    partitions: list[OffsetFetchResponsePartition] = []


class OffsetFetchResponsePartitions(Structure, frozen=True, kw_only=True):
    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Int32 = -1
    metadata: str | None = ""
    error_code: Int16 = 0


class OffsetFetchResponseTopics(Structure, frozen=True, kw_only=True):
    name: Annotated[str, Versions(8, 9)] = ""
    topic_id: Annotated[Uuid, Versions(10)] = NO_UUID
    partitions: list[OffsetFetchResponsePartitions] = []


class OffsetFetchResponseGroup(Structure, frozen=True, kw_only=True):
    group_id: str = ""
    topics: list[OffsetFetchResponseTopics] = []
    error_code: Int16 = 0


class OffsetFetchResponse(Message, frozen=True, kw_only=True):
    api_key: ClassVar[ApiKey] = ApiKey.OFFSET_FETCH
    versions: ClassVar[tuple[int, int]] = (1, 10)
    flexible_since: ClassVar[int | None] = 6

    throttle_time_ms: Annotated[Int32, Versions(3)] = 0
    topics: Annotated[list[OffsetFetchResponseTopic], Versions(1, 7)] = []
    error_code: Annotated[Int16, Versions(2, 7)] = 0
    groups: Annotated[list[OffsetFetchResponseGroup], Versions(8)] = []
