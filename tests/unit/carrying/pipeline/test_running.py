"""One kind carried out: its job, its budget, what fails, what stops it."""

from random import Random
from threading import Event
from typing import Any

import msgspec
import pytest

from siltstone.carrying import jobs
from siltstone.carrying.pipeline.kind import Budget, Outcome, Plan, Scope, UnitReport, Unplanned
from siltstone.carrying.pipeline.running import RunReport, rate_of, run, spread_ms, waiting
from siltstone.carrying.pipeline.set_aside import all_set_aside, last_runs
from siltstone.carrying.pipeline.watch import Watch
from siltstone.metadata.client import CommitUnknown
from siltstone.metadata.commands import CancelJob, StartJob
from siltstone.metadata.entities import JobState
from siltstone.metadata.refusals import JobNotRunning, JobRunning
from siltstone.metadata.store_id import put_store_id
from siltstone.model.errors import InvalidRequest
from siltstone.model.limits import GIB, MIB, MINUTE_MS, SET_ASIDE_MS_MIN, SPREAD_BYTES_PER_SECOND_MIN
from siltstone.object_store.bandwidth.turns import BandwidthSettings, Grade
from siltstone.offline.pressure import Measured, Space
from siltstone.offline.settings import CopyRates, MaintenanceSettings, Rates
from siltstone.offline.tasks.pacing import NO_RATE, RunRate
from siltstone.offline.tasks.runner import InProcessRunner
from support.engine.faulty_store import Fault
from support.maintenance.compaction_world import CompactionWorld
from support.maintenance.fake_kind import FakeKind, nothing
from support.values.left_out import numbers_left_out


def ran(
    world: CompactionWorld,
    kind: FakeKind,
    *,
    scope: Scope | None = None,
    bytes_max: int | None = None,
    watch: Watch | None = None,
) -> RunReport:
    budget = Budget(bytes_max=bytes_max)
    watch = watch or Watch(kind.name, world.clock)
    return run(world.context, kind, InProcessRunner, scope or Scope(), budget, watch)


def only_job(world: CompactionWorld) -> tuple[JobState, str]:
    (job,) = world.metadata.refresh().jobs.values()
    return job.state, job.report


def test_all_units_are_done_under_one_job(world: CompactionWorld) -> None:
    kind = FakeKind(units={"one": nothing, "two": nothing})
    report = ran(world, kind)
    assert [each.outcome for each in report.units] == [Outcome.DONE] * 2
    assert report.is_well and kind.done == ["one", "two"]
    assert only_job(world) == (JobState.SUCCEEDED, report.in_one_line)
    assert "2 of 2 done; 200 B read" in report.in_one_line
    assert world.metadata.image.jobs[0].description == "2 units, 200 B to read"


def test_with_nothing_to_do_there_is_no_job(world: CompactionWorld) -> None:
    report = ran(world, FakeKind(units={}))
    assert (report.job_id, report.in_one_line) == (None, "nothing to do")
    assert not world.metadata.image.jobs
    assert last_runs(world.metadata.image)["tidy"].ended_ms == world.clock.now_ms()


def test_a_kind_that_needs_no_job_gets_none(world: CompactionWorld) -> None:
    report = ran(world, FakeKind(lease_ms=None))
    assert report.job_id is None and report.done
    assert not world.metadata.image.jobs


def test_one_that_fails_costs_the_others_nothing_and_waits(world: CompactionWorld) -> None:
    kind = FakeKind(units={"bad": lambda _: "object 3 is damaged", "good": nothing})
    report = ran(world, kind)
    assert [each.name for each in report.failed] == ["bad"] and kind.done == ["good"]
    assert not report.is_well and report.trouble == ""
    (aside,) = all_set_aside(world.metadata.image)
    assert (aside.name, aside.reason, aside.failures) == ("bad", "object 3 is damaged", 1)
    again = ran(world, kind)
    assert again.postponed == ("bad",) and not again.failed
    world.clock.advance_ms(SET_ASIDE_MS_MIN)
    assert [each.name for each in ran(world, kind).failed] == ["bad"]
    kind.units["bad"] = nothing
    assert ran(world, kind).postponed == ("bad",)
    assert ran(world, kind, scope=Scope(is_forced=True)).is_well
    assert not list(all_set_aside(world.metadata.image))


