"""DeleteRecords: delete the records of partitions before an offset.

Written by tools/kafka-messages.
"""

from typing import ClassVar

from siltstone.kafka_protocol.api_key import ApiKey
from siltstone.kafka_protocol.notation import Int16, Int32, Int64, Message, Structure


class DeleteRecordsPartition(Structure, frozen=True, kw_only=True):
    partition_index: Int32 = 0
    offset: Int64 = 0


class DeleteRecordsTopic(Structure, frozen=True, kw_only=True):
    name: str = ""
    partitions: list[DeleteRecordsPartition] = []


class DeleteRecordsRequest(Message, frozen=True, kw_only=True):
    api_key: ClassVar[ApiKey] = ApiKey.DELETE_RECORDS
    versions: ClassVar[tuple[int, int]] = (0, 2)
    flexible_since: ClassVar[int | None] = 2

    topics: list[DeleteRecordsTopic] = []
    timeout_ms: Int32 = 0


class DeleteRecordsPartitionResult(Structure, frozen=True, kw_only=True):
    partition_index: Int32 = 0
    low_watermark: Int64 = 0
    error_code: Int16 = 0


class DeleteRecordsTopicResult(Structure, frozen=True, kw_only=True):
    name: str = ""
    partitions: list[DeleteRecordsPartitionResult] = []


class DeleteRecordsResponse(Message, frozen=True, kw_only=True):
    api_key: ClassVar[ApiKey] = ApiKey.DELETE_RECORDS
    versions: ClassVar[tuple[int, int]] = (0, 2)
    flexible_since: ClassVar[int | None] = 2

    throttle_time_ms: Int32 = 0
    topics: list[DeleteRecordsTopicResult] = []
