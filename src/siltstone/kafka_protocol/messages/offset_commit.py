"""OffsetCommit: store the offsets up to which a consumer group has processed partitions.

Written by tools/kafka-messages.
"""

from typing import Annotated, ClassVar

from siltstone.kafka_protocol.api_key import ApiKey
from siltstone.kafka_protocol.notation import NO_UUID, Int16, Int32, Int64, Message, Structure, Uuid, Versions


class OffsetCommitRequestPartition(Structure, frozen=True, kw_only=True):
    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Annotated[Int32, Versions(6)] = -1
    committed_metadata: str | None = ""


class OffsetCommitRequestTopic(Structure, frozen=True, kw_only=True):
    name: Annotated[str, Versions(2, 9)] = ""
    topic_id: Annotated[Uuid, Versions(10)] = NO_UUID
    partitions: list[OffsetCommitRequestPartition] = []


class OffsetCommitRequest(Message, frozen=True, kw_only=True):
    api_key: ClassVar[ApiKey] = ApiKey.OFFSET_COMMIT
    versions: ClassVar[tuple[int, int]] = (2, 10)
    flexible_since: ClassVar[int | None] = 8

    group_id: str = ""
    generation_id_or_member_epoch: Int32 = -1
    member_id: str = ""
    group_instance_id: Annotated[str | None, Versions(7)] = None
    retention_time_ms: Annotated[Int64, Versions(2, 4)] = -1
    topics: list[OffsetCommitRequestTopic] = []


class OffsetCommitResponsePartition(Structure, frozen=True, kw_only=True):
    partition_index: Int32 = 0
    error_code: Int16 = 0


class OffsetCommitResponseTopic(Structure, frozen=True, kw_only=True):
    name: Annotated[str, Versions(2, 9)] = ""
    topic_id: Annotated[Uuid, Versions(10)] = NO_UUID
    partitions: list[OffsetCommitResponsePartition] = []


class OffsetCommitResponse(Message, frozen=True, kw_only=True):
    api_key: ClassVar[ApiKey] = ApiKey.OFFSET_COMMIT
    versions: ClassVar[tuple[int, int]] = (2, 10)
    flexible_since: ClassVar[int | None] = 8

    throttle_time_ms: Annotated[Int32, Versions(3)] = 0
    topics: list[OffsetCommitResponseTopic] = []
