"""CreatePartitions: add partitions to topics.

Written by tools/kafka-messages.
"""

from typing import ClassVar

from siltstone.kafka_protocol.api_key import ApiKey
from siltstone.kafka_protocol.notation import Int16, Int32, Message, Structure


class CreatePartitionsAssignment(Structure, frozen=True, kw_only=True):
    broker_ids: list[Int32] = []


class CreatePartitionsTopic(Structure, frozen=True, kw_only=True):
    name: str = ""
    count: Int32 = 0
    assignments: list[CreatePartitionsAssignment] | None = []


class CreatePartitionsRequest(Message, frozen=True, kw_only=True):
    api_key: ClassVar[ApiKey] = ApiKey.CREATE_PARTITIONS
    versions: ClassVar[tuple[int, int]] = (0, 3)
    flexible_since: ClassVar[int | None] = 2

    topics: list[CreatePartitionsTopic] = []
    timeout_ms: Int32 = 0
    validate_only: bool = False


class CreatePartitionsTopicResult(Structure, frozen=True, kw_only=True):
    name: str = ""
    error_code: Int16 = 0
    error_message: str | None = None


class CreatePartitionsResponse(Message, frozen=True, kw_only=True):
    api_key: ClassVar[ApiKey] = ApiKey.CREATE_PARTITIONS
    versions: ClassVar[tuple[int, int]] = (0, 3)
    flexible_since: ClassVar[int | None] = 2

    throttle_time_ms: Int32 = 0
    results: list[CreatePartitionsTopicResult] = []
