"""ShareGroupHeartbeat: join, stay in or leave a share group (KIP-932).

Written by tools/kafka-messages.
"""

from typing import ClassVar

from siltstone.kafka_protocol.api_key import ApiKey
from siltstone.kafka_protocol.notation import NO_UUID, Int16, Int32, Message, Structure, Uuid


class ShareGroupHeartbeatRequest(Message, frozen=True, kw_only=True):
    api_key: ClassVar[ApiKey] = ApiKey.SHARE_GROUP_HEARTBEAT
    versions: ClassVar[tuple[int, int]] = (1, 1)
    flexible_since: ClassVar[int | None] = 0

    group_id: str = ""
    member_id: str = ""
    member_epoch: Int32 = 0
    rack_id: str | None = None
    subscribed_topic_names: list[str] | None = None


class AssignedSharePartitions(Structure, frozen=True, kw_only=True):
    topic_id: Uuid = NO_UUID
    partitions: list[Int32] = []


class NewShareAssignment(Structure, frozen=True, kw_only=True):
    topic_partitions: list[AssignedSharePartitions] = []


class ShareGroupHeartbeatResponse(Message, frozen=True, kw_only=True):
    api_key: ClassVar[ApiKey] = ApiKey.SHARE_GROUP_HEARTBEAT
    versions: ClassVar[tuple[int, int]] = (1, 1)
    flexible_since: ClassVar[int | None] = 0

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None
    member_id: str | None = None
    member_epoch: Int32 = 0
    heartbeat_interval_ms: Int32 = 0
    assignment: NewShareAssignment | None = None
