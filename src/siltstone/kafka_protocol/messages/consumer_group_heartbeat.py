"""ConsumerGroupHeartbeat: join, stay in or leave a consumer group whose coordinator assigns the partitions (KIP-848).

Written by tools/kafka-messages.
"""

from typing import Annotated, ClassVar

from siltstone.kafka_protocol.api_key import ApiKey
from siltstone.kafka_protocol.notation import NO_UUID, Int16, Int32, Message, Structure, Uuid, Versions


class OwnedPartitions(Structure, frozen=True, kw_only=True):
    topic_id: Uuid = NO_UUID
    partitions: list[Int32] = []


class ConsumerGroupHeartbeatRequest(Message, frozen=True, kw_only=True):
    api_key: ClassVar[ApiKey] = ApiKey.CONSUMER_GROUP_HEARTBEAT
    versions: ClassVar[tuple[int, int]] = (0, 1)
    flexible_since: ClassVar[int | None] = 0

    group_id: str = ""
    member_id: str = ""
    member_epoch: Int32 = 0
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: Int32 = -1
    subscribed_topic_names: list[str] | None = None
    subscribed_topic_regex: Annotated[str | None, Versions(1)] = None
    server_assignor: str | None = None
    topic_partitions: list[OwnedPartitions] | None = None


class AssignedPartitions(Structure, frozen=True, kw_only=True):
    topic_id: Uuid = NO_UUID
    partitions: list[Int32] = []


class NewAssignment(Structure, frozen=True, kw_only=True):
    topic_partitions: list[AssignedPartitions] = []


class ConsumerGroupHeartbeatResponse(Message, frozen=True, kw_only=True):
    api_key: ClassVar[ApiKey] = ApiKey.CONSUMER_GROUP_HEARTBEAT
    versions: ClassVar[tuple[int, int]] = (0, 1)
    flexible_since: ClassVar[int | None] = 0

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None
    member_id: str | None = None
    member_epoch: Int32 = 0
    heartbeat_interval_ms: Int32 = 0
    assignment: NewAssignment | None = None
