"""Kinds that take turns: which are due, which fail, which wait. The clock is the test's, so no test waits for real."""

import logging

import pytest

from siltstone.carrying.pipeline.watch import Watch
from siltstone.maintenance.service.service import TROUBLE_MS, Lane
from siltstone.maintenance.service.statistics import Counters, KindStatistics
from siltstone.metadata.commands import StartJob
from siltstone.metadata.store.port import LogUnavailable
from siltstone.model.limits import METADATA_BACKOFF_MS_MAX, SET_ASIDE_MS_MIN
from siltstone.offline.tasks.runner import InProcessRunner, WorkersUnfit
from support.maintenance.compaction_world import CompactionWorld
from support.maintenance.fake_kind import FakeKind, nothing

MINUTE = 60_000


class LaneWorld:
    def __init__(self, world: CompactionWorld, *kinds: FakeKind, seconds_max: float = 3600) -> None:
        self.world = world
        self.counters = Counters((kind.name for kind in kinds), world.clock)
        self.lane = Lane(
            "copying",
            world.context,
            kinds,
            {kind.name: 20 * MINUTE for kind in kinds} | {"quick": MINUTE},
            InProcessRunner,
            self.counters,
            seconds_max=seconds_max,
        )

    def pass_minutes(self, minutes: float) -> None:
        self.world.clock.advance_ms(minutes * MINUTE)

    def statistics(self, kind: str) -> KindStatistics:
        return next(each for each in self.counters.statistics().kinds if each.kind == kind)


def test_each_kind_has_its_turn_when_it_is_due(world: CompactionWorld) -> None:
    quick, tidy = FakeKind("quick"), FakeKind()
    at = LaneWorld(world, quick, tidy)
    wait_ms = at.lane.turn()
    assert (quick.planned, tidy.planned) == (1, 1)
    assert 0.8 * MINUTE < wait_ms < 1.2 * MINUTE, "until the quick one is due again"
    at.lane.turn()
    assert quick.planned == 1
    at.pass_minutes(2)
    at.lane.turn()
    assert (quick.planned, tidy.planned) == (2, 1)
    at.pass_minutes(23)
    at.lane.turn()
    assert (quick.planned, tidy.planned) == (3, 2)


def test_asked_for_everything_it_looks_at_no_schedule(world: CompactionWorld) -> None:
    quick, tidy = FakeKind("quick"), FakeKind()
    at = LaneWorld(world, quick, tidy)
    at.lane.turn()
    at.lane.turn(is_everything_due=True)
    assert (quick.planned, tidy.planned) == (2, 2)


def test_a_bad_unit_is_set_aside_and_ends_nothing(world: CompactionWorld) -> None:
    tidy = FakeKind(units={"bad": lambda _: "damaged", "good": nothing})
    at = LaneWorld(world, tidy, FakeKind("quick"))
    at.lane.turn()
    done = at.statistics("tidy")
    assert (done.runs, done.units_done, done.units_failed, done.units_set_aside) == (1, 1, 1, 1)
    assert done.last_success_ms == 0 and done.bytes_read == 100
    assert at.statistics("quick").last_success_ms == world.clock.now_ms()
    tidy.units["bad"] = nothing
    world.clock.advance_ms(SET_ASIDE_MS_MIN)
    at.lane.turn(is_everything_due=True)
    assert at.statistics("tidy").units_set_aside == 0
    assert at.statistics("tidy").last_success_ms == world.clock.now_ms()


@pytest.mark.parametrize("is_everything_due", [False, True])
def test_without_a_runner_one_kind_says_so_and_the_others_wait_as_long(
    world: CompactionWorld, caplog: pytest.LogCaptureFixture, is_everything_due: bool
) -> None:
    def unfit(_: object) -> None:
        raise WorkersUnfit("the workers lack siltstone: install it")

    tidy, other = FakeKind(units={"one": unfit}), FakeKind("other")
    at = LaneWorld(world, tidy, other)
    wait_ms = at.lane.turn(is_everything_due=is_everything_due)
    assert (tidy.planned, other.planned) == (1, 0)
    assert wait_ms == MINUTE
    assert [each.message for each in caplog.records if "lack siltstone" in each.message] == [
        "tidy: 0 of 0 done; 1 postponed; the workers lack siltstone: install it; 0 ms"
    ]
    assert at.statistics("tidy").units_set_aside == 0 and at.statistics("tidy").troubles == 1
    tidy.units["one"] = nothing
    at.pass_minutes(1)
    at.lane.turn()
    assert (tidy.planned, other.planned) == (2, 1)


