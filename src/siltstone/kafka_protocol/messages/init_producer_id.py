"""InitProducerId: obtain a producer id and epoch, for idempotence and transactions.

Written by tools/kafka-messages.
"""

from typing import Annotated, ClassVar

from siltstone.kafka_protocol.api_key import ApiKey
from siltstone.kafka_protocol.notation import Int16, Int32, Int64, Message, Versions


class InitProducerIdRequest(Message, frozen=True, kw_only=True):
    api_key: ClassVar[ApiKey] = ApiKey.INIT_PRODUCER_ID
    versions: ClassVar[tuple[int, int]] = (0, 6)
    flexible_since: ClassVar[int | None] = 2

    transactional_id: str | None = ""
    transaction_timeout_ms: Int32 = 0
    producer_id: Annotated[Int64, Versions(3)] = -1
    producer_epoch: Annotated[Int16, Versions(3)] = -1
    enable2_pc: Annotated[bool, Versions(6)] = False
    keep_prepared_txn: Annotated[bool, Versions(6)] = False


class InitProducerIdResponse(Message, frozen=True, kw_only=True):
    api_key: ClassVar[ApiKey] = ApiKey.INIT_PRODUCER_ID
    versions: ClassVar[tuple[int, int]] = (0, 6)
    flexible_since: ClassVar[int | None] = 2

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id: Int64 = -1
    producer_epoch: Int16 = 0
    ongoing_txn_producer_id: Annotated[Int64, Versions(6)] = -1
    ongoing_txn_producer_epoch: Annotated[Int16, Versions(6)] = -1
