"""DeleteGroups: delete empty consumer groups and their committed offsets.

Written by tools/kafka-messages.
"""

from typing import ClassVar

from siltstone.kafka_protocol.api_key import ApiKey
from siltstone.kafka_protocol.notation import Int16, Int32, Message, Structure


class DeleteGroupsRequest(Message, frozen=True, kw_only=True):
    api_key: ClassVar[ApiKey] = ApiKey.DELETE_GROUPS
    versions: ClassVar[tuple[int, int]] = (0, 2)
    flexible_since: ClassVar[int | None] = 2

    groups_names: list[str] = []


class DeletableGroupResult(Structure, frozen=True, kw_only=True):
    group_id: str = ""
    error_code: Int16 = 0


class DeleteGroupsResponse(Message, frozen=True, kw_only=True):
    api_key: ClassVar[ApiKey] = ApiKey.DELETE_GROUPS
    versions: ClassVar[tuple[int, int]] = (0, 2)
    flexible_since: ClassVar[int | None] = 2

    throttle_time_ms: Int32 = 0
    results: list[DeletableGroupResult] = []
