"""LeaveGroup: remove members from a consumer group.

Written by tools/kafka-messages.
"""

from typing import Annotated, ClassVar

from siltstone.kafka_protocol.api_key import ApiKey
from siltstone.kafka_protocol.notation import Int16, Int32, Message, Structure, Versions


class MemberIdentity(Structure, frozen=True, kw_only=True):
    member_id: str = ""
    group_instance_id: str | None = None
    reason: Annotated[str | None, Versions(5)] = None


class LeaveGroupRequest(Message, frozen=True, kw_only=True):
    api_key: ClassVar[ApiKey] = ApiKey.LEAVE_GROUP
    versions: ClassVar[tuple[int, int]] = (0, 5)
    flexible_since: ClassVar[int | None] = 4

    group_id: str = ""
    member_id: Annotated[str, Versions(0, 2)] = ""
    members: Annotated[list[MemberIdentity], Versions(3)] = []


class MemberResponse(Structure, frozen=True, kw_only=True):
    member_id: str = ""
    group_instance_id: str | None = ""
    error_code: Int16 = 0


class LeaveGroupResponse(Message, frozen=True, kw_only=True):
    api_key: ClassVar[ApiKey] = ApiKey.LEAVE_GROUP
    versions: ClassVar[tuple[int, int]] = (0, 5)
    flexible_since: ClassVar[int | None] = 4

    throttle_time_ms: Annotated[Int32, Versions(1)] = 0
    error_code: Int16 = 0
    members: Annotated[list[MemberResponse], Versions(3)] = []
