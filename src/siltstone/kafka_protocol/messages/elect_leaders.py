"""ElectLeaders: have leaders of partitions elected.

Written by tools/kafka-messages.
"""

from typing import Annotated, ClassVar

from siltstone.kafka_protocol.api_key import ApiKey
from siltstone.kafka_protocol.notation import Int8, Int16, Int32, Message, Structure, Versions


class TopicPartitions(Structure, frozen=True, kw_only=True):
    topic: str = ""
    partitions: list[Int32] = []


class ElectLeadersRequest(Message, frozen=True, kw_only=True):
    api_key: ClassVar[ApiKey] = ApiKey.ELECT_LEADERS
    versions: ClassVar[tuple[int, int]] = (0, 2)
    flexible_since: ClassVar[int | None] = 2

    election_type: Annotated[Int8, Versions(1)] = 0
    topic_partitions: list[TopicPartitions] | None = []
    timeout_ms: Int32 = 60_000


class PartitionResult(Structure, frozen=True, kw_only=True):
    partition_id: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = ""


class ReplicaElectionResult(Structure, frozen=True, kw_only=True):
    topic: str = ""
    partition_result: list[PartitionResult] = []


class ElectLeadersResponse(Message, frozen=True, kw_only=True):
    api_key: ClassVar[ApiKey] = ApiKey.ELECT_LEADERS
    versions: ClassVar[tuple[int, int]] = (0, 2)
    flexible_since: ClassVar[int | None] = 2

    throttle_time_ms: Int32 = 0
    error_code: Annotated[Int16, Versions(1)] = 0
    replica_election_results: list[ReplicaElectionResult] = []
