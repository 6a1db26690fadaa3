"""A model of a transaction over two nodes (``broker.transactions``, ``broker.partitions.transaction_state``).

One node has the coordinator and a partition *here*; what it appends waits in one queue, and a crash keeps what is
durable of it. The partition *there* is led by another node, which asks the coordinator before the first batch of a
transaction, and gets its markers by requests. Questions, answers and markers may be late, doubled, or lost. A leader that has read
its log does not know the number of what is open there: it asks when the marker comes. The
coordinator may die, or be paused: then another one reads its log, and the paused one wakes and answers from memory.
The partition there may get another leader, which knows what is in the log.

A producer writes two transactions, each here and there, and commits them; of transaction version 2 it may also abort
in haste, while a batch is on its way. The coordinator may abort a transaction whose time is over.

What must hold: a transaction has the same outcome here, there, and in the answer to the producer; what is committed is
whole; nothing stays open behind the end of its transaction; nobody is stuck.

``Rules`` has one row for each rule of the protocol; a test leaves one out at a time.
"""

from collections.abc import Iterator
from typing import NamedTuple

from tests.model.exploring import Model

COMMIT, ABORT, OPEN, REST = "commits", "aborts", "open", "rest"
NUMBERS = (1, 2)
NOT_KNOWN = 0


class Rules(NamedTuple):
    permission_is_durable: bool = True
    marker_voids_permission: bool = True
    older_coordinator_is_refused: bool = True
    prepared_is_before_markers: bool = True
    markers_leave_when_prepared_is_durable: bool = True
    prepared_is_final: bool = True
    marker_names_its_transaction: bool = True
    unknown_number_is_asked_for: bool = True
    late_number_is_void: bool = True
    marker_without_data_is_written: bool = True
    repeated_marker_is_answered: bool = True
    complete_when_all_have_answered: bool = True
    loaded_markers_are_sent_again: bool = True
    fence_raises_epoch: bool = True
    visible_when_durable: bool = True


class Logged(NamedTuple):
    """A record of the coordinator. ``number``: of the newest transaction. ``here``, ``there``: whether the partitions
    are in it. ``raised``: the markers have a higher epoch than the batches."""

    state: str = REST
    number: int = 0
    epoch: int = 0
    here: bool = False
    there: bool = False
    raised: bool = False


class Entry(NamedTuple):
    """A batch of a transaction, or the marker that ends it."""

    kind: str
    number: int


class Answer(NamedTuple):
    """The coordinator has the partition there in its transaction."""

    number: int
    epoch: int
    coordinator_epoch: int


class Number(NamedTuple):
    """The coordinator says which transaction has the partition there. ``open_from``: where that began which was open
    when the leader asked."""

    number: int
    coordinator_epoch: int
    open_from: int


class Marker(NamedTuple):
    outcome: str
    number: int
    epoch: int
    raised: bool
    coordinator_epoch: int


class There(NamedTuple):
    """What the leader there knows. ``open``: the transaction whose batch has no marker yet, 0 if there is none;
    ``open_from``: where it begins in the log, and ``known_number``: the number that the leader knows it by.
    ``permission``: for the next batch."""

    entries: tuple[Entry, ...] = ()
    epoch: int = 0
    coordinator_epoch: int = 0
    open: int = 0
    open_from: int = 0
    known_number: int = NOT_KNOWN
    permission: Answer | None = None


class State(NamedTuple):
    """``log``, ``here``: what is durable; ``queue`` becomes so in its order. ``sleeper``: what a paused coordinator
    remembers, and its epoch. ``batches``: those on their way there. ``asked_from``, ``numbers``: questions for the number
    of what is open, and answers; like ``markers`` they stay on their way, and may arrive again. ``decided``: the outcome of each transaction as its
    prepared records say. ``told``: that which the producer was told."""

    log: Logged = Logged()
    queue: tuple[Logged | Entry, ...] = ()
    here: tuple[Entry, ...] = ()
    coordinator_epoch: int = 1
    marked: bool = False
    sends: bool = True
    sleeper: tuple[Logged, int] | None = None
    there: There = There()
    batches: frozenset[tuple[int, int]] = frozenset()
    answers: frozenset[Answer] = frozenset()
    asked_from: frozenset[int] = frozenset()
    numbers: frozenset[Number] = frozenset()
    markers: frozenset[Marker] = frozenset()
    number: int = 1
    epoch: int = 0
    has_sent: bool = False
    asked: str = ""
    decided: tuple[str, str] = ("", "")
    told: tuple[str, str] = ("", "")
    faults: int = 0
    broken: str = ""

    @property
    def memory(self) -> Logged:
        """What the coordinator knows: it decides on what it has appended."""
        return next((each for each in reversed(self.queue) if isinstance(each, Logged)), self.log)


