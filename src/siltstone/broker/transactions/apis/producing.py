"""AddPartitionsToTxn, AddOffsetsToTxn, EndTxn, and InitProducerId with a transactional id.

Requests of the first versions cannot name PRODUCER_FENCED: they get INVALID_PRODUCER_EPOCH, which means the same.
"""

from collections.abc import Callable
from typing import TypeAlias

from siltstone.broker.groups.groups import partition_of_group
from siltstone.broker.request import RequestContext
from siltstone.broker.topics.names import OFFSETS_TOPIC
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
from siltstone.kafka_protocol.messages.add_offsets_to_txn import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
)
from siltstone.kafka_protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from siltstone.kafka_protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from siltstone.kafka_protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

FENCED_SINCE_INIT, FENCED_SINCE = 4, 2
"""The first versions of InitProducerId, and of the other requests, that know PRODUCER_FENCED."""

BUMPING_END_SINCE = 5
NONE = -1

IsThere: TypeAlias = Callable[[TopicPartition], bool]


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
    transactions: Transactions, is_there: IsThere, context: RequestContext, request: AddPartitionsToTxnRequest
) -> AddPartitionsToTxnResponse:
    """Versions 0 to 3: later ones are sent by nodes only. Either all partitions are added, or none."""
    named = [(topic.name, index) for topic in request.v3_and_below_topics for index in topic.partitions]
    unknown = {partition for partition in named if not is_there(partition)}
    if unknown:
        errors = dict.fromkeys(named, ErrorCode.OPERATION_NOT_ATTEMPTED)
        errors |= dict.fromkeys(unknown, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    else:
        answer = await transactions.ask(
            request.v3_and_below_transactional_id,
            AddToTransaction(
                request.v3_and_below_producer_id, request.v3_and_below_producer_epoch, frozenset(named)
            ),
        )
        errors = dict.fromkeys(named, known_code(answer, context, FENCED_SINCE))
    return AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=[
            AddPartitionsToTxnTopicResult(
                name=topic.name,
                results_by_partition=[
                    AddPartitionsToTxnPartitionResult(
                        partition_index=index, partition_error_code=errors[topic.name, index]
                    )
                    for index in topic.partitions
                ],
            )
            for topic in request.v3_and_below_topics
        ]
    )


async def handle_add_offsets_to_txn(
    transactions: Transactions,
    offsets_partitions: int,
    context: RequestContext,
    request: AddOffsetsToTxnRequest,
) -> AddOffsetsToTxnResponse:
    """``offsets_partitions``: how many partitions ``__consumer_offsets`` has. That of the group becomes a partition of
    the transaction."""
    if not request.group_id:
        return AddOffsetsToTxnResponse(error_code=ErrorCode.INVALID_GROUP_ID)
    partition = (OFFSETS_TOPIC, partition_of_group(request.group_id, offsets_partitions))
    answer = await transactions.ask(
        request.transactional_id,
        AddToTransaction(request.producer_id, request.producer_epoch, frozenset({partition})),
    )
    return AddOffsetsToTxnResponse(error_code=known_code(answer, context, FENCED_SINCE))


async def handle_end_txn(
    transactions: Transactions, context: RequestContext, request: EndTxnRequest
) -> EndTxnResponse:
    """From version 5 on the client is of transaction version 2, and the answer says what it uses next."""
    if not request.transactional_id:
        return EndTxnResponse(error_code=ErrorCode.INVALID_REQUEST)
    client_version = BUMPING_VERSION if context.api_version >= BUMPING_END_SINCE else 0
    answer = await transactions.ask(
        request.transactional_id,
        End(request.producer_id, request.producer_epoch, request.committed, client_version),
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
