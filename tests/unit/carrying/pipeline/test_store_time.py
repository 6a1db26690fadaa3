"""Rule 15: a clock that may be wrong deletes nothing."""

import pytest
from msgspec.structs import replace

from siltstone.carrying.pipeline.kind import Budget, Scope
from siltstone.carrying.pipeline.running import carry_out, plan_of
from siltstone.carrying.pipeline.set_aside import last_runs, note_run
from siltstone.carrying.pipeline.store_time import ClockAheadOfStore, check_clock
from siltstone.carrying.pipeline.watch import Watch
from siltstone.maintenance.sweep.kind import Sweep
from siltstone.maintenance.sweep.sweeping import sweep
from siltstone.metadata.client import CLOCK_OFFSET_MS_MAX, ClockTooFarOff, MetadataClient
from siltstone.metadata.commands import StartJob
from siltstone.metadata.store_id import put_store_id
from siltstone.model.limits import CLOCK_ADVANCE_MS_MAX, HOUR_MS
from siltstone.runtime.randomness import seeded_randomness
from support.maintenance.compaction_world import CompactionWorld


@pytest.fixture
def guarded(world: CompactionWorld) -> CompactionWorld:
    """A store whose contexts compare the clock with what the store has seen, as ``open_store`` has it."""
    world.context = replace(world.context, clock_advance_ms_max=CLOCK_ADVANCE_MS_MAX)
    return world


def leaves(world: CompactionWorld, what: str) -> None:
    """Has the store see the time in one way."""
    if what == "mark":
        world.metadata.execute(put_store_id(seeded_randomness(4)))
        guard = world.context.guard(0)
        assert guard is not None
        guard.note(world.metadata.image)
        guard.admit()
    elif what == "run":
        note_run(world.context, "sweep", "nothing to do", was_idle=False)
    elif what == "job":
        world.metadata.execute(StartJob("retention", "driver", HOUR_MS, ""))
    elif what == "upload":
        world.upload({0: [(0, 5, 100)]})
    else:
        beat_ms = world.clock.now_ms()
        world.context = replace(world.context, newest_beat_ms=lambda: beat_ms)


@pytest.mark.parametrize("what", ["mark", "run", "job", "upload", "beat"])
def test_rule_15_a_clock_is_refused_from_a_bound_ahead_of_all_that_the_store_has_seen(
    guarded: CompactionWorld, what: str
) -> None:
    leaves(guarded, what)
    seen_ms = guarded.clock.now_ms()
    guarded.clock.advance_ms(CLOCK_ADVANCE_MS_MAX)
    check_clock(guarded.context)
    guarded.clock.advance_ms(1)
    with pytest.raises(ClockAheadOfStore, match=r"36 hours after the newest time") as refused:
        check_clock(guarded.context)
    assert (refused.value.seen_ms, refused.value.now_ms) == (seen_ms, guarded.clock.now_ms())
    check_clock(replace(guarded.context, clock_advance_ms_max=None))


def test_a_store_that_has_seen_no_time_is_believed(guarded: CompactionWorld) -> None:
    guarded.clock.advance_ms(100 * CLOCK_ADVANCE_MS_MAX)
    check_clock(guarded.context)


def test_a_clock_that_is_behind_deletes_too_late_and_is_not_refused(guarded: CompactionWorld) -> None:
    guarded.clock.advance_ms(CLOCK_ADVANCE_MS_MAX)
    leaves(guarded, "run")
    guarded.clock.advance_ms(-2 * CLOCK_ADVANCE_MS_MAX)
    check_clock(guarded.context)


def test_rule_15_a_refused_run_writes_nothing_so_the_next_one_is_refused_too(
    guarded: CompactionWorld,
) -> None:
    leaves(guarded, "upload")
    note_run(guarded.context, "sweep", "nothing to do", was_idle=False)
    guarded.clock.advance_ms(2 * CLOCK_ADVANCE_MS_MAX)
    before = guarded.metadata.refresh().version
    for _ in range(2):
        watch = Watch("sweep", guarded.clock)
        plan = plan_of(guarded.context, Sweep(HOUR_MS), Scope(), watch)
        with pytest.raises(ClockAheadOfStore):
            carry_out(guarded.context, Sweep(HOUR_MS), plan, pytest.fail, Budget(), watch, Scope())
        with pytest.raises(ClockAheadOfStore):
            sweep(guarded.context)
    assert guarded.metadata.refresh().version == before
    trusted = replace(guarded.context, clock_advance_ms_max=None)
    carry_out(trusted, Sweep(HOUR_MS), plan, pytest.fail, Budget(), watch, Scope())
    assert last_runs(guarded.metadata.refresh())["sweep"].ended_ms == guarded.clock.now_ms()
    check_clock(guarded.context)


@pytest.mark.parametrize("offset_ms", [CLOCK_OFFSET_MS_MAX, -CLOCK_OFFSET_MS_MAX])
def test_rule_15_a_clock_that_differs_from_the_logs_is_refused(
    world: CompactionWorld, monkeypatch: pytest.MonkeyPatch, offset_ms: int
) -> None:
    monkeypatch.setattr(type(world.log), "clock_offset_ms", lambda _: offset_ms, raising=False)
    client = MetadataClient(world.log, world.clock, seeded_randomness(3))
    context = replace(world.context, metadata=client)
    with pytest.raises(
        ClockTooFarOff, match=r"^no maintenance is run: the clock of this machine is 30000 ms "
    ):
        check_clock(context)
    assert context.now_ms() == world.clock.now_ms() + offset_ms