class Case(NamedTuple):
    """``version``: of the producer's transactions. ``faults``: how often nodes may fail."""

    version: int
    faults: int
    rules: Rules = Rules()


def model(case: Case) -> Model[State]:
    def steps_of(state: State) -> Iterator[tuple[str, State]]:
        yield from _producer(state, case)
        yield from _coordinator(state, case)
        yield from _leader(state, case)
        yield from _faults(state, case)

    return Model(State(), steps_of, lambda state: wrong_in(state, case.rules), is_end)


def wrong_in(state: State, rules: Rules) -> str:
    if state.broken:
        return state.broken
    shown = state.here if rules.visible_when_durable else (*state.here, *_entries(state.queue))
    for entries in (shown, state.there.entries):
        for number in NUMBERS:
            if (found := _outcome(entries, number)) and found != state.decided[number - 1]:
                return "a transaction is torn, or told wrongly"
    opened, log = state.there.open, state.memory
    if opened and not state.sleeper and (opened < log.number or (opened == log.number and log.state == REST)):
        return "a transaction stays open behind its end"
    if opened and not state.sleeper and (opened > log.number or not log.there):
        return "a transaction is open that its coordinator does not know"
    return ""


def is_end(state: State) -> bool:
    """The producer may be fenced at any time; the transactions come to their ends all the same."""
    return state.log.state == REST and not state.queue and not state.there.open


def _entries(queue: tuple[Logged | Entry, ...]) -> Iterator[Entry]:
    return (each for each in queue if isinstance(each, Entry))


def _outcome(entries: tuple[Entry, ...], number: int) -> str:
    """The first marker behind the batch of a transaction ends it."""
    has_batch = False
    for entry in entries:
        if entry == Entry("batch", number):
            has_batch = True
        elif has_batch and entry.kind != "batch" and entry.number == number:
            return entry.kind
    return ""


# -- the producer ------------------------------------------------------------------------------------------


def _producer(state: State, case: Case) -> Iterator[tuple[str, State]]:
    number, log, memory = state.number, state.log, state.memory
    if number > NUMBERS[-1]:
        return
    begins = memory.state == REST and memory.number == number - 1
    is_open = memory.state == OPEN and memory.number == number
    may_add = memory.epoch == state.epoch and (begins or is_open) and not state.asked
    added = memory._replace(state=OPEN, number=number, there=False, here=False) if begins else memory
    if may_add and not added.here:
        batch = added._replace(here=True), Entry("batch", number)
        yield "the producer writes here", state._replace(queue=(*state.queue, *batch))
    if case.version == 1 and may_add and not added.there:
        record = added._replace(there=True)
        yield "the producer adds the partition there", state._replace(queue=(*state.queue, record))
    has_added = log if case.rules.permission_is_durable else memory
    is_added = case.version == 2 or (has_added.number == number and has_added.there)
    if is_added and not state.has_sent and not state.asked:
        batches = state.batches | {(number, state.epoch)}
        yield "the producer sends a batch there", state._replace(batches=batches, has_sent=True)
    if is_open and memory.epoch == state.epoch and not state.asked:
        is_whole = {Entry("batch", number)} <= {*state.here} & {*state.there.entries}
        if is_whole:
            yield "the producer commits", _ended(state, case, COMMIT)._replace(asked=COMMIT)
        elif case.version == 2 and state.has_sent:
            yield "the producer aborts in haste", _ended(state, case, ABORT)._replace(asked=ABORT)
    outcome = state.decided[number - 1]
    if state.asked and outcome == state.asked and log.number == number and not _is_fenced(state, log, case):
        told = tuple(outcome if each == number else state.told[each - 1] for each in NUMBERS)
        after = state._replace(told=told, number=number + 1, epoch=log.epoch, has_sent=False, asked="")
        yield "the producer is told", after


def _is_fenced(state: State, log: Logged, case: Case) -> bool:
    """Whether another end than the producer's own has raised the epoch."""
    return log.epoch != state.epoch + (case.version == 2)


# -- the coordinator ---------------------------------------------------------------------------------------


def _ended(state: State, case: Case, outcome: str, fences: bool = False) -> State:
    """Prepared record and marker here, in one turn."""
    memory = state.memory
    raised = (fences and case.rules.fence_raises_epoch) or (
        case.version == 2 and case.rules.marker_names_its_transaction
    )
    prepared = memory._replace(state=outcome, raised=raised, epoch=memory.epoch + raised)
    turn: tuple[Logged | Entry, ...] = (prepared,)
    if memory.here:
        marker = Entry(outcome, memory.number)
        turn = (prepared, marker) if case.rules.prepared_is_before_markers else (marker, prepared)
    return state._replace(queue=(*state.queue, *turn), marked=False, sends=True)


