"""JoinGroup: become a member of a consumer group, or stay one during a rebalance.

Written by tools/kafka-messages.
"""

from typing import Annotated, ClassVar

from siltstone.kafka_protocol.api_key import ApiKey
from siltstone.kafka_protocol.notation import Bytes, Int16, Int32, Message, NullableSince, Structure, Versions


class JoinGroupRequestProtocol(Structure, frozen=True, kw_only=True):
    name: str = ""
    metadata: Bytes = b""


class JoinGroupRequest(Message, frozen=True, kw_only=True):
    api_key: ClassVar[ApiKey] = ApiKey.JOIN_GROUP
    versions: ClassVar[tuple[int, int]] = (0, 9)
    flexible_since: ClassVar[int | None] = 6

    group_id: str = ""
    session_timeout_ms: Int32 = 0
    rebalance_timeout_ms: Annotated[Int32, Versions(1)] = -1
    member_id: str = ""
    group_instance_id: Annotated[str | None, Versions(5)] = None
    protocol_type: str = ""
    protocols: list[JoinGroupRequestProtocol] = []
    reason: Annotated[str | None, Versions(8)] = None


class JoinGroupResponseMember(Structure, frozen=True, kw_only=True):
    member_id: str = ""
    group_instance_id: Annotated[str | None, Versions(5)] = None
    metadata: Bytes = b""


class JoinGroupResponse(Message, frozen=True, kw_only=True):
    api_key: ClassVar[ApiKey] = ApiKey.JOIN_GROUP
    versions: ClassVar[tuple[int, int]] = (0, 9)
    flexible_since: ClassVar[int | None] = 6

    throttle_time_ms: Annotated[Int32, Versions(2)] = 0
    error_code: Int16 = 0
    generation_id: Int32 = -1
    protocol_type: Annotated[str | None, Versions(7)] = None
    protocol_name: Annotated[str | None, NullableSince(7)] = ""
    leader: str = ""
    skip_assignment: Annotated[bool, Versions(9)] = False
    member_id: str = ""
    members: list[JoinGroupResponseMember] = []
