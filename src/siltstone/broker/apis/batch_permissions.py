"""The transactional batches of a Produce: what is refused as a whole, and which batches the coordinator of the
transaction has to permit before they are appended.

Only the first batch of a transaction in a partition is asked about. From Produce version 12 on it adds the partition to
the transaction (KIP-890). Clients of older versions have added it before, with AddPartitionsToTxn; whether they have is
looked at, so that a batch that comes late opens no transaction that nobody ends (KAFKA-14402).

A coordinator on this node gives its permission in the turn of its record that names the partition: the record is then
before the batch in the log, and no marker is between them. One on another node answers when its record is durable. A
marker may then come before the answer, which is void with that: the coordinator is asked again.
"""

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Protocol

from siltstone.broker.error_codes import error_code, error_message
from siltstone.broker.partitions.partition import Partition
from siltstone.broker.partitions.partitions import Partitions
from siltstone.broker.partitions.transaction_state import BatchVerdict, TransactionPermission
from siltstone.broker.topics.registry import Topic
from siltstone.broker.transactions.rules.requests import (
    BUMPING_VERSION,
    AddToTransaction,
)
from siltstone.broker.transactions.transactions import Transactions
from siltstone.kafka_protocol.batch_header import (
    BatchHeader,
    read_batch_header,
)
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.produce import ProducePartition
from siltstone.model.buffers import Buffer
from siltstone.model.errors import SiltstoneError
from siltstone.runtime.turns import side_by_side

ADDS_SINCE = 12
"""From this version on a batch adds its partition to the transaction."""

KNOWS_ABORTABLE_SINCE = 11

QUESTIONS_MAX = 3
"""A marker that comes while the coordinator is asked makes the answer void: it is late, or ends the last transaction.
Each transaction has one marker; a batch that meets more of them is refused, and the client sends it again."""

_NOT_THERE = frozenset({
    ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
})  # fmt: skip


class Batch(Protocol):
    """One partition of a Produce, with its batch."""

    asked: ProducePartition
    topic: Topic | None
    partition: Partition | None
    permission: TransactionPermission | None
    error: ErrorCode
    error_message: str | None

    @property
    def is_transactional(self) -> bool:
        """Whether the batch says so; it has not been checked yet."""
        ...


def refusal_of(transactional_id: str | None, batches: Iterable[Batch]) -> ErrorCode | None:
    """Says why a request with these transactional batches is refused as a whole; None if it is not. A request is of one
    producer."""
    producers = {(header.producer_id, header.producer_epoch) for header in map(_header_of, batches)}
    if producers and not transactional_id:
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    return ErrorCode.INVALID_PRODUCER_ID_MAPPING if len(producers) > 1 else None


def wants_permission(batch: Batch) -> bool:
    """Whether the coordinator has to be asked before the batch is appended. What is refused in any case is not asked
    about."""
    topic, partition = batch.topic, batch.partition
    if topic is None or partition is None or topic.is_internal or partition.is_closed:
        return False
    if batch.error is not ErrorCode.NONE or not batch.is_transactional:
        return False
    header = _header_of(batch)
    try:
        if partition.transactions.find_repeated(header) is not None:
            return False
        return partition.transactions.judge(header) is not BatchVerdict.GOES_ON
    except SiltstoneError:
        return False


async def ask_permission(
    transactions: Transactions,
    partitions: Partitions,
    transactional_id: str | None,
    version: int,
    batches: Sequence[Batch],
) -> None:
    """Sets the permission or the error of each batch that wants one. The caller appends the batches in the turn in
    which this returns."""
    if transactional_id is None:
        return
    wanting = [batch for batch in batches if wants_permission(batch)]
    first_of_all = [batch for batch in wanting if not _is_flagged(partitions, batch)]
    if first_of_all:  # else the answer comes some turns of the event loop earlier
        await side_by_side(partial(_flag, partitions), first_of_all)
        wanting = [batch for batch in batches if wants_permission(batch)]
    if not wanting:
        return
    for _ in range(QUESTIONS_MAX):
        wanting = await _asked(transactions, transactional_id, version, wanting)
        if not wanting:
            return


