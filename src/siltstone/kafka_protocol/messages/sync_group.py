"""SyncGroup: the group's leader sends all assignments, and each member receives its own.

Written by tools/kafka-messages.
"""

from typing import Annotated, ClassVar

from siltstone.kafka_protocol.api_key import ApiKey
from siltstone.kafka_protocol.notation import Bytes, Int16, Int32, Message, Structure, Versions


class SyncGroupRequestAssignment(Structure, frozen=True, kw_only=True):
    member_id: str = ""
    assignment: Bytes = b""


class SyncGroupRequest(Message, frozen=True, kw_only=True):
    api_key: ClassVar[ApiKey] = ApiKey.SYNC_GROUP
    versions: ClassVar[tuple[int, int]] = (0, 5)
    flexible_since: ClassVar[int | None] = 4

    group_id: str = ""
    generation_id: Int32 = 0
    member_id: str = ""
    group_instance_id: Annotated[str | None, Versions(3)] = None
    protocol_type: Annotated[str | None, Versions(5)] = None
    protocol_name: Annotated[str | None, Versions(5)] = None
    assignments: list[SyncGroupRequestAssignment] = []


class SyncGroupResponse(Message, frozen=True, kw_only=True):
    api_key: ClassVar[ApiKey] = ApiKey.SYNC_GROUP
    versions: ClassVar[tuple[int, int]] = (0, 5)
    flexible_since: ClassVar[int | None] = 4

    throttle_time_ms: Annotated[Int32, Versions(1)] = 0
    error_code: Int16 = 0
    protocol_type: Annotated[str | None, Versions(5)] = None
    protocol_name: Annotated[str | None, Versions(5)] = None
    assignment: Bytes = b""
