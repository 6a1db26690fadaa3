"""What a coordinator knows of one transactional id: its producer, its epoch, and the newest transaction.

Of this the log of the coordinator holds all but ``last_epoch``, ``last_start_ms`` and ``connection_id``. So an
InitProducerId that is repeated after the coordinator was loaded gets PRODUCER_FENCED, as in Kafka.
"""

import msgspec

from siltstone.broker.transactions.state_log.record import (
    NONE,
    LoggedTransaction,
    TopicPartition,
    TransactionRecord,
    TransactionState,
)

NO_EPOCH = -1

PREPARED = frozenset({TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT})
"""The outcome is decided, and markers are on their way."""

AT_REST = frozenset({
    TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT,
})  # fmt: skip
"""No transaction is open."""


class Transaction(msgspec.Struct, frozen=True):
    """``producer_epoch`` -1: no producer has an epoch yet. ``last_epoch``: the epoch that the client had before the
    current one, -1 if another client had it. ``next_producer_id``: replaces the producer id when the transaction is
    complete, because its epochs are used up. ``start_ms`` is the number of the transaction as well: no two of a
    transactional id with the same epoch have the same one; ``last_start_ms`` is the highest so far.
    ``connection_id``: of the connection over which partitions were added last, -1 if it is not known."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: TransactionState = TransactionState.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    updated_ms: int = NONE
    start_ms: int = NONE
    previous_producer_id: int = NONE
    next_producer_id: int = NONE
    client_version: int = 0
    last_epoch: int = NO_EPOCH
    last_start_ms: int = NONE
    connection_id: int = NONE

    def remaining_ms(self, now_ms: int) -> int:
        """The time until the transaction is aborted. It is never longer than the timeout, whatever the clock of the
        machine says that began the transaction."""
        return min(max(self.start_ms + self.timeout_ms - now_ms, 0), self.timeout_ms)


def new_transaction(transactional_id: str, producer_id: int, timeout_ms: int) -> Transaction:
    """A transactional id that is new to the coordinator. The decision about InitProducerId gives it an epoch."""
    return Transaction(
        transactional_id, producer_id, NO_EPOCH, timeout_ms, previous_producer_id=producer_id
    )  # fmt: skip


def record_of(transaction: Transaction) -> TransactionRecord:
    if transaction.state is TransactionState.DEAD:
        return TransactionRecord(transaction.transactional_id, None)
    logged = LoggedTransaction(
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        timeout_ms=transaction.timeout_ms,
        state=transaction.state,
        partitions=transaction.partitions,
        updated_ms=transaction.updated_ms,
        start_ms=transaction.start_ms,
        previous_producer_id=transaction.previous_producer_id,
        next_producer_id=transaction.next_producer_id,
        client_version=transaction.client_version,
    )
    return TransactionRecord(transaction.transactional_id, logged)


def transaction_of(transactional_id: str, logged: LoggedTransaction) -> Transaction:
    """The transaction as a coordinator finds it in its log."""
    return Transaction(
        transactional_id=transactional_id,
        producer_id=logged.producer_id,
        producer_epoch=logged.producer_epoch,
        timeout_ms=logged.timeout_ms,
        state=logged.state,
        partitions=logged.partitions,
        updated_ms=logged.updated_ms,
        start_ms=logged.start_ms,
        previous_producer_id=logged.previous_producer_id,
        next_producer_id=logged.next_producer_id,
        client_version=logged.client_version,
        last_start_ms=logged.start_ms,
    )
