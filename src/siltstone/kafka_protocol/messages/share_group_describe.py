"""ShareGroupDescribe: the state, the members and the assignments of share groups.

Written by tools/kafka-messages.
"""

from typing import ClassVar

from siltstone.kafka_protocol.api_key import ApiKey
from siltstone.kafka_protocol.notation import NO_UUID, Int16, Int32, Message, Structure, Uuid


class ShareGroupDescribeRequest(Message, frozen=True, kw_only=True):
    api_key: ClassVar[ApiKey] = ApiKey.SHARE_GROUP_DESCRIBE
    versions: ClassVar[tuple[int, int]] = (1, 1)
    flexible_since: ClassVar[int | None] = 0

    group_ids: list[str] = []
    include_authorized_operations: bool = False


class DescribedSharePartitions(Structure, frozen=True, kw_only=True):
    topic_id: Uuid = NO_UUID
    topic_name: str = ""
    partitions: list[Int32] = []


class DescribedShareAssignment(Structure, frozen=True, kw_only=True):
    topic_partitions: list[DescribedSharePartitions] = []


class DescribedShareMember(Structure, frozen=True, kw_only=True):
    member_id: str = ""
    rack_id: str | None = None
    member_epoch: Int32 = 0
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: list[str] = []
    assignment: DescribedShareAssignment = DescribedShareAssignment()


class DescribedShareGroup(Structure, frozen=True, kw_only=True):
    error_code: Int16 = 0
    error_message: str | None = None
    group_id: str = ""
    group_state: str = ""
    group_epoch: Int32 = 0
    assignment_epoch: Int32 = 0
    assignor_name: str = ""
    members: list[DescribedShareMember] = []
    authorized_operations: Int32 = -0x80000000


class ShareGroupDescribeResponse(Message, frozen=True, kw_only=True):
    api_key: ClassVar[ApiKey] = ApiKey.SHARE_GROUP_DESCRIBE
    versions: ClassVar[tuple[int, int]] = (1, 1)
    flexible_since: ClassVar[int | None] = 0

    throttle_time_ms: Int32 = 0
    groups: list[DescribedShareGroup] = []
