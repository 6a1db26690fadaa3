"""AddOffsetsToTxn and TxnOffsetCommit: a consumer group's offsets are committed when the transaction is.

The offsets are written to a partition of ``__consumer_offsets``, which is a partition of the transaction as the
partitions of the data are. From version 5 of TxnOffsetCommit on, the first commit of a transaction adds it (KIP-890).
"""

from collections.abc import Iterator

from siltstone.broker.groups.groups import Groups
from siltstone.broker.groups.known_groups import KnownGroup
from siltstone.broker.groups.offsets_log.record import LogProducer
from siltstone.broker.groups.rules.requests import CommitInTransaction, OffsetErrors, OffsetToCommit
from siltstone.broker.request import RequestContext
from siltstone.broker.topics.names import OFFSETS_TOPIC
from siltstone.broker.transactions.apis.producing import FENCED_SINCE, known_code, rows_by_topic
from siltstone.broker.transactions.rules.requests import BUMPING_VERSION, AddToTransaction
from siltstone.broker.transactions.transactions import Transactions
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.add_offsets_to_txn import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
)
from siltstone.kafka_protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

ADDS_SINCE = 5
"""From this version of TxnOffsetCommit on the commit adds its partition to the transaction."""

KNOWS_ABORTABLE_SINCE = 4
KNOWS_LOADING_SINCE = 2
"""Older clients do not ask again after COORDINATOR_LOAD_IN_PROGRESS (KAFKA-7296)."""


async def handle_add_offsets_to_txn(
    transactions: Transactions, groups: Groups, context: RequestContext, request: AddOffsetsToTxnRequest
) -> AddOffsetsToTxnResponse:
    """The group's partition of ``__consumer_offsets`` becomes a partition of the transaction."""
    if not request.group_id:
        return AddOffsetsToTxnResponse(error_code=ErrorCode.INVALID_GROUP_ID)
    index = await groups.partition_of(request.group_id)
    if isinstance(index, ErrorCode):
        return AddOffsetsToTxnResponse(error_code=index)
    add = AddToTransaction(
        request.producer_id,
        request.producer_epoch,
        frozenset({(OFFSETS_TOPIC, index)}),
        connection_id=context.connection.connection_id,
    )
    answer = await transactions.ask(request.transactional_id, add)
    return AddOffsetsToTxnResponse(error_code=known_code(answer, context, FENCED_SINCE))


async def handle_txn_offset_commit(
    transactions: Transactions, groups: Groups, context: RequestContext, request: TxnOffsetCommitRequest
) -> TxnOffsetCommitResponse:
    errors = await _commit(transactions, groups, context, request)
    asked = [(topic.name, [each.partition_index for each in topic.partitions]) for topic in request.topics]
    rows = rows_by_topic(asked, lambda name, index: _row(index, errors[name, index]), _topic_row)
    return TxnOffsetCommitResponse(topics=rows)


def _row(index: int, error: ErrorCode) -> TxnOffsetCommitResponsePartition:
    return TxnOffsetCommitResponsePartition(partition_index=index, error_code=error)


def _topic_row(name: str, rows: list[TxnOffsetCommitResponsePartition]) -> TxnOffsetCommitResponseTopic:
    return TxnOffsetCommitResponseTopic(name=name, partitions=rows)


async def _commit(
    transactions: Transactions, groups: Groups, context: RequestContext, request: TxnOffsetCommitRequest
) -> dict[tuple[str, int], ErrorCode]:
    """Returns the error of each partition."""
    named = dict(_named(groups, request))
    if not request.group_id:
        return dict.fromkeys(named, ErrorCode.INVALID_GROUP_ID)
    errors = {key: offset for key, offset in named.items() if isinstance(offset, ErrorCode)}
    offsets = {key: offset for key, offset in named.items() if isinstance(offset, OffsetToCommit)}
    if not offsets:
        return errors

    async def permit(index: int) -> LogProducer | ErrorCode:
        return await _permitted(transactions, context.api_version, request, (OFFSETS_TOPIC, index))

    def make(producer: LogProducer):  # type: ignore[no-untyped-def]
        return lambda known: _request(request, list(offsets.values()), producer, known)

    targets = {key: offset.offset for key, offset in offsets.items()}
    answer = await groups.commit_in_transaction(request.group_id, targets, request.producer_id, permit, make)
    if isinstance(answer, OffsetErrors):
        return errors | dict(zip(offsets, answer.errors, strict=True))
    assert isinstance(answer, ErrorCode)
    return errors | dict.fromkeys(offsets, _as_clients_know_it(answer, context.api_version))


def _named(
    groups: Groups, request: TxnOffsetCommitRequest
) -> Iterator[tuple[tuple[str, int], OffsetToCommit | ErrorCode]]:
    for asked in request.topics:
        topic = groups.topics.by_name(asked.name)
        for partition in asked.partitions:
            key = (asked.name, partition.partition_index)
            if topic is None or not 0 <= partition.partition_index < topic.partition_count:
                yield key, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            else:
                yield key, _offset(asked.name, partition)


def _offset(topic: str, partition: TxnOffsetCommitRequestPartition) -> OffsetToCommit:
    return OffsetToCommit(
        topic=topic,
        partition=partition.partition_index,
        offset=partition.committed_offset,
        leader_epoch=partition.committed_leader_epoch,
        metadata=partition.committed_metadata or "",
    )


async def _permitted(
    transactions: Transactions, version: int, request: TxnOffsetCommitRequest, partition: tuple[str, int]
) -> LogProducer | ErrorCode:
    """Returns the producer in whose transaction the offsets are written: in this turn, or not at all."""
    adds = version >= ADDS_SINCE
    add = AddToTransaction(
        request.producer_id,
        request.producer_epoch,
        frozenset({partition}),
        BUMPING_VERSION if adds else 0,
    )
    answer = await transactions.join(request.transactional_id, add, adds=adds)
    if isinstance(answer, ErrorCode):
        # The coordinator of the transaction, which the client did not ask here.
        return ErrorCode.COORDINATOR_NOT_AVAILABLE if answer is ErrorCode.NOT_COORDINATOR else answer
    if partition not in answer.partitions:
        return ErrorCode.TRANSACTION_ABORTABLE
    return LogProducer(request.producer_id, request.producer_epoch, answer.number, answer.coordinator_epoch)


def _request(
    request: TxnOffsetCommitRequest,
    offsets: list[OffsetToCommit],
    producer: LogProducer,
    known: KnownGroup | None,
) -> CommitInTransaction | ErrorCode:
    """A commit makes a group only if it names no generation, and so no member."""
    if known is None and request.generation_id >= 0:
        return ErrorCode.ILLEGAL_GENERATION
    return CommitInTransaction(
        request.member_id, request.group_instance_id, request.generation_id, offsets, producer
    )


def _as_clients_know_it(refusal: ErrorCode, version: int) -> ErrorCode:
    if refusal is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if refusal is ErrorCode.TRANSACTION_ABORTABLE and version < KNOWS_ABORTABLE_SINCE:
        return ErrorCode.INVALID_TXN_STATE
    if refusal is ErrorCode.CONCURRENT_TRANSACTIONS and version < ADDS_SINCE:
        refusal = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    if refusal is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and version < KNOWS_LOADING_SINCE:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return refusal
