"""ListTransactions: the transactional ids that this node coordinates. Filters are checked as in Kafka."""

from siltstone.broker.name_patterns import NamePattern, PatternRefused
from siltstone.broker.transactions.rules.transaction import Transaction
from siltstone.broker.transactions.state_log.record import NONE
from siltstone.broker.transactions.transactions import Transactions
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)
from siltstone.runtime.turns import in_turns

STATES = {
    "Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead",
    "PrepareEpochFence",
}  # fmt: skip


async def handle_list_transactions(
    transactions: Transactions, now_ms: int, request: ListTransactionsRequest
) -> ListTransactionsResponse:
    try:
        pattern = NamePattern(request.transactional_id_pattern or ".*")
    except PatternRefused:
        return ListTransactionsResponse(error_code=ErrorCode.INVALID_REGULAR_EXPRESSION)
    unknown = [state for state in dict.fromkeys(request.state_filters) if state not in STATES]
    known = transactions.look_at_all()
    if isinstance(known, ErrorCode):
        return ListTransactionsResponse(error_code=known)
    asked_for = (each for each in known if _is_asked_for(each, request, now_ms))
    matching = await in_turns(
        lambda each: each if pattern.matches(each.transactional_id) else None, list(asked_for)
    )
    rows = [_row(each) for each in matching if each is not None]
    return ListTransactionsResponse(unknown_state_filters=unknown, transaction_states=rows)


def _is_asked_for(transaction: Transaction, request: ListTransactionsRequest, now_ms: int) -> bool:
    if request.state_filters and transaction.state.title not in request.state_filters:
        return False
    if request.producer_id_filters and transaction.producer_id not in request.producer_id_filters:
        return False
    if request.duration_filter < 0:
        return True
    return transaction.start_ms != NONE and now_ms - transaction.start_ms > request.duration_filter


def _row(transaction: Transaction) -> TransactionState:
    return TransactionState(
        transactional_id=transaction.transactional_id,
        producer_id=transaction.producer_id,
        transaction_state=transaction.state.title,
    )
