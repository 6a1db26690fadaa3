"""Heartbeat: report that a member of a consumer group is alive; the response reports rebalances.

Written by tools/kafka-messages.
"""

from typing import Annotated, ClassVar

from siltstone.kafka_protocol.api_key import ApiKey
from siltstone.kafka_protocol.notation import Int16, Int32, Message, Versions


class HeartbeatRequest(Message, frozen=True, kw_only=True):
    api_key: ClassVar[ApiKey] = ApiKey.HEARTBEAT
    versions: ClassVar[tuple[int, int]] = (0, 4)
    flexible_since: ClassVar[int | None] = 4

    group_id: str = ""
    generation_id: Int32 = 0
    member_id: str = ""
    group_instance_id: Annotated[str | None, Versions(3)] = None


class HeartbeatResponse(Message, frozen=True, kw_only=True):
    api_key: ClassVar[ApiKey] = ApiKey.HEARTBEAT
    versions: ClassVar[tuple[int, int]] = (0, 4)
    flexible_since: ClassVar[int | None] = 4

    throttle_time_ms: Annotated[Int32, Versions(1)] = 0
    error_code: Int16 = 0
