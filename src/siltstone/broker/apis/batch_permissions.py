"""The transactional batches of a Produce: what is refused as a whole, and which batches the coordinator of the
transaction has to permit before they are appended.

Only the first batch of a transaction in a partition is asked about. From Produce version 12 on it adds the partition to
the transaction (KIP-890). Clients of older versions have added it before, with AddPartitionsToTxn; whether they have is
looked at, so that a batch that comes late opens no transaction that nobody ends (KAFKA-14402).

A permission is used in the turn in which it is given: the coordinator's record that names the partition is then before
the batch in the log, and no marker is between them.
"""

import logging
from collections.abc import Iterable, Sequence
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
    JoinedTransaction,
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

_NOT_THERE = frozenset({
    ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
})  # fmt: skip

log = logging.getLogger(__name__)


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
    await side_by_side(partial(_flag, partitions), filter(wants_permission, batches))
    wanting = [batch for batch in batches if wants_permission(batch)]
    if not wanting:
        return
    named = {_named(batch): batch for batch in wanting}
    header, adds = _header_of(wanting[0]), version >= ADDS_SINCE
    add = AddToTransaction(
        header.producer_id, header.producer_epoch, frozenset(named), BUMPING_VERSION if adds else 0
    )
    answer = await transactions.join(transactional_id, add, adds=adds)
    for partition, batch in named.items():
        if isinstance(answer, JoinedTransaction) and partition in answer.partitions:
            batch.permission = TransactionPermission(answer.number, begins_at_0=adds)
        else:
            refusal = answer if isinstance(answer, ErrorCode) else ErrorCode.TRANSACTION_ABORTABLE
            batch.error = _as_producers_know_it(refusal, version)
            batch.error_message = _why(refusal, partition, transactional_id)


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
        text = (
            f"{name}-{index} is led by another node than the one that coordinates {transactional_id[:200]!r}: "
            "transactions do not reach over several nodes yet"
        )
        log.warning("a batch is refused: %s", text)
        return text
    if refusal is ErrorCode.TRANSACTION_ABORTABLE:
        return f"{name}-{index} is not in the transaction: add it first, or abort the transaction"
    return f"the coordinator of the transaction answers {refusal.name}"