def test_units_that_are_set_aside_are_said_when_nothing_else_is_done(world: CompactionWorld) -> None:
    kind = FakeKind(units={"bad": lambda _: "it is damaged"})
    ran(world, kind)
    report = ran(world, kind)
    assert report.set_aside == ("bad",)
    assert report.in_one_line == "nothing was done; 1 postponed; 1 of them set aside after failures"


def test_what_cannot_be_read_is_said_and_the_run_is_not_well(world: CompactionWorld) -> None:
    lost = Unplanned("object 3", "its index cannot be read", True)
    kind = FakeKind(units={}, unplanned=[Unplanned("object 2", "it is small"), lost])
    report = ran(world, kind)
    assert report.unusable == (lost,) and not report.is_well
    assert report.in_one_line == "nothing was done; 1 cannot be read"
    assert last_runs(world.metadata.image)["tidy"].report == report.in_one_line


@pytest.mark.parametrize(
    ("fault", "call"), [(Fault.REFUSED, None), (Fault.REFUSED, "put"), (Fault.DENIED, "put")]
)
def test_a_unit_that_fails_while_the_bucket_refuses_is_not_set_aside(
    world: CompactionWorld, fault: Fault, call: str | None
) -> None:
    """Whether it refuses everything, or can be read and refuses what is written."""
    world.metadata.execute(put_store_id(Random(1)))

    def cut_off(_: object) -> str:
        world.store.fail_next(fault, call=call)
        return "put failed 10 times"

    kind = FakeKind(units={"one": nothing, "two": cut_off, "three": nothing})
    report = ran(world, kind)
    assert report.trouble and not report.is_well
    assert ([each.name for each in report.units], report.postponed) == (["one"], ("two", "three"))
    assert not list(all_set_aside(world.metadata.refresh()))


def test_what_waits_can_be_asked_for(world: CompactionWorld) -> None:
    kind = FakeKind(units={"bad": lambda _: "damaged"})
    ran(world, kind)
    (unit,) = kind.plan(world.context, Scope(), Watch("tidy", world.clock)).units
    aside = waiting(world.context, "tidy", unit)
    assert aside is not None and aside.reason == "damaged"
    world.clock.advance_ms(SET_ASIDE_MS_MIN)
    assert waiting(world.context, "tidy", unit) is None


def test_the_budget_in_bytes_takes_the_first_unit_and_what_fits(world: CompactionWorld) -> None:
    kind = FakeKind(units=dict.fromkeys(["one", "two", "three"], nothing))
    assert ran(world, kind, bytes_max=50).postponed == ("two", "three")
    assert ran(world, kind, bytes_max=200).postponed == ("three",)
    assert kind.done == ["one", "one", "two"]
    assert not last_runs(world.metadata.image), "a part is no whole run"


def test_when_its_time_is_over_nothing_more_is_begun(world: CompactionWorld) -> None:
    def slow(_watch: Watch) -> None:
        world.clock.advance_ms(3_000)

    kind = FakeKind(units=dict.fromkeys(["one", "two", "three"], slow))
    report = ran(world, kind, watch=Watch("tidy", world.clock, seconds_max=5))
    assert kind.done == ["one", "two"] and report.postponed == ("three",)
    assert report.is_well


def test_cancelled_it_says_what_stands(world: CompactionWorld) -> None:
    watch = Watch("tidy", world.clock)
    kind = FakeKind(units={"one": lambda seen: seen.cancel("Ctrl-C"), "two": nothing})
    report = ran(world, kind, watch=watch)
    assert report.is_cancelled and report.trouble == "Ctrl-C"
    assert [each.name for each in report.done] == ["one"] and report.postponed == ("two",)
    state, text = only_job(world)
    assert state is JobState.FAILED and "1 of 1 done" in text and "cancelled; Ctrl-C" in text
    assert not list(all_set_aside(world.metadata.image)), "no unit's fault"


