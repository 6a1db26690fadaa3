"""A model of one partition that moves from node A to node B (``broker.partitions.handing_over``).

A appends and answers, uploads, gets the order to hand the partition over, or an order not to, holds it, and asks the
metadata to give it up. The metadata are a log: every entry that lands makes a new version, and an entry lands only at
the version after the one that it was decided on. The answer of an append may be lost, and the entry may land at once,
later, or never. A may die and come back at any time; its new life replays its write-ahead log for the streams that are
open under A, and for no other. B opens the partition once it leads it and its stream is closed; or B dies before, and
the partition is placed at A again.

What must hold: nothing that A has answered is behind the end at which its stream is closed; at most one node serves;
and nobody is stuck.

``Rules`` are named after the functions that keep them; a test leaves one out at a time.
"""

from collections.abc import Iterator
from typing import NamedTuple

from tests.model.exploring import Model

A, B, NOBODY = "A", "B", ""
LATE_MAX = 2
"""Entries of A that may land late: one of each of two attempts."""


class Rules(NamedTuple):
    """Of ``MetadataLog.append``; of ``metadata.decisions.moves._closures``; of ``HandingOver``: ``_hand_over``,
    ``_give_up`` and ``_forget_closed``; of ``RegisterNode``, which every life begins with."""

    appends_compare: bool = True
    ends_are_checked: bool = True
    held_before_the_ends_are_read: bool = True
    repeated_until_answered: bool = True
    held_until_answered: bool = True
    closed_streams_are_forgotten: bool = True
    a_new_life_registers_first: bool = True


class GiveUp(NamedTuple):
    """An entry under way: decided at ``version``, for a stream that ends at ``end``."""

    version: int
    end: int


class State(NamedTuple):
    """``owner``: under whom the stream is open. ``answered``, ``committed``: how many records of A. ``doing``: what A
    does with the partition; ``asked_at``: the end that A has named to the metadata. ``late``: entries under way."""

    version: int = 0
    leader: str = A
    has_target: bool = False
    owner: str = A
    committed: int = 0
    answered: int = 0
    doing: str = "serves"
    asked_at: int = -1
    late: frozenset[GiveUp] = frozenset()


def model(records: int, versions: int, rules: Rules) -> Model[State]:
    def steps_of(state: State) -> Iterator[tuple[str, State]]:
        yield from _late_entries(state, rules)
        if state.version < versions:
            yield from _operator(state)
            yield from _lives(state, rules)
        if state.doing in ("serves", "reads its end"):
            yield from _appends(state, records)
        if state.doing not in ("dead", "left"):
            yield from _commits(state)
            yield from _hands_over(state, rules)
        if state.owner == NOBODY and state.leader == B:
            yield "B opens the partition", _landed(state, owner=B)
            if state.version < versions:
                yield "B dies, and the partition is placed at A", _landed(state, leader=A)
        if state.owner == NOBODY and state.leader == A and state.doing == "left":
            yield "A opens the partition again", _landed(state, owner=A, doing="serves")

    return Model(State(), steps_of, wrong_in, is_end)


def wrong_in(state: State) -> str:
    if state.owner != A and state.answered > state.committed:
        return f"A has answered {state.answered} records, and its stream was closed behind {state.committed}"
    if state.owner == B and state.doing == "serves":
        return "both nodes serve"
    return ""


def is_end(state: State) -> bool:
    """B serves, or A does: everything else continues."""
    return state.owner == B or state.doing in ("serves", "left", "dead")


def _landed(state: State, **changes: object) -> State:
    return state._replace(version=state.version + 1, **changes)


def _given_up(state: State, end: int, rules: Rules) -> State | None:
    """The image after GiveUpPartitions; None if it is refused: without a target, or for another end."""
    if state.leader != A or not state.has_target or (rules.ends_are_checked and end != state.committed):
        return None
    return _landed(state, owner=NOBODY, leader=B, has_target=False)


# -- the metadata ------------------------------------------------------------------------------------------


def _late_entries(state: State, rules: Rules) -> Iterator[tuple[str, State]]:
    """What an entry says was decided when it was asked for: it is applied as it is."""
    for entry in state.late:
        gone = state._replace(late=state.late - {entry})
        if entry.version == state.version or not rules.appends_compare:
            yield "the late entry lands", _landed(gone, owner=NOBODY, leader=B, has_target=False)
        else:
            yield "the late entry is refused", gone


def _operator(state: State) -> Iterator[tuple[str, State]]:
    if state.leader == A:
        word = "withdraws the target" if state.has_target else "names a target"
        yield f"the operator {word}", _landed(state, has_target=not state.has_target)


# -- node A ------------------------------------------------------------------------------------------------


def _lives(state: State, rules: Rules) -> Iterator[tuple[str, State]]:
    if state.doing != "dead":
        yield "A dies", state._replace(doing="dead", asked_at=-1)
        return
    committed = state.answered if state.owner == A else state.committed
    serves = state.owner == A or (state.owner == NOBODY and state.leader == A)
    back = state._replace(
        committed=committed, doing="serves" if serves else "left", owner=A if serves else state.owner
    )
    yield "A comes back", _landed(back) if rules.a_new_life_registers_first else back


def _appends(state: State, records: int) -> Iterator[tuple[str, State]]:
    if state.answered < records:
        yield "A answers a record", state._replace(answered=state.answered + 1)


def _commits(state: State) -> Iterator[tuple[str, State]]:
    if state.owner == A and state.committed < state.answered:
        yield "A commits", _landed(state, committed=state.answered)


def _hands_over(state: State, rules: Rules) -> Iterator[tuple[str, State]]:
    match state.doing:
        case "serves" if state.leader == A and state.has_target:
            if rules.held_before_the_ends_are_read:
                yield "A holds the partition", state._replace(doing="holds")
            else:
                yield "A reads its end", state._replace(doing="reads its end", asked_at=state.answered)
        case "reads its end":
            yield "A holds the partition", state._replace(doing="holds")
        case "holds" if state.asked_at < 0:
            yield "A reads its end", state._replace(asked_at=state.answered)
        case "holds" | "does not know":
            yield from _asks(state, rules)
        case "serves" if state.leader != A:
            yield "A forgets the partition", state._replace(doing="left")


def _asks(state: State, rules: Rules) -> Iterator[tuple[str, State]]:
    """One attempt of GiveUpPartitions, decided on the image at the head of the log."""
    if state.leader == B:
        yield "A hears that it has left", state._replace(doing="left", asked_at=-1)
        return
    if state.doing == "does not know" and not rules.repeated_until_answered:
        yield "A looks, and serves on", state._replace(doing="serves", asked_at=-1)
        return
    after = _given_up(state, state.asked_at, rules)
    if after is None and state.owner != A and rules.closed_streams_are_forgotten:
        yield "A finds its stream closed", state._replace(doing="left", asked_at=-1)
        return
    if after is None:
        yield "A is refused, and serves on", state._replace(doing="serves", asked_at=-1)
        return
    yield "A gives it up", after._replace(doing="left", asked_at=-1)
    unknown = "does not know" if rules.held_until_answered else "serves"
    yield "A gives it up, and the answer is lost", after._replace(doing=unknown)
    if len(state.late) < LATE_MAX:
        entry = GiveUp(state.version, state.asked_at)
        yield "A's entry is under way", state._replace(doing=unknown, late=state.late | {entry})
