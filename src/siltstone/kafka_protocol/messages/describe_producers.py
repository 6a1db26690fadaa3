"""DescribeProducers: the producers that partitions know.

Written by tools/kafka-messages.
"""

from typing import ClassVar

from siltstone.kafka_protocol.api_key import ApiKey
from siltstone.kafka_protocol.notation import Int16, Int32, Int64, Message, Structure


class TopicRequest(Structure, frozen=True, kw_only=True):
    name: str = ""
    partition_indexes: list[Int32] = []


class DescribeProducersRequest(Message, frozen=True, kw_only=True):
    api_key: ClassVar[ApiKey] = ApiKey.DESCRIBE_PRODUCERS
    versions: ClassVar[tuple[int, int]] = (0, 0)
    flexible_since: ClassVar[int | None] = 0

    topics: list[TopicRequest] = []


class ProducerState(Structure, frozen=True, kw_only=True):
    producer_id: Int64 = 0
    producer_epoch: Int32 = 0
    last_sequence: Int32 = -1
    last_timestamp: Int64 = -1
    coordinator_epoch: Int32 = 0
    current_txn_start_offset: Int64 = -1


class PartitionResponse(Structure, frozen=True, kw_only=True):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None
    active_producers: list[ProducerState] = []


class TopicResponse(Structure, frozen=True, kw_only=True):
    name: str = ""
    partitions: list[PartitionResponse] = []


class DescribeProducersResponse(Message, frozen=True, kw_only=True):
    api_key: ClassVar[ApiKey] = ApiKey.DESCRIBE_PRODUCERS
    versions: ClassVar[tuple[int, int]] = (0, 0)
    flexible_since: ClassVar[int | None] = 0

    throttle_time_ms: Int32 = 0
    topics: list[TopicResponse] = []
