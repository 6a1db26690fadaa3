"""AddPartitionsToTxn, EndTxn, and InitProducerId with a transactional id.

Requests of the first versions cannot name PRODUCER_FENCED: they get INVALID_PRODUCER_EPOCH, which means the same.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TypeAlias, TypeVar

from siltstone.broker.request import RequestContext
from siltstone.broker.topics.registry import Topics
from siltstone.broker.transactions.apis.permitting import FOR_NODES_SINCE, handle_questions_of_leaders
from siltstone.broker.transactions.rules.requests import (
    BUMPING_VERSION,
    AddToTransaction,
    End,
    ProducerEpoch,
    StartProducer,
    refusal_of,
)
from siltstone.broker.transactions.state_log.record import TopicPartition
from siltstone.broker.transactions.transactions import Transactions
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from siltstone.kafka_protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from siltstone.kafka_protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from siltstone.model.access import NODE
from siltstone.runtime.turns import side_by_side

FENCED_SINCE_INIT, FENCED_SINCE = 4, 2
"""The first versions of InitProducerId, and of the other requests, that know PRODUCER_FENCED."""

BUMPING_END_SINCE = 5
NONE = -1

Row = TypeVar("Row")
TopicRow = TypeVar("TopicRow")

RefusalOf: TypeAlias = Callable[[TopicPartition], ErrorCode | None]


async def start_producer(
    transactions: Transactions, context: RequestContext, request: InitProducerIdRequest, timeout_ms_max: int
) -> InitProducerIdResponse:
    """InitProducerId with a transactional id."""
    transactional_id = request.transactional_id
    assert transactional_id is not None
    asked = StartProducer(request.transaction_timeout_ms, request.producer_id, request.producer_epoch)
    answer = refusal_of(transactional_id, asked, timeout_ms_max)
    found = answer or await transactions.ask(transactional_id, asked)
    if isinstance(found, ProducerEpoch):
        return InitProducerIdResponse(producer_id=found.producer_id, producer_epoch=found.epoch)
    error = known_code(found, context, FENCED_SINCE_INIT)
    return InitProducerIdResponse(error_code=error, producer_id=NONE, producer_epoch=NONE)


async def handle_add_partitions_to_txn(
    transactions: Transactions,
    refusal_of: RefusalOf,
    context: RequestContext,
    request: AddPartitionsToTxnRequest,
) -> AddPartitionsToTxnResponse:
    """Of each transaction either all partitions are added, or none. They may be led by other nodes. From version 4 on
    the request is made for nodes; some clients send it, too, as Kafka lets them."""
    added = partial(_added, transactions, refusal_of, context)
    if context.api_version < FOR_NODES_SINCE:
        rows = await added(
            request.v3_and_below_transactional_id,
            request.v3_and_below_producer_id,
            request.v3_and_below_producer_epoch,
            request.v3_and_below_topics,
        )
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=rows)
    if context.connection.principal is NODE or not all(map(_is_of_client, request.transactions)):
        return await handle_questions_of_leaders(transactions, context, request)

    async def answer(asked: AddPartitionsToTxnTransaction) -> AddPartitionsToTxnResult:
        rows = await added(asked.transactional_id, asked.producer_id, asked.producer_epoch, asked.topics)
        return AddPartitionsToTxnResult(transactional_id=asked.transactional_id, topic_results=rows)

    results = await side_by_side(answer, request.transactions)
    return AddPartitionsToTxnResponse(results_by_transaction=results)


def _is_of_client(asked: AddPartitionsToTxnTransaction) -> bool:
    """Whether a client may ask this: nodes alone look at transactions, by their producer ids, too."""
    return bool(asked.transactional_id) and not asked.verify_only


async def _added(
    transactions: Transactions,
    refusal_of: RefusalOf,
    context: RequestContext,
    transactional_id: str,
    producer_id: int,
    producer_epoch: int,
    topics: Sequence[AddPartitionsToTxnTopic],
) -> list[AddPartitionsToTxnTopicResult]:
    asked = [(topic.name, topic.partitions) for topic in topics]
    named = [(name, index) for name, indexes in asked for index in indexes]
    refused = {partition: refusal for partition in named if (refusal := refusal_of(partition)) is not None}
    if refused:
        errors = dict.fromkeys(named, ErrorCode.OPERATION_NOT_ATTEMPTED) | refused
    else:
        connection_id = context.connection.connection_id
        add = AddToTransaction(producer_id, producer_epoch, frozenset(named), connection_id=connection_id)
        answer = await transactions.ask(transactional_id, add)
        errors = dict.fromkeys(named, known_code(answer, context, FENCED_SINCE))
    return rows_by_topic(asked, lambda name, index: _row(index, errors[name, index]), _topic_row)


def refusal_of_partition(topics: Topics, partition: TopicPartition) -> ErrorCode | None:
    """Says why a client cannot add a partition to a transaction. The broker alone writes internal topics."""
    name, index = partition
    topic = topics.by_name(name)
    if topic is None or not 0 <= index < topic.partition_count:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if topic.is_internal:
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return None


def _row(index: int, error: ErrorCode) -> AddPartitionsToTxnPartitionResult:
    return AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=error)


def _topic_row(name: str, rows: list[AddPartitionsToTxnPartitionResult]) -> AddPartitionsToTxnTopicResult:
    return AddPartitionsToTxnTopicResult(name=name, results_by_partition=rows)


async def handle_end_txn(
    transactions: Transactions, context: RequestContext, request: EndTxnRequest
) -> EndTxnResponse:
    """From version 5 on the client is of transaction version 2, and the answer says what it uses next."""
    if not request.transactional_id:
        return EndTxnResponse(error_code=ErrorCode.INVALID_REQUEST)
    client_version = BUMPING_VERSION if context.api_version >= BUMPING_END_SINCE else 0
    answer = await transactions.ask(
        request.transactional_id,
        End(
            request.producer_id,
            request.producer_epoch,
            request.committed,
            client_version,
            context.connection.connection_id,
        ),
    )
    if isinstance(answer, ProducerEpoch):
        return EndTxnResponse(producer_id=answer.producer_id, producer_epoch=answer.epoch)
    return EndTxnResponse(error_code=known_code(answer, context, FENCED_SINCE))


def known_code(answer: object, context: RequestContext, fenced_since: int) -> ErrorCode:
    """Returns the error as the version of the request has it."""
    assert isinstance(answer, ErrorCode)
    if answer is ErrorCode.PRODUCER_FENCED and context.api_version < fenced_since:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return answer


def rows_by_topic(
    asked: Iterable[tuple[str, Sequence[int]]],
    row: Callable[[str, int], Row],
    topic_row: Callable[[str, list[Row]], TopicRow],
) -> list[TopicRow]:
    """``asked``: the names of topics, each with the partitions that the request names. ``row`` makes the row of a
    partition, and ``topic_row`` puts the rows of a topic together."""
    return [topic_row(name, [row(name, index) for index in indexes]) for name, indexes in asked]