def test_a_job_cancelled_from_elsewhere_stops_its_run(
    world: CompactionWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "JOB_LOOKED_AT_MS", 5)
    other = world.another_context().metadata

    def long(watch: Watch) -> None:
        other.execute(CancelJob(0, "cancelled by the test"))
        never = Event()
        while not watch.why_cancelled:
            never.wait(0.01)
        watch.check()

    report = ran(world, FakeKind(units={"one": long}))
    assert report.is_cancelled and "cancelled by the test" in report.trouble
    assert only_job(world) == (JobState.FAILED, "cancelled by the test")


def test_a_job_taken_over_ends_the_run_at_its_next_commit(world: CompactionWorld) -> None:
    def overtaken(_watch: Watch) -> None:
        world.clock.advance_ms(60_001)
        world.metadata.execute(StartJob("tidy", "somebody else", 60_000))
        raise JobNotRunning("job 0 was taken over")

    report = ran(world, FakeKind(units={"one": nothing, "two": overtaken}))
    assert report.is_cancelled and [each.name for each in report.done] == ["one"]
    states = [job.state for job in world.metadata.image.jobs.values()]
    assert states == [JobState.FAILED, JobState.RUNNING]


def test_metadata_out_of_reach_is_no_units_fault_and_what_was_done_is_told(world: CompactionWorld) -> None:
    def lost(_watch: Watch) -> None:
        raise CommitUnknown("the metadata log does not answer")

    report = ran(world, FakeKind(units={"one": nothing, "two": lost}))
    assert [each.name for each in report.done] == ["one"]
    assert report.trouble == "the metadata log does not answer"
    assert not report.is_well and not report.is_cancelled
    assert not list(all_set_aside(world.metadata.image))


def test_another_driver_at_work_is_left_alone(world: CompactionWorld) -> None:
    world.metadata.execute(StartJob("tidy", "somebody else", 60_000))
    kind = FakeKind()
    with pytest.raises(JobRunning, match="somebody else"):
        ran(world, kind)
    assert kind.done == []
    world.clock.advance_ms(60_001)
    assert ran(world, kind).is_well, "its lease has passed: the job is taken over"


def test_only_whole_runs_are_noted(world: CompactionWorld) -> None:
    kind = FakeKind(units={"one": nothing}, topics={"one": "flights"})
    ran(world, kind, scope=Scope(topics=frozenset({"flights"})))
    assert not last_runs(world.metadata.image)
    ran(world, kind)
    first = last_runs(world.metadata.image)["tidy"]
    world.clock.advance_ms(60_000)
    ran(world, kind)
    busy = last_runs(world.metadata.image)["tidy"]
    assert busy.ended_ms == first.ended_ms + 60_000, "a run that did work is noted at once"
    idle = FakeKind(units={})
    world.clock.advance_ms(60_000)
    ran(world, idle)
    assert last_runs(world.metadata.image)["tidy"] == busy, "idle runs are noted now and then"
    world.clock.advance_ms(600_000)
    ran(world, idle)
    assert last_runs(world.metadata.image)["tidy"].ended_ms == world.clock.now_ms()


@pytest.mark.parametrize(
    ("units", "state"),
    [
        ({"bad": lambda _: "damaged"}, JobState.FAILED),
        ({"bad": lambda _: "damaged", "good": nothing}, JobState.SUCCEEDED),
        ({"good": nothing}, JobState.SUCCEEDED),
    ],
)
def test_a_job_whose_units_all_failed_has_failed(world: CompactionWorld, units: Any, state: JobState) -> None:
    ran(world, FakeKind(units=units))
    assert only_job(world)[0] is state


def test_a_run_noted_by_a_clock_that_was_ahead_is_noted_anew(world: CompactionWorld) -> None:
    kind = FakeKind(units={"one": nothing})
    ran(world, kind)
    ahead_ms = world.clock.now_ms()
    world.clock.advance_ms(-30_000)
    ran(world, kind)
    assert last_runs(world.metadata.image)["tidy"].ended_ms == world.clock.now_ms() < ahead_ms


