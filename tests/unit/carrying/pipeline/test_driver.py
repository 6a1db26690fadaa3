import pytest

from siltstone.carrying.pipeline.driver import Driver, nothing_done
from siltstone.carrying.pipeline.kind import Budget, Scope
from siltstone.carrying.pipeline.running import RunReport
from siltstone.carrying.pipeline.set_aside import all_set_aside
from siltstone.carrying.pipeline.watch import Cancelled, Watch
from siltstone.metadata.commands import StartJob
from siltstone.metadata.entities import JobState
from siltstone.metadata.refusals import JobRunning
from siltstone.model.errors import CorruptData
from siltstone.offline.tasks.runner import InProcessRunner, WorkersUnfit
from support.maintenance.compaction_world import CompactionWorld
from support.maintenance.fake_kind import FakeKind, nothing


def driver(world: CompactionWorld, budget: Budget | None = None) -> Driver:
    return Driver(world.context, InProcessRunner, Scope(), budget or Budget())


def kinds_of(reports: list[RunReport]) -> list[str]:
    return [each.kind for each in reports]


def test_each_kind_is_planned_when_its_turn_comes(world: CompactionWorld) -> None:
    first, second = FakeKind("first"), FakeKind("second")
    second.when_planned = lambda: first.done.append("before second")
    assert kinds_of(list(driver(world).run([first, second]))) == ["first", "second"]
    assert first.done == ["one", "before second"]


def test_a_kind_goes_on_while_it_has_work(world: CompactionWorld) -> None:
    kind = FakeKind(rounds=3)
    assert kinds_of(list(driver(world).run([kind, FakeKind("last")]))) == ["tidy"] * 3 + ["last"]


def test_a_kind_that_gets_nowhere_does_not_go_on(world: CompactionWorld) -> None:
    kind = FakeKind(units={"one": lambda _: "damaged"}, rounds=10)
    assert len(list(driver(world).run([kind]))) == 1


def test_trouble_with_one_kind_leaves_the_others_their_turn(world: CompactionWorld) -> None:
    def broken() -> None:
        raise CorruptData("the index is damaged")

    bad, busy, good = FakeKind("bad"), FakeKind("busy"), FakeKind("good")
    bad.when_planned = broken
    world.metadata.execute(StartJob("busy", "somebody else", 60_000))
    reports = list(driver(world).run([bad, busy, good]))
    assert [report.trouble.split(";")[0] for report in reports] == [
        "the index is damaged",
        "busy job 0 is run by somebody else",
        "",
    ]
    assert [report.is_well for report in reports] == [False, False, True]


def test_workers_that_cannot_run_tasks_end_the_run_with_one_line_and_nothing_is_set_aside(
    world: CompactionWorld,
) -> None:
    def unfit(_: object) -> None:
        raise WorkersUnfit("the workers lack siltstone: install it")

    bad, never = FakeKind("bad", {"one": nothing, "two": unfit, "three": nothing}), FakeKind("never")
    (report,) = driver(world).run([bad, never])
    assert report.trouble == "the workers lack siltstone: install it" and not report.is_well
    assert (bad.done, report.postponed, never.planned) == (["one"], ("two", "three"), 0)
    assert not list(all_set_aside(world.metadata.refresh()))
    (job,) = world.metadata.image.jobs.values()
    assert job.state is JobState.FAILED and "install it" in job.report


def test_the_bytes_are_for_all_kinds_together(world: CompactionWorld) -> None:
    units = dict.fromkeys(["one", "two", "three"], nothing)
    first, second, third = (FakeKind(name, dict(units)) for name in ("first", "second", "third"))
    reports = list(driver(world, Budget(bytes_max=400)).run([first, second, third]))
    assert kinds_of(reports) == ["first", "second"]
    assert (first.done, second.done, third.planned) == (["one", "two", "three"], ["one"], 0)


def test_the_time_is_for_all_kinds_together(world: CompactionWorld) -> None:
    def slow(_watch: Watch) -> None:
        world.clock.advance_ms(2_000)

    first, second, third = (FakeKind(name, {"a": slow, "b": slow}) for name in ("first", "second", "third"))
    list(driver(world, Budget(seconds_max=5)).run([first, second, third]))
    assert (first.done, second.done, third.planned) == (["a", "b"], ["a"], 0)


def test_cancelled_nothing_else_is_begun(world: CompactionWorld) -> None:
    running = driver(world)
    first = FakeKind("first", {"a": lambda _: running.cancel("Ctrl-C"), "b": nothing})
    second = FakeKind("second")
    (report,) = running.run([first, second])
    assert report.is_cancelled and first.done == ["a"] and second.planned == 0
    assert running.is_cancelled


def test_cancelled_while_it_plans(world: CompactionWorld) -> None:
    running = driver(world)
    kind = FakeKind()
    kind.when_planned = lambda: running.cancel("SIGTERM")
    (report,) = running.run([kind])
    assert report.is_cancelled and report.trouble == "SIGTERM" and kind.done == []


def test_who_looks_on_hears_which_kind_has_begun(world: CompactionWorld) -> None:
    begun: list[str] = []
    running = Driver(world.context, InProcessRunner, Scope(), Budget(), on_begun=begun.append)
    list(running.run([FakeKind("first"), FakeKind("second")]))
    assert begun == ["first", "second"]


def test_a_run_that_came_to_nothing_says_why_and_how_long_it_took(world: CompactionWorld) -> None:
    def broken() -> None:
        world.clock.advance_ms(1_500)
        raise CorruptData("the index is damaged")

    kind = FakeKind("bad")
    kind.when_planned = broken
    (report,) = driver(world).run([kind])
    assert report == RunReport(
        kind="bad", job_id=None, units=(), postponed=(), has_remaining=False, is_cancelled=False,
        trouble="the index is damaged", seconds=1.5, is_busy=False,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("failure", "trouble", "is_cancelled", "is_busy"),
    [
        (JobRunning("busy"), "busy", False, True),
        (Cancelled("Ctrl-C"), "Ctrl-C", True, False),
        (ValueError("x"), "this is a bug, ValueError: x", False, False),
    ],
)
def test_what_kept_a_run_from_its_first_unit(
    failure: Exception, trouble: str, is_cancelled: bool, is_busy: bool
) -> None:
    report = nothing_done("tidy", failure, 2.0)
    assert (report.trouble, report.is_cancelled, report.is_busy) == (trouble, is_cancelled, is_busy)
    assert (report.units, report.has_remaining, report.seconds) == ((), False, 2.0)


def test_the_budget_is_over_when_its_last_byte_or_second_is_used(world: CompactionWorld) -> None:
    running = driver(world, Budget(bytes_max=100, seconds_max=2))
    assert not running.is_over
    world.clock.advance_ms(1_999)
    assert not running.is_over
    world.clock.advance_ms(1)
    assert running.is_over
    of_bytes = driver(world, Budget(bytes_max=100))
    list(of_bytes.run([FakeKind()]))
    assert of_bytes.is_over, "its unit has read 100 bytes"
    assert not driver(world).is_over


def test_a_kind_that_did_something_and_had_trouble_does_not_go_on(world: CompactionWorld) -> None:
    def lost(_watch: Watch) -> None:
        raise CorruptData("the bucket is away")

    kind = FakeKind(units={"one": nothing, "two": lost}, rounds=3)
    (report,) = driver(world).run([kind])
    assert report.done and report.trouble == "the bucket is away"