def test_a_bug_in_one_kind_ends_nothing_either(
    world: CompactionWorld, caplog: pytest.LogCaptureFixture
) -> None:
    def bug() -> None:
        raise KeyError("nobody thought of it")

    broken, tidy = FakeKind("broken"), FakeKind()
    broken.when_planned = bug
    at = LaneWorld(world, broken, tidy)
    at.lane.turn()
    assert tidy.done == ["one"] and at.statistics("broken").troubles == 1
    assert "this is a bug, KeyError: 'nobody thought of it'" in caplog.text
    world.clock.advance_ms(TROUBLE_MS)
    at.lane.turn()
    assert (broken.planned, tidy.planned) == (2, 1)


def test_another_driver_at_work_is_waited_for(world: CompactionWorld) -> None:
    world.metadata.execute(StartJob("tidy", "somebody else", 60_000))
    tidy = FakeKind()
    at = LaneWorld(world, tidy)
    at.lane.turn()
    assert tidy.done == [] and at.statistics("tidy").troubles == 0, "that is what jobs are for"
    world.clock.advance_ms(TROUBLE_MS + 1)
    at.lane.turn()
    assert tidy.done == ["one"]


def test_metadata_out_of_reach_is_waited_for_longer_each_time_and_said(
    world: CompactionWorld, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def unreachable() -> None:
        raise LogUnavailable("the disk is gone")

    tidy = FakeKind()
    at = LaneWorld(world, tidy)
    with monkeypatch.context() as patch:
        patch.setattr(world.metadata, "refresh", unreachable)
        waits = [at.lane.turn() for _ in range(8)]
    assert waits == [
        1_000,
        2_000,
        4_000,
        8_000,
        16_000,
        32_000,
        METADATA_BACKOFF_MS_MAX,
        METADATA_BACKOFF_MS_MAX,
    ]
    assert "the metadata cannot be reached" in caplog.text and "the disk is gone" in caplog.text
    assert at.counters.statistics().metadata_lost_ms == world.clock.now_ms()
    assert tidy.planned == 0
    at.lane.turn()
    assert tidy.done == ["one"] and at.counters.statistics().metadata_lost_ms == 0
    assert "can be reached again" in caplog.text


def test_a_run_that_takes_long_leaves_the_others_their_turn_and_goes_on(world: CompactionWorld) -> None:
    def slow(_watch: Watch) -> None:
        world.clock.advance_ms(10_000)

    tidy, quick = FakeKind(units=dict.fromkeys(["a", "b", "c"], slow)), FakeKind("quick")
    at = LaneWorld(world, tidy, quick, seconds_max=15)
    wait_ms = at.lane.turn()
    assert tidy.done == ["a", "b"] and quick.planned == 1
    assert wait_ms <= 1_000, "what was left is due again soon"


def test_a_kind_with_work_left_goes_on_after_the_others(world: CompactionWorld) -> None:
    tidy, quick = FakeKind(rounds=2), FakeKind("quick")
    at = LaneWorld(world, tidy, quick)
    assert at.lane.turn() <= 1_000
    world.clock.advance_ms(1_000)
    assert at.lane.turn() > 30_000
    assert (tidy.planned, quick.planned) == (2, 1)


def test_runs_by_others_are_not_repeated(world: CompactionWorld) -> None:
    tidy, again = FakeKind(), FakeKind()
    LaneWorld(world, tidy).lane.turn()
    LaneWorld(world, again).lane.turn()
    assert (tidy.planned, again.planned) == (1, 0), "a service that starts again"


def test_a_clock_that_was_ahead_and_is_right_again_stops_nothing_and_makes_nothing_spin(
    world: CompactionWorld,
) -> None:
    right_ms = world.clock.now_ms()
    world.clock.advance_ms(10_000 * MINUTE)
    LaneWorld(world, FakeKind("quick")).lane.turn()
    world.clock.advance_ms(right_ms - world.clock.now_ms())
    quick = FakeKind("quick", units={"one": lambda _: "it cannot be done"})
    at = LaneWorld(world, quick)
    assert at.lane.turn() > 30_000 and quick.planned == 1
    assert at.lane.turn() > 30_000 and quick.planned == 1
    at.pass_minutes(1.2)
    at.lane.turn()
    assert quick.planned == 2


def test_cancelled_it_begins_nothing_else(world: CompactionWorld) -> None:
    first, second = FakeKind("first"), FakeKind("second")
    at = LaneWorld(world, first, second)
    first.units = {"a": lambda _: at.lane.cancel("SIGTERM"), "b": nothing}
    at.lane.turn()
    assert first.done == ["a"] and second.planned == 0
    assert at.statistics("first").troubles == 0, "being stopped is no trouble"


def test_runs_that_did_something_are_logged(world: CompactionWorld, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "siltstone")
    LaneWorld(world, FakeKind(), FakeKind("quick", units={})).lane.turn()
    assert "tidy: 1 of 1 done" in caplog.text and "quick" not in caplog.text
