"""DescribeGroups: the state and the members of consumer groups.

Written by tools/kafka-messages.
"""

from typing import Annotated, ClassVar

from siltstone.kafka_protocol.api_key import ApiKey
from siltstone.kafka_protocol.notation import Bytes, Int16, Int32, Message, Structure, Versions


class DescribeGroupsRequest(Message, frozen=True, kw_only=True):
    api_key: ClassVar[ApiKey] = ApiKey.DESCRIBE_GROUPS
    versions: ClassVar[tuple[int, int]] = (0, 6)
    flexible_since: ClassVar[int | None] = 5

    groups: list[str] = []
    include_authorized_operations: Annotated[bool, Versions(3)] = False


class DescribedGroupMember(Structure, frozen=True, kw_only=True):
    member_id: str = ""
    group_instance_id: Annotated[str | None, Versions(4)] = None
    client_id: str = ""
    client_host: str = ""
    member_metadata: Bytes = b""
    member_assignment: Bytes = b""


class DescribedGroup(Structure, frozen=True, kw_only=True):
    error_code: Int16 = 0
    error_message: Annotated[str | None, Versions(6)] = None
    group_id: str = ""
    group_state: str = ""
    protocol_type: str = ""
    protocol_data: str = ""
    members: list[DescribedGroupMember] = []
    authorized_operations: Annotated[Int32, Versions(3)] = -0x80000000


class DescribeGroupsResponse(Message, frozen=True, kw_only=True):
    api_key: ClassVar[ApiKey] = ApiKey.DESCRIBE_GROUPS
    versions: ClassVar[tuple[int, int]] = (0, 6)
    flexible_since: ClassVar[int | None] = 5

    throttle_time_ms: Annotated[Int32, Versions(1)] = 0
    groups: list[DescribedGroup] = []
