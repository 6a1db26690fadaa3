"""DeleteTopics: delete topics, by name or id.

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


class DeleteTopicState(Structure, frozen=True, kw_only=True):
    name: str | None = None
    topic_id: Uuid = NO_UUID


class DeleteTopicsRequest(Message, frozen=True, kw_only=True):
    api_key: ClassVar[ApiKey] = ApiKey.DELETE_TOPICS
    versions: ClassVar[tuple[int, int]] = (1, 6)
    flexible_since: ClassVar[int | None] = 4

    topics: Annotated[list[DeleteTopicState], Versions(6)] = []
    topic_names: Annotated[list[str], Versions(1, 5)] = []
    timeout_ms: Int32 = 0


class DeletableTopicResult(Structure, frozen=True, kw_only=True):
    name: Annotated[str | None, NullableSince(6)] = ""
    topic_id: Annotated[Uuid, Versions(6)] = NO_UUID
    error_code: Int16 = 0
    error_message: Annotated[str | None, Versions(5)] = None


class DeleteTopicsResponse(Message, frozen=True, kw_only=True):
    api_key: ClassVar[ApiKey] = ApiKey.DELETE_TOPICS
    versions: ClassVar[tuple[int, int]] = (1, 6)
    flexible_since: ClassVar[int | None] = 4

    throttle_time_ms: Int32 = 0
    responses: list[DeletableTopicResult] = []
