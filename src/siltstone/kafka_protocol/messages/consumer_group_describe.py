"""ConsumerGroupDescribe: the state, the members and the assignments of groups of KIP-848.

Written by tools/kafka-messages.
"""

from typing import Annotated, ClassVar

from siltstone.kafka_protocol.api_key import ApiKey
from siltstone.kafka_protocol.notation import NO_UUID, Int8, Int16, Int32, Message, Structure, Uuid, Versions


class ConsumerGroupDescribeRequest(Message, frozen=True, kw_only=True):
    api_key: ClassVar[ApiKey] = ApiKey.CONSUMER_GROUP_DESCRIBE
    versions: ClassVar[tuple[int, int]] = (0, 1)
    flexible_since: ClassVar[int | None] = 0

    group_ids: list[str] = []
    include_authorized_operations: bool = False


class DescribedPartitions(Structure, frozen=True, kw_only=True):
    topic_id: Uuid = NO_UUID
    topic_name: str = ""
    partitions: list[Int32] = []


class DescribedAssignment(Structure, frozen=True, kw_only=True):
    topic_partitions: list[DescribedPartitions] = []


class DescribedConsumerMember(Structure, frozen=True, kw_only=True):
    member_id: str = ""
    instance_id: str | None = None
    rack_id: str | None = None
    member_epoch: Int32 = 0
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: list[str] = []
    subscribed_topic_regex: str | None = None
    assignment: DescribedAssignment = DescribedAssignment()
    target_assignment: DescribedAssignment = DescribedAssignment()
    member_type: Annotated[Int8, Versions(1)] = -1


class DescribedConsumerGroup(Structure, frozen=True, kw_only=True):
    error_code: Int16 = 0
    error_message: str | None = None
    group_id: str = ""
    group_state: str = ""
    group_epoch: Int32 = 0
    assignment_epoch: Int32 = 0
    assignor_name: str = ""
    members: list[DescribedConsumerMember] = []
    authorized_operations: Int32 = -0x80000000


class ConsumerGroupDescribeResponse(Message, frozen=True, kw_only=True):
    api_key: ClassVar[ApiKey] = ApiKey.CONSUMER_GROUP_DESCRIBE
    versions: ClassVar[tuple[int, int]] = (0, 1)
    flexible_since: ClassVar[int | None] = 0

    throttle_time_ms: Int32 = 0
    groups: list[DescribedConsumerGroup] = []