@pytest.mark.parametrize(
    ("read", "written", "freed", "told"),
    [
        (2_048, 0, 0, "2.0 KiB read, 0 B written"),
        (0, 2_048, 0, "0 B read, 2.0 KiB written"),
        (0, 0, 2_048, "2.0 KiB freed"),
        (0, 0, 0, ""),
    ],
)
def test_a_run_in_one_line_has_what_it_moved(read: int, written: int, freed: int, told: str) -> None:
    done = UnitReport(
        name="one", outcome=Outcome.DONE, text="", bytes_read=read, bytes_written=written, bytes_freed=freed
    )
    failed = UnitReport(name="two", outcome=Outcome.FAILED, text="", bytes_read=5, bytes_freed=5)
    report = RunReport(
        kind="tidy", job_id=1, units=(done, failed), postponed=("three",), has_remaining=False,
        is_cancelled=True, trouble="the bucket is away", seconds=1.0,
    )  # fmt: skip
    facts = ["1 of 2 done", "1 failed", "1 postponed", told, "cancelled", "the bucket is away", "1.0 s"]
    assert report.in_one_line == "; ".join(filter(None, facts))
    assert not report.is_well


def test_what_is_left_out() -> None:
    assert numbers_left_out(RunReport) == {"is_busy": False, "has_no_runner": False}


REPORT = RunReport(
    kind="tidy", job_id=1, units=(), postponed=(), has_remaining=False, is_cancelled=False, trouble="",
    seconds=1.0,
)  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "line", "is_well"),
    [
        ({}, "nothing to do", True),
        ({"postponed": ("one", "two")}, "nothing was done; 2 postponed", True),
        (
            {"postponed": ("one", "two"), "set_aside": ("two",)},
            "nothing was done; 2 postponed; 1 of them set aside after failures",
            True,
        ),
        ({"unusable": (Unplanned("object 3", "lost", True),)}, "nothing was done; 1 cannot be read", False),
        ({"is_cancelled": True}, "0 of 0 done; cancelled; 1.0 s", False),
        ({"trouble": "the bucket is away"}, "0 of 0 done; the bucket is away; 1.0 s", False),
    ],
)
def test_a_run_without_a_unit_in_one_line(changes: dict, line: str, is_well: bool) -> None:
    report = msgspec.structs.replace(REPORT, **changes)
    assert (report.in_one_line, report.is_well) == (line, is_well)


def test_a_cancelled_run_is_no_success_though_some_of_it_was_done(world: CompactionWorld) -> None:
    watch = Watch("tidy", world.clock)

    def cancelled(_watch: Watch) -> None:
        watch.cancel("")
        watch.check()

    report = ran(world, FakeKind(units={"one": nothing, "two": cancelled}), watch=watch)
    assert report.is_cancelled and [each.name for each in report.done] == ["one"]
    assert only_job(world)[0] is JobState.FAILED


def test_a_run_with_trouble_is_not_noted(world: CompactionWorld) -> None:
    def lost(_watch: Watch) -> None:
        raise CommitUnknown("the metadata log does not answer")

    ran(world, FakeKind(units={"one": nothing}))
    noted = last_runs(world.metadata.image)["tidy"]
    world.clock.advance_ms(60_000)
    assert ran(world, FakeKind(units={"one": lost})).trouble
    assert last_runs(world.metadata.image)["tidy"] == noted


def test_a_run_tells_how_long_it_took_and_what_it_would_read(world: CompactionWorld) -> None:
    def slow(_watch: Watch) -> None:
        world.clock.advance_ms(1_500)

    assert ran(world, FakeKind(units={"one": slow, "two": slow})).seconds == 3.0


def test_the_budget_takes_what_fits_exactly(world: CompactionWorld) -> None:
    kind = FakeKind(units=dict.fromkeys(["one", "two", "three"], nothing))
    (unit, *_) = kind.plan(world.context, Scope(), Watch("tidy", world.clock)).units
    cost = unit.bytes_read + unit.bytes_written
    assert ran(world, kind, bytes_max=2 * cost).postponed == ("three",)
    assert ran(world, kind, bytes_max=2 * cost - 1).postponed == ("two", "three")


