"""ListGroups: the consumer groups that a broker coordinates.

Written by tools/kafka-messages.
"""

from typing import Annotated, ClassVar

from siltstone.kafka_protocol.api_key import ApiKey
from siltstone.kafka_protocol.notation import Int16, Int32, Message, Structure, Versions


class ListGroupsRequest(Message, frozen=True, kw_only=True):
    api_key: ClassVar[ApiKey] = ApiKey.LIST_GROUPS
    versions: ClassVar[tuple[int, int]] = (0, 5)
    flexible_since: ClassVar[int | None] = 3

    states_filter: Annotated[list[str], Versions(4)] = []
    types_filter: Annotated[list[str], Versions(5)] = []


class ListedGroup(Structure, frozen=True, kw_only=True):
    group_id: str = ""
    protocol_type: str = ""
    group_state: Annotated[str, Versions(4)] = ""
    group_type: Annotated[str, Versions(5)] = ""


class ListGroupsResponse(Message, frozen=True, kw_only=True):
    api_key: ClassVar[ApiKey] = ApiKey.LIST_GROUPS
    versions: ClassVar[tuple[int, int]] = (0, 5)
    flexible_since: ClassVar[int | None] = 3

    throttle_time_ms: Annotated[Int32, Versions(1)] = 0
    error_code: Int16 = 0
    groups: list[ListedGroup] = []
