"""AlterShareGroupOffsets: set where a share group begins in partitions.

Written by tools/kafka-messages.
"""

from typing import ClassVar

from siltstone.kafka_protocol.api_key import ApiKey
from siltstone.kafka_protocol.notation import NO_UUID, Int16, Int32, Int64, Message, Structure, Uuid


class AlterShareGroupOffsetsRequestPartition(Structure, frozen=True, kw_only=True):
    partition_index: Int32 = 0
    start_offset: Int64 = 0


class AlterShareGroupOffsetsRequestTopic(Structure, frozen=True, kw_only=True):
    topic_name: str = ""
    partitions: list[AlterShareGroupOffsetsRequestPartition] = []


class AlterShareGroupOffsetsRequest(Message, frozen=True, kw_only=True):
    api_key: ClassVar[ApiKey] = ApiKey.ALTER_SHARE_GROUP_OFFSETS
    versions: ClassVar[tuple[int, int]] = (0, 0)
    flexible_since: ClassVar[int | None] = 0

    group_id: str = ""
    topics: list[AlterShareGroupOffsetsRequestTopic] = []


class AlterShareGroupOffsetsResponsePartition(Structure, frozen=True, kw_only=True):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None


class AlterShareGroupOffsetsResponseTopic(Structure, frozen=True, kw_only=True):
    topic_name: str = ""
    topic_id: Uuid = NO_UUID
    partitions: list[AlterShareGroupOffsetsResponsePartition] = []


class AlterShareGroupOffsetsResponse(Message, frozen=True, kw_only=True):
    api_key: ClassVar[ApiKey] = ApiKey.ALTER_SHARE_GROUP_OFFSETS
    versions: ClassVar[tuple[int, int]] = (0, 0)
    flexible_since: ClassVar[int | None] = 0

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None
    responses: list[AlterShareGroupOffsetsResponseTopic] = []
