"""The lanes side by side, in real threads. Waits are for events, never for time."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread

import pytest

from siltstone.carrying.pipeline.set_aside import last_runs
from siltstone.carrying.pipeline.watch import Watch
from siltstone.maintenance.service.service import Lane, MaintenanceService
from siltstone.maintenance.service.statistics import Counters
from siltstone.offline.tasks.runner import InProcessRunner
from siltstone.runtime.clock import SystemClock
from support.maintenance.compaction_world import CompactionWorld
from support.maintenance.fake_kind import FakeKind

SECONDS = 60
"""Nobody waits for so long but a test that fails."""


def service_of(world: CompactionWorld, freeing: FakeKind, copying: FakeKind) -> MaintenanceService:
    counters = Counters([freeing.name, copying.name], SystemClock())

    def lane(name: str, kind: FakeKind) -> Lane:
        context = world.another_context()
        return Lane(name, context, [kind], {kind.name: 1}, InProcessRunner, counters, seconds_max=60)

    return MaintenanceService([lane("freeing", freeing), lane("copying", copying)], counters)


@contextmanager
def running(service: MaintenanceService) -> Iterator[Thread]:
    thread = Thread(target=service.run)
    thread.start()
    try:
        yield thread
    finally:
        service.stop("the test is over")
        thread.join(SECONDS)
        assert not thread.is_alive()


class Passing(SystemClock):
    """So fast that what is due every millisecond is due at each look."""

    def __init__(self) -> None:
        self._now_ms = 1_700_000_000_000

    def now_ms(self) -> int:
        self._now_ms += 10_000
        return self._now_ms


@pytest.fixture
def passing(world: CompactionWorld) -> CompactionWorld:
    world.clock = Passing()  # type: ignore[assignment]
    return world


def test_gc14_dead_objects_are_deleted_every_period_while_a_major_run_goes_on_and_on(
    passing: CompactionWorld,
) -> None:
    begun, enough, release = Event(), Event(), Event()
    dead = FakeKind("dead-objects", units={})

    def counted() -> None:
        if dead.planned >= 10:
            enough.set()

    def endless(watch: Watch) -> None:
        begun.set()
        assert release.wait(SECONDS)
        watch.check()

    dead.when_planned = counted
    major = FakeKind("major-gc", units={"all": endless}, lease_ms=10_000_000)
    service = service_of(passing, dead, major)
    with running(service):
        assert begun.wait(SECONDS)
        already = dead.planned
        dead.planned = 0
        assert enough.wait(SECONDS), f"starved: {already} before"
        assert major.done == []
        assert {each.kind: bool(each.running_since_ms) for each in service.statistics().kinds}["major-gc"]
        service.stop("SIGTERM")
        release.set()
    assert major.done == [], "what was under way when it was stopped was given up"


def test_stopped_while_nothing_is_due_it_ends_at_once(world: CompactionWorld) -> None:
    first, second = FakeKind("first"), FakeKind("second")
    counters = Counters(["first", "second"], world.clock)
    seen = Event()
    second.when_planned = seen.set
    hour_ms = {"first": 3_600_000, "second": 3_600_000}
    lane = Lane("all", world.context, [first, second], hour_ms, InProcessRunner, counters, seconds_max=60)
    with running(MaintenanceService([lane], counters)):
        assert seen.wait(SECONDS)
    assert (first.planned, second.planned) == (1, 1)


def test_a_service_notes_how_often_it_repeats_a_kind_and_a_single_turn_does_not(
    world: CompactionWorld,
) -> None:
    kind, counters = FakeKind("tidy"), Counters(["tidy"], world.clock)
    lane = Lane("all", world.context, [kind], {"tidy": 7_000}, InProcessRunner, counters, seconds_max=60)
    lane.turn(is_everything_due=True)
    assert last_runs(world.metadata.refresh())["tidy"].every_ms == 0
    world.clock.advance_ms(10_000)
    lane.turn()
    ran = last_runs(world.metadata.refresh())["tidy"]
    assert (ran.every_ms, ran.served_ms) == (7_000, ran.ended_ms)


def test_once_every_kind_has_its_turn_in_order(world: CompactionWorld) -> None:
    order: list[str] = []
    freeing, copying = FakeKind("freeing"), FakeKind("copying")
    freeing.when_planned = lambda: order.append("freeing")
    copying.when_planned = lambda: order.append("copying")
    service = service_of(world, freeing, copying)
    service.run_once()
    assert order == ["freeing", "copying"]
    assert [each.units_done for each in service.statistics().kinds] == [1, 1]


def test_a_lane_that_breaks_goes_on(
    passing: CompactionWorld, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Were it the lane itself that is wrong, and not a kind."""
    monkeypatch.setattr("siltstone.maintenance.service.service.BROKEN_MS", 1)
    again = Event()
    kind = FakeKind("tidy")
    kind.when_planned = again.set
    service = service_of(passing, kind, FakeKind("other"))
    lane = service._lanes[0]
    turn, turns = lane.turn, []

    def breaking_once() -> float:
        turns.append(1)
        if len(turns) == 1:
            raise RuntimeError("nobody thought of it")
        return turn()

    monkeypatch.setattr(lane, "turn", breaking_once)
    with running(service):
        assert again.wait(SECONDS)
    assert "nobody thought of it" in caplog.text


def test_statistics_are_logged(world: CompactionWorld, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "siltstone")
    service = service_of(world, FakeKind("first"), FakeKind("second"))
    service.log_statistics()
    assert "first: not looked at yet" in caplog.text and "second: not looked at yet" in caplog.text
