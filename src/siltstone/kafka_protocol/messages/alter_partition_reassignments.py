"""AlterPartitionReassignments: move partitions to other brokers, or cancel that.

Written by tools/kafka-messages.
"""

from typing import Annotated, ClassVar

from siltstone.kafka_protocol.api_key import ApiKey
from siltstone.kafka_protocol.notation import Int16, Int32, Message, Structure, Versions


class ReassignablePartition(Structure, frozen=True, kw_only=True):
    partition_index: Int32 = 0
    replicas: list[Int32] | None = None


class ReassignableTopic(Structure, frozen=True, kw_only=True):
    name: str = ""
    partitions: list[ReassignablePartition] = []


class AlterPartitionReassignmentsRequest(Message, frozen=True, kw_only=True):
    api_key: ClassVar[ApiKey] = ApiKey.ALTER_PARTITION_REASSIGNMENTS
    versions: ClassVar[tuple[int, int]] = (0, 1)
    flexible_since: ClassVar[int | None] = 0

    timeout_ms: Int32 = 60_000
    allow_replication_factor_change: Annotated[bool, Versions(1)] = True
    topics: list[ReassignableTopic] = []


class ReassignablePartitionResponse(Structure, frozen=True, kw_only=True):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = ""


class ReassignableTopicResponse(Structure, frozen=True, kw_only=True):
    name: str = ""
    partitions: list[ReassignablePartitionResponse] = []


class AlterPartitionReassignmentsResponse(Message, frozen=True, kw_only=True):
    api_key: ClassVar[ApiKey] = ApiKey.ALTER_PARTITION_REASSIGNMENTS
    versions: ClassVar[tuple[int, int]] = (0, 1)
    flexible_since: ClassVar[int | None] = 0

    throttle_time_ms: Int32 = 0
    allow_replication_factor_change: Annotated[bool, Versions(1)] = True
    error_code: Int16 = 0
    error_message: str | None = ""
    responses: list[ReassignableTopicResponse] = []
