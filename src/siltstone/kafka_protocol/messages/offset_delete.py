"""OffsetDelete: delete a consumer group's committed offsets of some partitions.

Written by tools/kafka-messages.
"""

from typing import ClassVar

from siltstone.kafka_protocol.api_key import ApiKey
from siltstone.kafka_protocol.notation import Int16, Int32, Message, Structure


class OffsetDeleteRequestPartition(Structure, frozen=True, kw_only=True):
    partition_index: Int32 = 0


class OffsetDeleteRequestTopic(Structure, frozen=True, kw_only=True):
    name: str = ""
    partitions: list[OffsetDeleteRequestPartition] = []


class OffsetDeleteRequest(Message, frozen=True, kw_only=True):
    api_key: ClassVar[ApiKey] = ApiKey.OFFSET_DELETE
    versions: ClassVar[tuple[int, int]] = (0, 0)
    flexible_since: ClassVar[int | None] = None

    group_id: str = ""
    topics: list[OffsetDeleteRequestTopic] = []


class OffsetDeleteResponsePartition(Structure, frozen=True, kw_only=True):
    partition_index: Int32 = 0
    error_code: Int16 = 0


class OffsetDeleteResponseTopic(Structure, frozen=True, kw_only=True):
    name: str = ""
    partitions: list[OffsetDeleteResponsePartition] = []


class OffsetDeleteResponse(Message, frozen=True, kw_only=True):
    api_key: ClassVar[ApiKey] = ApiKey.OFFSET_DELETE
    versions: ClassVar[tuple[int, int]] = (0, 0)
    flexible_since: ClassVar[int | None] = None

    error_code: Int16 = 0
    throttle_time_ms: Int32 = 0
    topics: list[OffsetDeleteResponseTopic] = []
