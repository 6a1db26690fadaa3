"""The table: every row is met by a request, leads where it says, and nothing in it is unused."""

from collections.abc import Callable

import msgspec
import pytest

from siltstone.broker.transactions.rules.deciding import STEPS, decide, event_of
from siltstone.broker.transactions.rules.requests import (
    AddToTransaction,
    End,
    Expire,
    MarkersWritten,
    Request,
    StartProducer,
    TimeOut,
)
from siltstone.broker.transactions.rules.states import (
    TABLE,
    TransactionEvent,
    TransactionRule,
    TransactionStep,
)
from siltstone.broker.transactions.rules.transaction import PREPARED, Transaction
from siltstone.broker.transactions.state_log.record import TransactionState

PID, FRESH = 7, 70
KNOWN = frozenset({("a", 0)})


def transaction_in(state: TransactionState, epoch: int = 5, last_epoch: int = 4) -> Transaction:
    is_open = state is TransactionState.ONGOING or state in PREPARED
    return Transaction(
        "pay", PID, epoch, 60_000, state, KNOWN if is_open else frozenset(), 1_000, 900, PID,
        last_epoch=last_epoch, last_start_ms=900,
    )  # fmt: skip


Situation = Callable[[TransactionState], tuple[Transaction, Request]]


def on(request: Request, **fields: int) -> Situation:
    return lambda state: (transaction_in(state, **fields), request)


SITUATIONS: dict[TransactionEvent, Situation] = {
    TransactionEvent.PRODUCER_STARTS: on(StartProducer(50_000)),
    TransactionEvent.PRODUCER_CONTINUES: on(StartProducer(50_000, PID, 5)),
    TransactionEvent.START_REPEATED: on(StartProducer(50_000, PID, 4)),
    TransactionEvent.EPOCHS_USED_UP: on(StartProducer(50_000), epoch=32_766),
    TransactionEvent.STALE_PRODUCER_STARTS: on(StartProducer(50_000, PID, 2)),
    TransactionEvent.PARTITIONS_ADDED: on(AddToTransaction(PID, 5, frozenset({("b", 1)}))),
    TransactionEvent.KNOWN_PARTITIONS_ADDED: on(AddToTransaction(PID, 5, KNOWN)),
    TransactionEvent.COMMIT: on(End(PID, 5, True)),
    TransactionEvent.ABORT: on(End(PID, 5, False)),
    TransactionEvent.BUMPING_COMMIT: on(End(PID, 5, True, 2)),
    TransactionEvent.BUMPING_ABORT: on(End(PID, 5, False, 2)),
    TransactionEvent.REPEATED_COMMIT: on(End(PID, 4, True, 2)),
    TransactionEvent.REPEATED_ABORT: on(End(PID, 4, False, 2)),
    TransactionEvent.MARKERS_WRITTEN: on(MarkersWritten()),
    TransactionEvent.TIME_IS_OVER: on(TimeOut(900)),
    TransactionEvent.ID_EXPIRES: on(Expire(1_000)),
}
ROWS = [
    pytest.param(event, state, rule, id=f"{event.name}-{state.name}")
    for event, rules in TABLE.items()
    for state, rule in rules.items()
]


@pytest.mark.parametrize(("event", "state", "rule"), ROWS)
def test_every_row_is_met_and_leads_where_it_says(
    event: TransactionEvent, state: TransactionState, rule: TransactionRule
) -> None:
    transaction, request = SITUATIONS[event](state)
    assert event_of(transaction, request, 2_000) is event
    decision = decide(transaction, request, 2_000, FRESH)
    assert decision.transaction.state is rule.to
    assert (decision.record is not None) is (TransactionStep.RECORD in rule.steps)
    assert (decision.markers is not None) is (TransactionStep.SEND_MARKERS in rule.steps)
    if rule.refusal is not None:
        assert decision.answer is rule.refusal
    if decision.record is None:
        assert decision.transaction == transaction
    elif decision.record.logged is not None:
        assert decision.record.logged.updated_ms == 2_000
        assert decision.record.logged.state is rule.to


def test_every_event_has_rules_and_every_step_is_used_and_done() -> None:
    assert set(TABLE) == set(TransactionEvent) == set(SITUATIONS)
    used = {step for rules in TABLE.values() for rule in rules.values() for step in rule.steps}
    assert used == set(TransactionStep) == set(STEPS)


def test_states_can_be_reached_from_one_another_as_in_kafka() -> None:
    ways = {(state, rule.to) for rules in TABLE.values() for state, rule in rules.items()}
    empty, ongoing, committing, aborting, committed, aborted, dead = TransactionState
    assert ways - {(state, state) for state in TransactionState} == {
        (empty, ongoing), (empty, aborting), (empty, dead),
        (ongoing, committing), (ongoing, aborting),
        (committing, committed), (aborting, aborted),
        (committed, empty), (committed, ongoing), (committed, aborting), (committed, dead),
        (aborted, empty), (aborted, ongoing), (aborted, aborting), (aborted, dead),
    }  # fmt: skip


@pytest.mark.parametrize("event", TransactionEvent)
def test_nothing_happens_to_the_dead(event: TransactionEvent) -> None:
    assert TransactionState.DEAD not in TABLE[event]


CLIENTS = [
    pytest.param(request, state, id=f"{type(request).__name__}{index}-{state.name}")
    for index, request in enumerate(
        [
            StartProducer(50_000), StartProducer(50_000, PID, 5), StartProducer(50_000, PID, 4),
            StartProducer(50_000, PID, 3), StartProducer(50_000, 8, 5), AddToTransaction(PID, 5, KNOWN),
            AddToTransaction(PID, 4, KNOWN), AddToTransaction(8, 5, KNOWN), AddToTransaction(PID, 6, KNOWN),
            *(End(pid, epoch, commits, version)
              for pid in (PID, 8) for epoch in (3, 4, 5, 6) for commits in (True, False) for version in (0, 2)),
        ]
    )
    for state in TransactionState
    if state is not TransactionState.DEAD
]  # fmt: skip


@pytest.mark.parametrize(("request_of_client", "state"), CLIENTS)
@pytest.mark.parametrize("epoch", [5, 32_766])
def test_every_request_has_an_answer_in_every_state(
    request_of_client: Request, state: TransactionState, epoch: int
) -> None:
    """Whatever a client sends, and whatever it names: a decision, and no epoch beyond 16 bits."""
    decision = decide(transaction_in(state, epoch, epoch - 1), request_of_client, 2_000, FRESH)
    assert -1 <= decision.transaction.producer_epoch <= 32_767
    if state in PREPARED:
        assert decision.transaction.state is state and decision.record is None


def test_nothing_but_the_markers_moves_a_prepared_transaction() -> None:
    moving = {
        event for event, rules in TABLE.items() for state in PREPARED & set(rules) if rules[state].steps
    }
    assert moving == {TransactionEvent.MARKERS_WRITTEN}


def test_a_decision_does_not_change_what_it_was_made_from() -> None:
    before = transaction_in(TransactionState.ONGOING)
    copied = msgspec.structs.replace(before)
    decide(before, End(PID, 5, True, 2), 2_000)
    assert before == copied
