"""ListTransactions: the transactions of a coordinator.

Written by tools/kafka-messages.
"""

from typing import Annotated, ClassVar

from siltstone.kafka_protocol.api_key import ApiKey
from siltstone.kafka_protocol.notation import Int16, Int32, Int64, Message, Structure, Versions


class ListTransactionsRequest(Message, frozen=True, kw_only=True):
    api_key: ClassVar[ApiKey] = ApiKey.LIST_TRANSACTIONS
    versions: ClassVar[tuple[int, int]] = (0, 2)
    flexible_since: ClassVar[int | None] = 0

    state_filters: list[str] = []
    producer_id_filters: list[Int64] = []
    duration_filter: Annotated[Int64, Versions(1)] = -1
    transactional_id_pattern: Annotated[str | None, Versions(2)] = None


class TransactionState(Structure, frozen=True, kw_only=True):
    transactional_id: str = ""
    producer_id: Int64 = 0
    transaction_state: str = ""


class ListTransactionsResponse(Message, frozen=True, kw_only=True):
    api_key: ClassVar[ApiKey] = ApiKey.LIST_TRANSACTIONS
    versions: ClassVar[tuple[int, int]] = (0, 2)
    flexible_since: ClassVar[int | None] = 0

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    unknown_state_filters: list[str] = []
    transaction_states: list[TransactionState] = []