def _coordinator(state: State, case: Case) -> Iterator[tuple[str, State]]:
    rules, memory = case.rules, state.memory
    if state.queue:
        yield "an append is durable", _durable(state)
    if memory.state == OPEN and memory.number >= 1:
        yield "the time is over", _ended(state, case, ABORT, fences=True)
    if memory.state == COMMIT and not rules.prepared_is_final and memory.number == 1 and not state.queue:
        late = state._replace(queue=(memory._replace(state=ABORT),))
        yield "the time is over, of what is prepared", late
    if case.version == 2:
        for number, epoch in state.batches:
            if (asked := _added_by_question(memory, number, epoch)) is not None:
                yield "the leader's question adds", state._replace(queue=(*state.queue, asked))
    yield from _permits(state, rules)
    yield from _says_number(state)
    if memory.state in (COMMIT, ABORT):
        yield from _completes(state, rules)


def _permits(state: State, rules: Rules) -> Iterator[tuple[str, State]]:
    memory = state.memory
    permits = state.log if rules.permission_is_durable else memory
    if memory.state == OPEN and memory.there and permits.number == memory.number and permits.there:
        yield from _answered(state, memory, state.coordinator_epoch)
    if state.sleeper is not None and state.sleeper[0].state == OPEN and state.sleeper[0].there:
        yield from _answered(state, *state.sleeper)


def _says_number(state: State) -> Iterator[tuple[str, State]]:
    """One that is paused answers from memory when it wakes."""
    for memory, epoch in (
        (state.memory, state.coordinator_epoch),
        *((state.sleeper,) if state.sleeper else ()),
    ):
        if not memory.there or memory.state == REST:
            continue
        for open_from in state.asked_from:
            number = Number(memory.number, epoch, open_from)
            if number not in state.numbers:
                yield "the coordinator says the number", state._replace(numbers=state.numbers | {number})


def _completes(state: State, rules: Rules) -> Iterator[tuple[str, State]]:
    memory = state.memory
    is_durable = state.log == memory
    if memory.there and state.sends and (is_durable or not rules.markers_leave_when_prepared_is_durable):
        marker = Marker(
            memory.state, memory.number, memory.epoch, memory.raised, state.coordinator_epoch
        )  # fmt: skip
        if marker not in state.markers:
            yield "a marker leaves", state._replace(markers=state.markers | {marker})
    is_marked = state.marked or not memory.there or not rules.complete_when_all_have_answered
    if is_durable and not state.queue and is_marked:
        complete = memory._replace(state=REST, here=False, there=False, raised=False)
        yield "the transaction is complete", state._replace(queue=(complete,))


def _added_by_question(memory: Logged, number: int, epoch: int) -> Logged | None:
    if epoch != memory.epoch or (memory.there and memory.state == OPEN):
        return None
    if memory.state == REST and memory.number == number - 1:
        return memory._replace(state=OPEN, number=number, here=False, there=True)
    return memory._replace(there=True) if memory.state == OPEN else None


def _answered(state: State, memory: Logged, coordinator_epoch: int) -> Iterator[tuple[str, State]]:
    answer = Answer(memory.number, memory.epoch, coordinator_epoch)
    if answer not in state.answers and any(epoch == memory.epoch for _, epoch in state.batches):
        yield "the coordinator permits", state._replace(answers=state.answers | {answer})


def _durable(state: State) -> State:
    first, queue = state.queue[0], state.queue[1:]
    if isinstance(first, Entry):
        return state._replace(queue=queue, here=(*state.here, first))
    decided, broken = state.decided, ""
    if first.state in (COMMIT, ABORT):
        if decided[first.number - 1] not in ("", first.state):
            broken = "a transaction was decided twice"
        decided = tuple(first.state if each == first.number else decided[each - 1] for each in NUMBERS)
    return state._replace(log=first, queue=queue, decided=decided, broken=broken)


# -- the leader there --------------------------------------------------------------------------------------


def _leader(state: State, case: Case) -> Iterator[tuple[str, State]]:
    rules, there = case.rules, state.there
    for answer in state.answers:
        left = state._replace(answers=state.answers - {answer})
        yield "an answer is lost", left
        is_old = rules.older_coordinator_is_refused and answer.coordinator_epoch < there.coordinator_epoch
        if not is_old and answer.epoch >= there.epoch:
            epoch = max(answer.coordinator_epoch, there.coordinator_epoch)
            after = there._replace(permission=answer, coordinator_epoch=epoch)
            if there.open and there.known_number == NOT_KNOWN:
                after = after._replace(known_number=answer.number, permission=None)
            yield "an answer arrives", left._replace(there=after)
    for batch in state.batches:
        yield from _batch_arrives(state, *batch)
    for marker in state.markers:
        yield from _marker_arrives(state, marker, rules)
    if there.open and there.known_number == NOT_KNOWN and rules.unknown_number_is_asked_for:
        is_unsure = any(not each.raised and each.epoch >= there.epoch for each in state.markers)
        if is_unsure and there.open_from not in state.asked_from:
            asked = state.asked_from | {there.open_from}
            yield "the leader asks for the number", state._replace(asked_from=asked)
    for number in state.numbers:
        if (learned := _number_arrives(there, number, rules)) not in (None, there):
            yield "the number arrives", state._replace(there=learned)


