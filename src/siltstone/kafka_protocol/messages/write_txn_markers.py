"""WriteTxnMarkers: have the ends of transactions written to partitions.

Written by tools/kafka-messages.
"""

from typing import Annotated, ClassVar

from siltstone.kafka_protocol.api_key import ApiKey
from siltstone.kafka_protocol.notation import Int8, Int16, Int32, Int64, Message, Structure, Tag, Versions


class WritableTxnMarkerTopic(Structure, frozen=True, kw_only=True):
    name: str = ""
    partition_indexes: list[Int32] = []


class WritableTxnMarker(Structure, frozen=True, kw_only=True):
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    transaction_result: bool = False
    topics: list[WritableTxnMarkerTopic] = []
    coordinator_epoch: Int32 = 0
    transaction_version: Annotated[Int8, Versions(2)] = 0
    transaction_number: Annotated[Int64, Versions(2), Tag(10000)] = -1


class WriteTxnMarkersRequest(Message, frozen=True, kw_only=True):
    api_key: ClassVar[ApiKey] = ApiKey.WRITE_TXN_MARKERS
    versions: ClassVar[tuple[int, int]] = (1, 2)
    flexible_since: ClassVar[int | None] = 1

    markers: list[WritableTxnMarker] = []


class WritableTxnMarkerPartitionResult(Structure, frozen=True, kw_only=True):
    partition_index: Int32 = 0
    error_code: Int16 = 0


class WritableTxnMarkerTopicResult(Structure, frozen=True, kw_only=True):
    name: str = ""
    partitions: list[WritableTxnMarkerPartitionResult] = []


class WritableTxnMarkerResult(Structure, frozen=True, kw_only=True):
    producer_id: Int64 = 0
    topics: list[WritableTxnMarkerTopicResult] = []


class WriteTxnMarkersResponse(Message, frozen=True, kw_only=True):
    api_key: ClassVar[ApiKey] = ApiKey.WRITE_TXN_MARKERS
    versions: ClassVar[tuple[int, int]] = (1, 2)
    flexible_since: ClassVar[int | None] = 1

    markers: list[WritableTxnMarkerResult] = []
