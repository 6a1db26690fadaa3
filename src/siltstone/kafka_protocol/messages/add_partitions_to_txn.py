"""AddPartitionsToTxn: add partitions to the transaction of a producer.

Written by tools/kafka-messages.
"""

from typing import Annotated, ClassVar

from siltstone.kafka_protocol.api_key import ApiKey
from siltstone.kafka_protocol.notation import Int16, Int32, Int64, Message, Structure, Tag, Versions


class AddPartitionsToTxnTopic(Structure, frozen=True, kw_only=True):
    name: str = ""
    partitions: list[Int32] = []


class AddPartitionsToTxnTransaction(Structure, frozen=True, kw_only=True):
    transactional_id: str = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    verify_only: bool = False
    topics: list[AddPartitionsToTxnTopic] = []
    known_coordinator_epoch: Annotated[Int32, Tag(10000)] = -1


class AddPartitionsToTxnRequest(Message, frozen=True, kw_only=True):
    api_key: ClassVar[ApiKey] = ApiKey.ADD_PARTITIONS_TO_TXN
    versions: ClassVar[tuple[int, int]] = (0, 5)
    flexible_since: ClassVar[int | None] = 3

    transactions: Annotated[list[AddPartitionsToTxnTransaction], Versions(4)] = []
    v3_and_below_transactional_id: Annotated[str, Versions(0, 3)] = ""
    v3_and_below_producer_id: Annotated[Int64, Versions(0, 3)] = 0
    v3_and_below_producer_epoch: Annotated[Int16, Versions(0, 3)] = 0
    v3_and_below_topics: Annotated[list[AddPartitionsToTxnTopic], Versions(0, 3)] = []


class AddPartitionsToTxnPartitionResult(Structure, frozen=True, kw_only=True):
    partition_index: Int32 = 0
    partition_error_code: Int16 = 0


class AddPartitionsToTxnTopicResult(Structure, frozen=True, kw_only=True):
    name: str = ""
    results_by_partition: list[AddPartitionsToTxnPartitionResult] = []


class AddPartitionsToTxnResult(Structure, frozen=True, kw_only=True):
    transactional_id: str = ""
    topic_results: list[AddPartitionsToTxnTopicResult] = []
    transaction_number: Annotated[Int64, Tag(10000)] = -1
    coordinator_epoch: Annotated[Int32, Tag(10001)] = -1


class AddPartitionsToTxnResponse(Message, frozen=True, kw_only=True):
    api_key: ClassVar[ApiKey] = ApiKey.ADD_PARTITIONS_TO_TXN
    versions: ClassVar[tuple[int, int]] = (0, 5)
    flexible_since: ClassVar[int | None] = 3

    throttle_time_ms: Int32 = 0
    error_code: Annotated[Int16, Versions(4)] = 0
    results_by_transaction: Annotated[list[AddPartitionsToTxnResult], Versions(4)] = []
    results_by_topic_v3_and_below: Annotated[list[AddPartitionsToTxnTopicResult], Versions(0, 3)] = []
