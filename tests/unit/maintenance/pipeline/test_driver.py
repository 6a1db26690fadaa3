from siltstone.maintenance.pipeline.driver import Driver
from siltstone.maintenance.pipeline.kind import Budget, Scope
from siltstone.maintenance.pipeline.running import RunReport
from siltstone.maintenance.pipeline.watch import Watch
from siltstone.maintenance.tasks.runner import InProcessRunner
from siltstone.metadata.commands import StartJob
from siltstone.model.errors import CorruptData
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