EMPTY = Measured((Space("the disk", 10, 100),))
FULL = Measured((Space("the disk", 92, 100),))
NINETEEN = 19 * MINUTE_MS
NONE = CopyRates()


def rate(
    size_bytes: int = 10 * GIB,
    rates: CopyRates = NONE,
    spread: int = NINETEEN,
    space: Measured = EMPTY,
    **plan: object,
) -> RunRate:
    return rate_of(Plan(kind="sso-compaction", **plan), size_bytes, rates, spread, space)  # type: ignore[arg-type]


def test_a_scheduled_compaction_is_spread_over_all_but_a_minute_of_its_interval() -> None:
    assert spread_ms(20 * MINUTE_MS) == NINETEEN
    assert spread_ms(MINUTE_MS) == spread_ms(1) == MINUTE_MS, "a minute at least"
    found = rate()
    assert (found.spread_ms, found.grade) == (NINETEEN, Grade.MAINTENANCE)
    assert found.bytes_per_second * NINETEEN / 1000 == pytest.approx(10 * GIB, rel=1e-6)
    assert found.words == "at 9.0 MiB/s, spread over 19 min 00 s"


def test_a_small_one_is_not_spread_thinner_than_a_mebibyte_a_second() -> None:
    found = rate(10 * MIB)
    assert (found.bytes_per_second, found.spread_ms) == (SPREAD_BYTES_PER_SECOND_MIN, 0)


def test_what_is_not_scheduled_is_not_spread() -> None:
    assert rate(spread=0) == NO_RATE
    assert rate(spread=0).words == ""


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"urgency": "2 objects must be split"}, "urgent: 2 objects must be split"),
        ({"space": FULL}, "urgent: the disk is 92% full"),
        ({"space": FULL, "urgency": "2 objects must be split"}, "urgent: the disk is 92% full"),
    ],
)
def test_forced_splits_and_a_disk_under_pressure_are_urgent_and_not_spread(changes: dict, words: str) -> None:
    found = rate(**changes)
    assert (found.bytes_per_second, found.grade, found.words) == (0, Grade.URGENT, words)


def test_the_lowest_of_the_rates_that_are_set_holds() -> None:
    rates = CopyRates(of_all=5 * MIB, of_kind={"sso-compaction": 3 * MIB, "so-compaction": 1})
    assert rate(rates=rates).bytes_per_second == 3 * MIB
    assert rate(rates=rates).spread_ms == 0, "it takes longer than its interval"
    assert rate(rates=rates, bytes_per_second=2 * MIB).bytes_per_second == 2 * MIB
    assert rate(rates=CopyRates(of_all=100 * MIB)).spread_ms == NINETEEN
    assert rate(rates=rates, space=FULL).bytes_per_second == 3 * MIB, (
        "urgent work keeps to what people have set"
    )
    assert CopyRates(of_all=7).of("relocation") == 7 and CopyRates().of("relocation") == 0


def test_the_settings_of_a_kind_are_found_by_its_name() -> None:
    settings = MaintenanceSettings(
        copy_bytes_per_second=9, rate=Rates(key_compaction_bytes_per_second=8, relocation_bytes_per_second=10)
    )
    rates = settings.copy_rates
    assert [rates.of(kind) for kind in ("key-compaction", "relocation", "so-compaction")] == [8, 9, 9]
    with pytest.raises(InvalidRequest, match="table_export_bytes_per_second is -1"):
        Rates(table_export_bytes_per_second=-1)


def test_the_pace_of_a_run_has_its_rate_and_its_grade() -> None:
    limits = BandwidthSettings(1, 2)
    pace = RunRate(bytes_per_second=7, urgency="full").pace("so-compaction", limits)
    assert (pace.bytes_per_second, pace.grade, pace.counts_copies, pace.limits) == (
        7,
        Grade.URGENT,
        False,
        limits,
    )
    assert NO_RATE.pace("major-gc", limits).counts_copies, "its rate is about copies inside the store, too"
