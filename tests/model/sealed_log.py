"""A model of one life that writes a log into a bucket, and of processes that take it over.

The *writer* puts its claim at seq 0, opens its stream, and puts the bulks 1, 2, …, each of one record, two at a time.
It answers them in order, commits what it has answered while its node epoch is the newest, and deletes what is not kept.
A put that was asked for lands at some time, even when the writer is dead by then; an attempt whose answer was lost may
land once more, after another attempt was answered. *Takers* register under a higher epoch each, while the writer lives
or not, list, seal the life, read, commit and delete. Everybody may die between any two requests, and a list is as old
as it happens to be.

What must hold: once a taker has committed what it read, everything that was ever answered is committed, whatever
happens after. And nobody is stuck: a log that lost nothing is never called damaged.

``Rules`` are the functions that the program uses, and some that stand for its order of steps; a test leaves one out at
a time.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from siltstone.object_formats.log_file import DamagedWal
from siltstone.object_formats.wal_object import WalObjectHeader, WalObjectKind
from siltstone.stream_engine.wal import runs
from tests.model.exploring import Model, Violation

LIFE = 1


class Rules(NamedTuple):
    """Those of ``stream_engine.wal``: ``runs``; of ``bucket_wal``, ``_answer`` and ``_claim_first``; of ``bucket_log``,
    ``_put_seal``, ``_seal_of`` and ``others`` (seals stay); of ``opening``: registered before the log is fenced."""

    run_of_life: Callable[..., runs.LifeRun] = runs.run_of_life
    sealed_run: Callable[..., runs.LifeRun] = runs.sealed_run
    first_deletable_by_answered_kept: bool = True
    answers_in_order: bool = True
    claims_first: bool = True
    seals: bool = True
    seal_replaces_nothing: bool = True
    seal_stays: bool = True
    registers_first: bool = True
    looks_for_seals: bool = True


class Bulk(NamedTuple):
    kept: int
    answered: int


class Seal(NamedTuple):
    kept: int


class Writer(NamedTuple):
    is_alive: bool = True
    has_opened: bool = False
    following: int = 0
    landed: frozenset[int] = frozenset()
    answered: frozenset[int] = frozenset()
    trimmed: int = 0
    kept_answered: int = 0


class Taker(NamedTuple):
    doing: str = "waits"
    epoch: int = 0
    listed: frozenset[int] = frozenset()
    seqs: tuple[int, ...] = ()
    read: tuple[int, ...] = ()
    seal_seq: int = -1
    kept: int = 0


class State(NamedTuple):
    """``objects``: by seq what the bucket holds. ``flying``: puts of the writer that have not landed. ``repeats``: how
    many attempts may still land twice. ``is_recovered``: some taker has committed all it read."""

    objects: tuple[Any, ...]
    epoch: int = LIFE
    committed: int = 0
    flying: frozenset[tuple[int, Bulk]] = frozenset()
    repeats: int = 1
    is_recovered: bool = False
    writer: Writer = Writer()
    takers: tuple[Taker, ...] = ()


def model(bulks: int, takers: int, repeats: int, rules: Rules) -> Model[State]:
    first = State((None,) * (bulks + 3), repeats=repeats, takers=(Taker(),) * takers)

    def steps_of(state: State) -> Iterator[tuple[str, State]]:
        yield from _steps_of_puts(state)
        if state.writer.is_alive:
            yield from _steps_of_writer(state, bulks, rules)
        for number, taker in enumerate(state.takers):
            if taker.doing not in ("dead", "done") and (number == 0 or state.takers[number - 1].epoch):
                yield from _steps_of_taker(state, number, rules)

    return Model(first, steps_of, wrong_in, is_end)


def wrong_in(state: State) -> str:
    lost = {seq for seq in state.writer.answered if seq > state.committed}
    return f"bulks {sorted(lost)} were answered and are lost" if state.is_recovered and lost else ""


def is_end(state: State) -> bool:
    return state.is_recovered or all(taker.doing == "dead" for taker in state.takers)


# -- puts --------------------------------------------------------------------------------------------------


def _steps_of_puts(state: State) -> Iterator[tuple[str, State]]:
    for put in state.flying:
        seq, bulk = put
        landed = _with(state.objects, seq, bulk) if state.objects[seq] is None else state.objects
        gone = state._replace(objects=landed, flying=state.flying - {put})
        is_own = landed[seq] == bulk
        writer = state.writer
        if not writer.is_alive:
            yield f"{seq} lands late", gone
        elif is_own:
            heard = writer._replace(landed=writer.landed | {seq})
            yield f"{seq} lands", gone._replace(writer=heard)
            if state.repeats:
                again = state._replace(objects=landed, writer=heard, repeats=state.repeats - 1)
                yield f"{seq} lands, and another attempt is still on its way", again
        else:
            yield f"{seq} meets another object", gone._replace(writer=writer._replace(is_alive=False))


# -- the writer --------------------------------------------------------------------------------------------


def _steps_of_writer(state: State, bulks: int, rules: Rules) -> Iterator[tuple[str, State]]:
    yield "the writer dies", _with_writer(state, is_alive=False)
    yield from _puts(state, bulks, rules)
    yield from _answers(state, rules)
    yield from _trims(state, rules)


def _puts(state: State, bulks: int, rules: Rules) -> Iterator[tuple[str, State]]:
    """The claim, the opening of the stream, bulks."""
    writer, first = state.writer, 0 if rules.claims_first else 1
    if not writer.has_opened and state.epoch == LIFE and (first or 0 in writer.answered):
        yield "the writer opens its stream", _with_writer(state, has_opened=True, following=1)
    is_claim = writer.following == 0 and not first
    is_bulk = writer.has_opened and 1 <= writer.following <= bulks
    unanswered = writer.following - first - len(writer.answered)
    if (is_claim or is_bulk) and unanswered < 2:
        seq = writer.following
        bulk = Bulk(writer.trimmed + 1 if writer.trimmed else min(seq, 1), len(writer.answered))
        asked = state._replace(flying=state.flying | {(seq, bulk)})
        yield f"the writer puts {seq}", _with_writer(asked, following=seq + 1)


def _answers(state: State, rules: Rules) -> Iterator[tuple[str, State]]:
    writer = state.writer
    for seq in writer.landed - writer.answered:
        before = range(0 if rules.claims_first else 1, seq)
        if not rules.answers_in_order or all(each in writer.answered for each in before):
            found = state.objects[seq]
            kept = max(writer.kept_answered, found.kept if isinstance(found, Bulk) else 0)
            yield (
                f"{seq} is answered",
                _with_writer(state, answered=writer.answered | {seq}, kept_answered=kept),
            )


def _trims(state: State, rules: Rules) -> Iterator[tuple[str, State]]:
    writer = state.writer
    newest = max(writer.answered, default=0)
    if state.epoch == LIFE and newest > writer.trimmed:
        committed = state._replace(committed=max(state.committed, newest))
        yield f"the writer commits up to {newest}", _with_writer(committed, trimmed=newest)
    end = writer.kept_answered if rules.first_deletable_by_answered_kept else writer.trimmed + 1
    for seq in range(1, min(end, newest)):
        if isinstance(state.objects[seq], Bulk):
            yield f"the writer deletes {seq}", state._replace(objects=_with(state.objects, seq, None))


def _with_writer(state: State, **changes: Any) -> State:
    return state._replace(writer=state.writer._replace(**changes))


# -- the takers --------------------------------------------------------------------------------------------


def _steps_of_taker(state: State, number: int, rules: Rules) -> Iterator[tuple[str, State]]:
    taker = state.takers[number]
    if taker.doing != "waits":
        yield f"taker {number} dies", _with_taker(state, number, Taker("dead", taker.epoch))
    for step, following in _DOING[taker.doing](state, number, rules):
        yield f"taker {number} {step}", following


def _registered(state: State, number: int, rules: Rules) -> Iterator[tuple[str, State]]:
    taker = state.takers[number]._replace(doing="lists", epoch=state.epoch + 1)
    epoch = taker.epoch if rules.registers_first else state.epoch
    yield "registers", _with_taker(state, number, taker)._replace(epoch=epoch)


def _listed(state: State, number: int, rules: Rules) -> Iterator[tuple[str, State]]:
    listed = frozenset(seq for seq, found in enumerate(state.objects) if found is not None)
    taker = state.takers[number]._replace(doing="looks" if listed else "commits", listed=listed)
    yield f"lists {sorted(listed)}", _with_taker(state, number, taker)


def _read(state: State, number: int, rules: Rules) -> Iterator[tuple[str, State]]:
    taker = state.takers[number]
    if not taker.seqs:
        yield f"has read {taker.read}", _with_taker(state, number, taker._replace(doing="commits"))
        return
    seq = taker.seqs[0]
    found = (seq,) if seq and isinstance(state.objects[seq], Bulk) else ()
    taker = taker._replace(seqs=taker.seqs[1:], read=taker.read + found)
    yield f"reads {seq}", _with_taker(state, number, taker)


def _deleted(state: State, number: int, rules: Rules) -> Iterator[tuple[str, State]]:
    left = [seq for seq in state.takers[number].read if isinstance(state.objects[seq], Bulk)]
    for seq in left:
        yield f"deletes {seq}", state._replace(objects=_with(state.objects, seq, None))
    if not left:
        objects = state.objects
        if not rules.seal_stays:
            objects = tuple(None if isinstance(each, Seal) else each for each in objects)
        done = _with_taker(state, number, Taker("done", state.takers[number].epoch))
        yield "is done", done._replace(objects=objects)


def _looked(state: State, number: int, rules: Rules) -> Iterator[tuple[str, State]]:
    """``bucket_log._seal_life``: the header of the newest object, the seal, the run."""
    taker = state.takers[number]
    newest = state.objects[max(taker.listed)]
    if newest is None:
        yield "finds the newest object gone", _with_taker(state, number, taker._replace(doing="lists"))
        return
    kept = newest.kept
    seals = [seq for seq in taker.listed if seq >= kept and isinstance(state.objects[seq], Seal)]
    if seals and rules.looks_for_seals:
        run = rules.sealed_run(LIFE, taker.listed, kept, seals[0])
    else:
        run = rules.run_of_life(LIFE, taker.listed, kept)
        if isinstance(newest, Bulk):
            _refuse_gap(run, max(taker.listed), newest)
    is_sealed = bool(seals and rules.looks_for_seals) or not rules.seals
    taker = taker._replace(
        doing="reads" if is_sealed else "seals", seqs=run.seqs, seal_seq=run.seal_seq, kept=kept
    )
    yield "reads headers", _with_taker(state, number, taker)


def _refuse_gap(run: runs.LifeRun, seq: int, newest: Bulk) -> None:
    header = WalObjectHeader(
        WalObjectKind.BULK, "", 0, LIFE, "", seq, 0, 0, LIFE, newest.kept, newest.answered
    )
    try:
        runs.refuse_acknowledged_gap(run, header, "a bulk")
    except DamagedWal as damage:
        raise Violation(str(damage), []) from damage


def _sealed(state: State, number: int, rules: Rules) -> Iterator[tuple[str, State]]:
    taker = state.takers[number]
    if state.objects[taker.seal_seq] is not None and rules.seal_replaces_nothing:
        yield "comes too late to seal", _with_taker(state, number, taker._replace(doing="lists", seqs=()))
        return
    sealed = state._replace(objects=_with(state.objects, taker.seal_seq, Seal(taker.kept)))
    yield f"seals at {taker.seal_seq}", _with_taker(sealed, number, taker._replace(doing="reads"))


def _committed(state: State, number: int, rules: Rules) -> Iterator[tuple[str, State]]:
    taker, committed = state.takers[number], state.committed
    epoch = state.epoch if rules.registers_first else max(state.epoch, taker.epoch)
    if taker.epoch < epoch:
        yield "is fenced", _with_taker(state, number, Taker("dead", taker.epoch))
        return
    for seq in taker.read:
        if seq > committed + 1:
            raise Violation(f"bulk {seq} does not continue {committed}", [f"taker {number} commits"])
        committed = max(committed, seq)
    done = state._replace(committed=committed, epoch=epoch, is_recovered=True)
    yield f"commits up to {committed}", _with_taker(done, number, taker._replace(doing="deletes"))


_DOING: dict[str, Callable[[State, int, Rules], Iterator[tuple[str, State]]]] = {
    "waits": _registered,
    "lists": _listed,
    "looks": _looked,
    "seals": _sealed,
    "reads": _read,
    "commits": _committed,
    "deletes": _deleted,
}


def _with_taker(state: State, number: int, taker: Taker) -> State:
    return state._replace(takers=_with(state.takers, number, taker))


def _with(values: tuple[Any, ...], at: int, value: Any) -> tuple[Any, ...]:
    return (*values[:at], value, *values[at + 1 :])
