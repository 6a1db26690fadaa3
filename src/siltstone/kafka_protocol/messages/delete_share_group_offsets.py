"""DeleteShareGroupOffsets: delete what share groups know of topics.

Written by tools/kafka-messages.
"""

from typing import ClassVar

from siltstone.kafka_protocol.api_key import ApiKey
from siltstone.kafka_protocol.notation import NO_UUID, Int16, Int32, Message, Structure, Uuid


class DeleteShareGroupOffsetsRequestTopic(Structure, frozen=True, kw_only=True):
    topic_name: str = ""


class DeleteShareGroupOffsetsRequest(Message, frozen=True, kw_only=True):
    api_key: ClassVar[ApiKey] = ApiKey.DELETE_SHARE_GROUP_OFFSETS
    versions: ClassVar[tuple[int, int]] = (0, 0)
    flexible_since: ClassVar[int | None] = 0

    group_id: str = ""
    topics: list[DeleteShareGroupOffsetsRequestTopic] = []


class DeleteShareGroupOffsetsResponseTopic(Structure, frozen=True, kw_only=True):
    topic_name: str = ""
    topic_id: Uuid = NO_UUID
    error_code: Int16 = 0
    error_message: str | None = None


class DeleteShareGroupOffsetsResponse(Message, frozen=True, kw_only=True):
    api_key: ClassVar[ApiKey] = ApiKey.DELETE_SHARE_GROUP_OFFSETS
    versions: ClassVar[tuple[int, int]] = (0, 0)
    flexible_since: ClassVar[int | None] = 0

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None
    responses: list[DeleteShareGroupOffsetsResponseTopic] = []
