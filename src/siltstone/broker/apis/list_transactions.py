"""ListTransactions: none, because this broker has no transactions. Filters are checked as in Kafka."""

import re

from siltstone.broker.parts import BrokerParts
from siltstone.broker.request import RequestContext
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)

STATES = {
    "Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead",
    "PrepareEpochFence",
}  # fmt: skip
PATTERN_CHARACTERS_MAX = 1_000
"""Far longer than any pattern a person writes; a longer one is refused before it is looked at."""


async def handle_list_transactions(
    parts: BrokerParts, context: RequestContext, request: ListTransactionsRequest
) -> ListTransactionsResponse:
    if not _is_pattern(request.transactional_id_pattern or ""):
        return ListTransactionsResponse(error_code=ErrorCode.INVALID_REGULAR_EXPRESSION)
    unknown = [state for state in dict.fromkeys(request.state_filters) if state not in STATES]
    return ListTransactionsResponse(unknown_state_filters=unknown)


def _is_pattern(text: str) -> bool:
    if len(text) > PATTERN_CHARACTERS_MAX:
        return False
    try:
        re.compile(text)
    except (re.error, RecursionError, OverflowError):
        return False
    return True
