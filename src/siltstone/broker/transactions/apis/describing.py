"""DescribeTransactions, for tools: the state, the times, the producer and the partitions of transactional ids."""

from collections import defaultdict

from siltstone.broker.transactions.transactions import Transactions
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)


async def handle_describe_transactions(
    transactions: Transactions, request: DescribeTransactionsRequest
) -> DescribeTransactionsResponse:
    rows = [await _described(transactions, one) for one in dict.fromkeys(request.transactional_ids)]
    return DescribeTransactionsResponse(transaction_states=rows)


async def _described(transactions: Transactions, transactional_id: str) -> TransactionState:
    found = await transactions.look(transactional_id) if transactional_id else ErrorCode.INVALID_REQUEST
    if isinstance(found, ErrorCode):
        return TransactionState(error_code=found, transactional_id=transactional_id)
    indexes = defaultdict(list)
    for topic, index in sorted(found.partitions):
        indexes[topic].append(index)
    return TransactionState(
        transactional_id=transactional_id,
        transaction_state=found.state.title,
        transaction_timeout_ms=found.timeout_ms,
        transaction_start_time_ms=found.start_ms,
        producer_id=found.producer_id,
        producer_epoch=found.producer_epoch,
        topics=[TopicData(topic=topic, partitions=of_topic) for topic, of_topic in indexes.items()],
    )
