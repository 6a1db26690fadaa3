"""Decides about one request: finds the event that the request is, walks the table, and returns the decision.

A request for a transactional id that the coordinator does not know never gets here: InitProducerId makes one
(``transaction.new_transaction``), any other request is answered INVALID_PRODUCER_ID_MAPPING.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from siltstone.broker.transactions.rules import epochs
from siltstone.broker.transactions.rules.decision import TransactionDecision, TransactionDraft
from siltstone.broker.transactions.rules.requests import (
    BUMPING_VERSION,
    AddToTransaction,
    Answer,
    End,
    Expire,
    MarkersWritten,
    ProducerEpoch,
    Request,
    StartProducer,
    TimeOut,
)
from siltstone.broker.transactions.rules.states import TABLE, TransactionEvent, TransactionStep
from siltstone.broker.transactions.rules.transaction import AT_REST, NO_EPOCH, PREPARED, Transaction
from siltstone.broker.transactions.state_log.record import NONE, TransactionState
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.model.serving_limits import TRANSACTION_PARTITIONS_MAX

EventOrAnswer: TypeAlias = TransactionEvent | Answer


def decide(
    transaction: Transaction, request: Request, now_ms: int, fresh_producer_id: int | None = None
) -> TransactionDecision:
    """``fresh_producer_id``: a producer id that no other has, if ``wants_producer_id``. ``transaction`` itself is not
    changed: a decision whose record cannot be appended is dropped, and no epoch is lost."""
    draft = TransactionDraft(transaction, now_ms, fresh_producer_id)
    event = event_of(transaction, request, now_ms)
    if not isinstance(event, TransactionEvent):
        draft.answer = event
        return draft.decision()
    rule = TABLE[event][transaction.state]
    if rule.refusal is not None:
        draft.answer = rule.refusal
    draft.change(state=rule.to)
    for step in rule.steps:
        STEPS[step](draft, request)
    return draft.decision()


def wants_producer_id(transaction: Transaction, request: Request, now_ms: int) -> bool:
    """Whether the decision gives out a new producer id, because the epochs of the current one are used up."""
    event = event_of(transaction, request, now_ms)
    if not isinstance(event, TransactionEvent) or not epochs.is_used_up(transaction.producer_epoch):
        return False
    return not {TransactionStep.END_EPOCH, TransactionStep.NEW_PRODUCER_ID}.isdisjoint(
        TABLE[event][transaction.state].steps
    )


# -- steps -----------------------------------------------------------------------------------------------


def _next_epoch(draft: TransactionDraft, request: StartProducer) -> None:
    """The client that names its epoch may ask again, if it does not get this answer. A client that names none is
    another instance: then nobody may."""
    epoch = draft.before.producer_epoch
    draft.change(
        producer_epoch=epoch + 1, last_epoch=NO_EPOCH if request.producer_epoch == NO_EPOCH else epoch
    )


def _keep_epoch(_: TransactionDraft, __: StartProducer) -> None:
    """The epoch that was given before is given again."""


def _new_producer_id(draft: TransactionDraft, request: StartProducer) -> None:
    last_epoch = NO_EPOCH if request.producer_epoch == NO_EPOCH else draft.before.producer_epoch
    draft.change(producer_id=draft.take_producer_id(), producer_epoch=0, last_epoch=last_epoch)


def _clear(draft: TransactionDraft, request: StartProducer) -> None:
    draft.change(timeout_ms=request.timeout_ms, partitions=frozenset(), start_ms=NONE)


def _begin(draft: TransactionDraft, _: AddToTransaction | End) -> None:
    """The time of the start rises even if the clock does not: it is the number of the transaction."""
    start_ms = max(draft.now_ms, draft.before.last_start_ms + 1)
    draft.change(start_ms=start_ms, last_start_ms=start_ms, partitions=frozenset())


def _add_partitions(draft: TransactionDraft, request: AddToTransaction) -> None:
    draft.change(
        partitions=draft.transaction.partitions | request.partitions,
        client_version=request.client_version,
        connection_id=request.connection_id,
    )


def _end_epoch(draft: TransactionDraft, _: End | TimeOut | StartProducer) -> None:
    """The epoch of the batches ends here. If it is the last one that clients get, the markers have one that no client
    gets, and the client continues under another producer id."""
    epoch = draft.before.producer_epoch
    draft.change(producer_epoch=epoch + 1, last_epoch=epoch, client_version=BUMPING_VERSION)
    if epochs.is_used_up(epoch):
        draft.change(next_producer_id=draft.take_producer_id())


def _send_markers(draft: TransactionDraft, request: End | TimeOut | StartProducer) -> None:
    """The record says whether the markers have a higher epoch than the batches: a coordinator that is loaded writes
    them again."""
    if isinstance(request, End):
        draft.change(client_version=request.client_version)
    draft.send_markers()


def _finish(draft: TransactionDraft, _: MarkersWritten) -> None:
    draft.change(partitions=frozenset())
    if draft.before.next_producer_id != NONE:
        draft.change(producer_id=draft.before.next_producer_id, next_producer_id=NONE, producer_epoch=0)


def _answer_epoch(draft: TransactionDraft, _: Request) -> None:
    draft.answer = ProducerEpoch(draft.transaction.producer_id, draft.transaction.producer_epoch)


def _answer_next_epoch(draft: TransactionDraft, _: End) -> None:
    """The client learns what it has once the transaction is complete."""
    after = draft.transaction
    draft.answer = (
        ProducerEpoch(after.producer_id, after.producer_epoch)
        if after.next_producer_id == NONE
        else ProducerEpoch(after.next_producer_id, 0)
    )


def _answer_done(draft: TransactionDraft, _: Request) -> None:
    draft.answer = ErrorCode.NONE


def _answer_ask_again(draft: TransactionDraft, _: Request) -> None:
    draft.answer = ErrorCode.CONCURRENT_TRANSACTIONS


STEPS: Mapping[TransactionStep, Callable[[TransactionDraft, Any], None]] = {
    TransactionStep.NEXT_EPOCH: _next_epoch,
    TransactionStep.KEEP_EPOCH: _keep_epoch,
    TransactionStep.NEW_PRODUCER_ID: _new_producer_id,
    TransactionStep.CLEAR: _clear,
    TransactionStep.BEGIN: _begin,
    TransactionStep.ADD_PARTITIONS: _add_partitions,
    TransactionStep.END_EPOCH: _end_epoch,
    TransactionStep.SEND_MARKERS: _send_markers,
    TransactionStep.FINISH: _finish,
    TransactionStep.ANSWER_EPOCH: _answer_epoch,
    TransactionStep.ANSWER_NEXT_EPOCH: _answer_next_epoch,
    TransactionStep.ANSWER_DONE: _answer_done,
    TransactionStep.ANSWER_ASK_AGAIN: _answer_ask_again,
    TransactionStep.RECORD: lambda draft, _: draft.record(),
}


# -- which event a request is ----------------------------------------------------------------------------


def event_of(transaction: Transaction, request: Request, now_ms: int) -> EventOrAnswer:
    """Returns an answer instead if the request is refused in every state, or nothing is to be done."""
    return _EVENTS[type(request)](transaction, request, now_ms)


def _producer_event(transaction: Transaction, request: StartProducer, _: int) -> EventOrAnswer:
    if epochs.waits_for_its_producer_id(transaction, request.producer_id):
        return ErrorCode.CONCURRENT_TRANSACTIONS
    if not epochs.may_start(transaction, request):
        return ErrorCode.PRODUCER_FENCED
    return _start_event(transaction, request.producer_epoch)


def _start_event(transaction: Transaction, named: int) -> TransactionEvent:
    stored = transaction.producer_epoch
    if epochs.is_used_up(stored) and named in {NO_EPOCH, stored}:
        return TransactionEvent.EPOCHS_USED_UP
    if named == NO_EPOCH:
        return TransactionEvent.PRODUCER_STARTS
    if stored in {NO_EPOCH, named}:
        return TransactionEvent.PRODUCER_CONTINUES
    if named == transaction.last_epoch:
        return TransactionEvent.START_REPEATED
    return TransactionEvent.STALE_PRODUCER_STARTS


def refusal_of_producer(transaction: Transaction, add: AddToTransaction) -> ErrorCode | None:
    """Says why a producer may not write in a transaction of this id; None if it may."""
    if epochs.waits_for_its_producer_id(transaction, add.producer_id):
        return ErrorCode.CONCURRENT_TRANSACTIONS
    if add.producer_id != transaction.producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if add.producer_epoch != transaction.producer_epoch:
        return ErrorCode.PRODUCER_FENCED
    return None


def refusal_to_look(transaction: Transaction, add: AddToTransaction) -> ErrorCode | None:
    """Says why it cannot be said which partitions are in the producer's transaction; None if it can. While markers are
    on their way it cannot: the client has to wait for them."""
    if (refusal := refusal_of_producer(transaction, add)) is not None:
        return refusal
    return ErrorCode.CONCURRENT_TRANSACTIONS if transaction.state in PREPARED else None


def _add_event(transaction: Transaction, add: AddToTransaction, _: int) -> EventOrAnswer:
    if (refusal := refusal_of_producer(transaction, add)) is not None:
        return refusal
    if transaction.state is TransactionState.ONGOING and add.partitions <= transaction.partitions:
        return TransactionEvent.KNOWN_PARTITIONS_ADDED
    if len(transaction.partitions | add.partitions) > TRANSACTION_PARTITIONS_MAX:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return TransactionEvent.PARTITIONS_ADDED


def _end_event(transaction: Transaction, end: End, _: int) -> EventOrAnswer:
    if epochs.waits_for_its_producer_id(transaction, end.producer_id):
        return ErrorCode.CONCURRENT_TRANSACTIONS
    if end.client_version < BUMPING_VERSION:
        return _plain_end_event(transaction, end)
    is_of_producer = end.producer_id == transaction.producer_id
    if not is_of_producer and not epochs.is_end_of_previous_producer_id(transaction, end):
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if is_of_producer and end.producer_epoch == transaction.producer_epoch:
        return TransactionEvent.BUMPING_COMMIT if end.commits else TransactionEvent.BUMPING_ABORT
    if epochs.is_end_repeated(transaction, end):
        return TransactionEvent.REPEATED_COMMIT if end.commits else TransactionEvent.REPEATED_ABORT
    return ErrorCode.PRODUCER_FENCED


def _plain_end_event(transaction: Transaction, end: End) -> EventOrAnswer:
    """A client of transaction version 0 or 1 ends transactions with the epoch that it has."""
    if end.producer_id != transaction.producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if end.producer_epoch != transaction.producer_epoch:
        return ErrorCode.PRODUCER_FENCED
    is_open = transaction.state is TransactionState.ONGOING
    if is_open and NONE < end.connection_id < transaction.connection_id:
        # It was on its way when the client gave the connection up, and has ended its transaction over another one since
        # (KAFKA-17754): the epoch is the same, so nothing else tells the transactions apart.
        return ErrorCode.CONCURRENT_TRANSACTIONS
    return TransactionEvent.COMMIT if end.commits else TransactionEvent.ABORT


def _time_out_event(transaction: Transaction, time_out: TimeOut, _: int) -> EventOrAnswer:
    """A timer that rings late means a transaction that has ended."""
    is_open = transaction.state is TransactionState.ONGOING and transaction.start_ms == time_out.start_ms
    return TransactionEvent.TIME_IS_OVER if is_open else ErrorCode.NONE


def _expire_event(transaction: Transaction, expire: Expire, now_ms: int) -> EventOrAnswer:
    is_idle = transaction.state in AT_REST and now_ms - transaction.updated_ms >= expire.expiration_ms
    return TransactionEvent.ID_EXPIRES if is_idle else ErrorCode.NONE


_EVENTS: Mapping[type[Request], Callable[[Transaction, Any, int], EventOrAnswer]] = {
    StartProducer: _producer_event,
    AddToTransaction: _add_event,
    End: _end_event,
    MarkersWritten: lambda *_: TransactionEvent.MARKERS_WRITTEN,
    TimeOut: _time_out_event,
    Expire: _expire_event,
}
