"""A decision about one request holds the transaction after it, the answer, the record to write, and the markers.

Steps write a draft; its ``decision`` is the finished value. The record comes before the markers in the log, and is
durable before any marker leaves for another node and before the answer is sent.
"""

import msgspec

from siltstone.broker.transactions.rules.requests import BUMPING_VERSION, Answer
from siltstone.broker.transactions.rules.transaction import PREPARED, Transaction, record_of
from siltstone.broker.transactions.state_log.record import TopicPartition, TransactionRecord, TransactionState
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.records.control import Outcome


class MarkersToWrite(msgspec.Struct, frozen=True):
    """``start_ms`` is the number of the transaction. A marker that ``raises_epoch`` has a higher epoch than the batches
    of the transaction; else only the number tells a late marker from one of the next transaction."""

    outcome: Outcome
    producer_id: int
    producer_epoch: int
    start_ms: int
    raises_epoch: bool
    partitions: frozenset[TopicPartition]


class TransactionDecision(msgspec.Struct, frozen=True):
    """A ``transaction`` in state *Dead* is removed from memory. An ``answer`` CONCURRENT_TRANSACTIONS to a request that
    has prepared an abort: the request is decided again when the abort is complete."""

    transaction: Transaction
    answer: Answer = ErrorCode.NONE
    record: TransactionRecord | None = None
    markers: MarkersToWrite | None = None


class TransactionDraft:
    """A decision that steps are still adding to. ``before`` is the transaction as the request found it, and is not
    changed."""

    def __init__(self, before: Transaction, now_ms: int, fresh_producer_id: int | None) -> None:
        self.before = before
        self.transaction = before
        self.now_ms = now_ms
        self.answer: Answer = ErrorCode.NONE
        self._fresh_producer_id = fresh_producer_id
        self._to_be_recorded = False
        self._sends_markers = False

    def change(self, **fields: object) -> None:
        self.transaction = msgspec.structs.replace(self.transaction, **fields)

    def take_producer_id(self) -> int:
        assert self._fresh_producer_id is not None, "deciding.wants_producer_id said that one is needed"
        return self._fresh_producer_id

    def send_markers(self) -> None:
        self._sends_markers = True

    def record(self) -> None:
        """Writes a record of the transaction as it is when the decision is complete. As Kafka does, it names the
        producer id of the record before."""
        self._to_be_recorded = True
        self.change(updated_ms=self.now_ms, previous_producer_id=self.before.producer_id)

    def decision(self) -> TransactionDecision:
        record = record_of(self.transaction) if self._to_be_recorded else None
        markers = markers_of(self.transaction) if self._sends_markers else None
        return TransactionDecision(self.transaction, self.answer, record, markers)


def markers_of(transaction: Transaction) -> MarkersToWrite:
    """The markers of a prepared transaction. A coordinator that is loaded and finds one writes all of them again."""
    assert transaction.state in PREPARED
    commits = transaction.state is TransactionState.PREPARE_COMMIT
    return MarkersToWrite(
        outcome=Outcome.COMMIT if commits else Outcome.ABORT,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        start_ms=transaction.start_ms,
        raises_epoch=transaction.client_version >= BUMPING_VERSION,
        partitions=transaction.partitions,
    )