def _number_arrives(there: There, number: Number, rules: Rules) -> There | None:
    """→ What the leader knows then; None if the answer is void."""
    is_old = rules.older_coordinator_is_refused and number.coordinator_epoch < there.coordinator_epoch
    is_late = rules.late_number_is_void and number.open_from != there.open_from
    if not there.open or is_old or is_late:
        return None
    epoch = max(there.coordinator_epoch, number.coordinator_epoch)
    return there._replace(known_number=number.number, coordinator_epoch=epoch)


def _batch_arrives(state: State, number: int, epoch: int) -> Iterator[tuple[str, State]]:
    there, left = state.there, state._replace(batches=state.batches - {(number, epoch)})
    if epoch < there.epoch:
        yield "a batch is fenced", left
        return
    appended = there._replace(entries=(*there.entries, Entry("batch", number)), epoch=epoch)
    if there.open:
        return
    if there.permission is not None and there.permission.epoch == epoch:
        opened = appended._replace(
            open=number, open_from=len(there.entries), known_number=there.permission.number, permission=None
        )  # fmt: skip
        yield "a batch is appended", left._replace(there=opened)


def _marker_arrives(state: State, marker: Marker, rules: Rules) -> Iterator[tuple[str, State]]:
    there = state.there
    is_old = rules.older_coordinator_is_refused and marker.coordinator_epoch < there.coordinator_epoch
    if is_old or marker.epoch < there.epoch:
        return
    is_repeated = marker.raised and marker.epoch == there.epoch and there.epoch > 0
    if is_repeated and (there.open or not rules.repeated_marker_is_answered):
        return
    if there.open and not marker.raised and rules.marker_names_its_transaction:
        is_unsure = there.known_number == NOT_KNOWN
        if (is_unsure and rules.unknown_number_is_asked_for) or (
            not is_unsure and there.known_number != marker.number
        ):
            return
    after = there
    if not is_repeated and (there.open or rules.marker_without_data_is_written):
        after = _marked(there, marker, rules)
    keeps = state.answers if not rules.marker_voids_permission or is_repeated else frozenset()
    arrived = state._replace(there=after, answers=keeps if after != there else state.answers)
    if arrived != state:
        yield "a marker arrives, and its answer is lost", arrived
    answers = marker.coordinator_epoch == state.coordinator_epoch and marker.number == state.memory.number
    if answers and not state.marked and state.memory.state == marker.outcome:
        yield "a marker arrives", arrived._replace(marked=True)


def _marked(there: There, marker: Marker, rules: Rules) -> There:
    ended = (Entry(marker.outcome, there.open),) if there.open else ()
    return there._replace(
        entries=(*there.entries, *ended), epoch=marker.epoch, open=0, open_from=0, known_number=NOT_KNOWN,
        coordinator_epoch=max(marker.coordinator_epoch, there.coordinator_epoch),
        permission=None if rules.marker_voids_permission else there.permission,
    )  # fmt: skip


# -- faults ------------------------------------------------------------------------------------------------


def _faults(state: State, case: Case) -> Iterator[tuple[str, State]]:
    if state.faults == case.faults:
        return
    sends = case.rules.loaded_markers_are_sent_again
    dead = state._replace(
        queue=(), coordinator_epoch=state.coordinator_epoch + 1, marked=False, sends=sends,
        faults=state.faults + 1,
    )  # fmt: skip
    # The client whose request was lost asks again, and is then told; what it wrote here is written again.
    dead = dead._replace(asked="" if state.decided[min(state.number, 2) - 1] == "" else state.asked)
    yield "the coordinator dies, and another one loads", dead
    paused = state.log, state.coordinator_epoch
    yield "the coordinator is paused, and another one loads", dead._replace(sleeper=paused)
    if state.sleeper is not None:
        yield "the paused coordinator ends", state._replace(sleeper=None)
    moved = state.there._replace(permission=None, known_number=NOT_KNOWN)
    led = state._replace(there=moved, answers=frozenset(), asked_from=frozenset(), numbers=frozenset())
    yield "another leader opens the partition there", led._replace(faults=state.faults + 1)
