"""AddPartitionsToTxn from version 4 on: the leader of a partition asks the coordinator, which is another node, before
it appends the first batch of a transaction.

The coordinator answers when its record that names the partition is durable, and says which transaction it is: by the
number, and by its own epoch. A leader that does not know the number of what is open, because it has read the log, asks
with the producer id alone.
"""

from collections.abc import Collection

from siltstone.broker.request import RequestContext
from siltstone.broker.transactions.rules.requests import (
    BUMPING_VERSION,
    AddToTransaction,
    JoinedTransaction,
)
from siltstone.broker.transactions.state_log.record import TopicPartition
from siltstone.broker.transactions.transactions import Transactions
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from siltstone.model.access import NODE
from siltstone.runtime.turns import side_by_side

FOR_NODES_SINCE = 4
"""From this version on the request is for nodes, and names several transactions."""


async def handle_questions_of_leaders(
    transactions: Transactions, context: RequestContext, request: AddPartitionsToTxnRequest
) -> AddPartitionsToTxnResponse:
    if request.transactions and context.connection.principal is not NODE:
        return AddPartitionsToTxnResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)

    async def answer(asked: AddPartitionsToTxnTransaction) -> AddPartitionsToTxnResult:
        return _row(asked, await _found(transactions, asked))

    rows = await side_by_side(answer, request.transactions)
    return AddPartitionsToTxnResponse(results_by_transaction=rows)


async def _found(
    transactions: Transactions, asked: AddPartitionsToTxnTransaction
) -> JoinedTransaction | ErrorCode:
    if not asked.transactional_id:
        return await transactions.open_of(asked.producer_id)
    adds = not asked.verify_only
    add = AddToTransaction(
        asked.producer_id,
        asked.producer_epoch,
        partitions_of(asked),
        BUMPING_VERSION if adds else 0,
        asked.known_coordinator_epoch,
    )
    return await transactions.permit(asked.transactional_id, add, adds=adds)


def partitions_of(asked: AddPartitionsToTxnTransaction) -> frozenset[TopicPartition]:
    return frozenset((topic.name, index) for topic in asked.topics for index in topic.partitions)


def _row(
    asked: AddPartitionsToTxnTransaction, found: JoinedTransaction | ErrorCode
) -> AddPartitionsToTxnResult:
    refusal = found if isinstance(found, ErrorCode) else ErrorCode.TRANSACTION_ABORTABLE
    added: Collection[TopicPartition] = () if isinstance(found, ErrorCode) else found.partitions
    topics = [
        AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=[
                AddPartitionsToTxnPartitionResult(
                    partition_index=index,
                    partition_error_code=ErrorCode.NONE if (topic.name, index) in added else refusal,
                )
                for index in topic.partitions
            ],
        )
        for topic in asked.topics
    ]
    if isinstance(found, ErrorCode):
        return AddPartitionsToTxnResult(transactional_id=asked.transactional_id, topic_results=topics)
    return AddPartitionsToTxnResult(
        transactional_id=asked.transactional_id,
        topic_results=topics,
        transaction_number=found.number,
        coordinator_epoch=found.coordinator_epoch,
    )