async def _asked(
    transactions: Transactions, transactional_id: str, version: int, wanting: Sequence[Batch]
) -> list[Batch]:
    """Asks once. Returns the batches whose answer is void, because a marker of the producer came meanwhile."""
    named = {_named(batch): batch for batch in wanting}
    header, adds = _header_of(wanting[0]), version >= ADDS_SINCE
    with ExitStack() as stack:
        questions = {
            name: stack.enter_context(batch.partition.transactions.question(header.producer_id))
            for name, batch in named.items()
            if batch.partition is not None
        }
        add = AddToTransaction(
            header.producer_id,
            header.producer_epoch,
            frozenset(named),
            BUMPING_VERSION if adds else 0,
            max(question.coordinator_epoch for question in questions.values()),
        )
        answer = await transactions.join(transactional_id, add, adds=adds)
    void = []
    for partition, batch in named.items():
        if isinstance(answer, ErrorCode) or partition not in answer.partitions:
            refusal = answer if isinstance(answer, ErrorCode) else ErrorCode.TRANSACTION_ABORTABLE
            batch.error = _as_producers_know_it(refusal, version)
            batch.error_message = _why(refusal, partition, transactional_id)
        elif questions[partition].is_void:
            if wants_permission(batch):
                void.append(batch)
        elif answer.coordinator_epoch < questions[partition].coordinator_epoch:
            refusal = ErrorCode.NOT_COORDINATOR
            batch.error = _as_producers_know_it(refusal, version)
            batch.error_message = _why(refusal, partition, transactional_id)
        else:
            batch.permission = TransactionPermission(answer.number, adds, answer.coordinator_epoch)
    return void


def _is_flagged(partitions: Partitions, batch: Batch) -> bool:
    assert batch.topic is not None
    return partitions.is_transactional(batch.topic.id, batch.asked.index)


async def _flag(partitions: Partitions, batch: Batch) -> None:
    assert batch.topic is not None and batch.partition is not None
    try:
        await partitions.flag_transactional(batch.topic.id, batch.asked.index, batch.partition)
    except SiltstoneError as failure:
        batch.error, batch.error_message = error_code(failure), error_message(failure)


def _named(batch: Batch) -> tuple[str, int]:
    assert batch.topic is not None
    return batch.topic.name, batch.asked.index


def _header_of(batch: Batch) -> BatchHeader:
    records: Buffer | None = batch.asked.records
    assert records is not None
    return read_batch_header(records)


def _as_producers_know_it(refusal: ErrorCode, version: int) -> ErrorCode:
    """While the coordinator cannot be asked, clients send the batch again after NOT_ENOUGH_REPLICAS, without asking for
    the leader."""
    if refusal is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if refusal in _NOT_THERE:
        return ErrorCode.NOT_ENOUGH_REPLICAS
    if version >= KNOWS_ABORTABLE_SINCE:
        return refusal
    old = {
        ErrorCode.CONCURRENT_TRANSACTIONS: ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.TRANSACTION_ABORTABLE: ErrorCode.INVALID_TXN_STATE,
    }
    return old.get(refusal, refusal)


def _why(refusal: ErrorCode, partition: tuple[str, int], transactional_id: str) -> str:
    name, index = partition
    if refusal is ErrorCode.NOT_COORDINATOR:
        return (
            f"the coordinator of {transactional_id[:200]!r} is changing; {name}-{index} waits for it: retry"
        )
    if refusal is ErrorCode.TRANSACTION_ABORTABLE:
        return f"{name}-{index} is not in the transaction: add it first, or abort the transaction"
    return f"the coordinator of the transaction answers {refusal.name}"
