"""AddOffsetsToTxn: add the offsets of a consumer group to the transaction of a producer.

Written by tools/kafka-messages.
"""

from typing import ClassVar

from siltstone.kafka_protocol.api_key import ApiKey
from siltstone.kafka_protocol.notation import Int16, Int32, Int64, Message


class AddOffsetsToTxnRequest(Message, frozen=True, kw_only=True):
    api_key: ClassVar[ApiKey] = ApiKey.ADD_OFFSETS_TO_TXN
    versions: ClassVar[tuple[int, int]] = (0, 4)
    flexible_since: ClassVar[int | None] = 3

    transactional_id: str = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    group_id: str = ""


class AddOffsetsToTxnResponse(Message, frozen=True, kw_only=True):
    api_key: ClassVar[ApiKey] = ApiKey.ADD_OFFSETS_TO_TXN
    versions: ClassVar[tuple[int, int]] = (0, 4)
    flexible_since: ClassVar[int | None] = 3

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
