import msgspec

from siltstone.carrying.pipeline.driver import nothing_done
from siltstone.carrying.pipeline.kind import Outcome, UnitReport, Unplanned
from siltstone.carrying.pipeline.running import RunReport
from siltstone.carrying.pipeline.watch import Watch
from siltstone.maintenance.service.statistics import Counters, KindStatistics, MaintenanceStatistics
from siltstone.metadata.refusals import JobRunning
from siltstone.model.errors import Unavailable
from siltstone.model.limits import MIB
from siltstone.offline.tasks.pacing import RunRate
from siltstone.runtime.clock import ManualClock
from support.values.left_out import numbers_left_out


def report(*outcomes: Outcome, trouble: str = "", is_cancelled: bool = False) -> RunReport:
    units = tuple(
        UnitReport(name=str(number), outcome=outcome, text="", bytes_read=10, bytes_written=5, bytes_freed=3)
        for number, outcome in enumerate(outcomes)
    )
    return RunReport(
        kind="tidy",
        job_id=1,
        units=units,
        postponed=(),
        has_remaining=False,
        is_cancelled=is_cancelled,
        seconds=1.0,
        trouble=trouble,
    )


def test_runs_add_up() -> None:
    clock = ManualClock()
    counters = Counters(["tidy", "mend"], clock)
    counters.ended(report(Outcome.DONE, Outcome.FAILED), set_aside=1)
    clock.advance_ms(5_000)
    counters.ended(report(Outcome.DONE, Outcome.NOT_NEEDED), set_aside=0)
    tidy, mend = counters.statistics().kinds
    assert (tidy.runs, tidy.units_done, tidy.units_failed, tidy.units_set_aside) == (2, 2, 1, 0)
    assert (tidy.bytes_read, tidy.bytes_written, tidy.bytes_freed) == (40, 20, 12)
    assert tidy.last_success_ms == clock.now_ms() and mend.runs == 0
    clock.advance_ms(90_000)
    assert counters.statistics().lines == [
        "tidy: 2 runs, 2 units done, 1 failed, 40 B read, 20 B written, 12 B freed, last success 90.0 s ago",
        "mend: not looked at yet",
    ]


def test_a_run_that_finds_nothing_is_a_success_and_no_run() -> None:
    clock = ManualClock()
    counters = Counters(["tidy"], clock)
    counters.ended(report(), set_aside=0)
    (tidy,) = counters.statistics().kinds
    assert (tidy.runs, tidy.last_success_ms) == (0, clock.now_ms())


def test_trouble_is_counted_cancelling_is_not() -> None:
    counters = Counters(["tidy"], ManualClock())
    counters.ended(nothing_done("tidy", Unavailable("no Java"), 0.1), set_aside=0)
    counters.ended(report(trouble="SIGTERM", is_cancelled=True), set_aside=0)
    counters.ended(nothing_done("tidy", JobRunning("somebody else"), 0.1), set_aside=0)
    (tidy,) = counters.statistics().kinds
    assert (tidy.troubles, tidy.last_success_ms) == (1, 0)
    assert "1 trouble, last success never" in counters.statistics().lines[0]


def test_a_run_that_could_not_read_everything_is_no_success() -> None:
    counters = Counters(["tidy"], ManualClock())
    lost = (Unplanned("object 1", "lost", True), Unplanned("object 2", "lost", True))
    counters.ended(msgspec.structs.replace(report(), unusable=lost), set_aside=0)
    (tidy,) = counters.statistics().kinds
    assert (tidy.unusable, tidy.last_success_ms) == (2, 0)
    assert counters.statistics().lines == ["tidy: 0 runs, 0 units done, 2 cannot be read, last success never"]
    counters.ended(report(), set_aside=0)
    assert counters.statistics().kinds[0].unusable == 0


def test_what_runs_now_is_told() -> None:
    clock = ManualClock()
    counters = Counters(["tidy"], clock)
    watch = Watch("tidy", clock)
    counters.began("tidy", watch)
    clock.advance_ms(3_000)
    assert counters.statistics().lines == [
        "tidy: 0 runs, 0 units done, last success never, running for 3.0 s"
    ]
    watch.rate = RunRate(bytes_per_second=2 * MIB, urgency="a disk is 92% full")
    watch.held(1500)
    (line,) = counters.statistics().lines
    assert "1.5 s held by its rate" in line
    assert line.endswith("running for 3.0 s, at 2.0 MiB/s, urgent: a disk is 92% full")
    counters.ended(report(), set_aside=0)
    (tidy,) = counters.statistics().kinds
    assert tidy.running_since_ms == 0
    assert (tidy.rate, tidy.held_seconds) == (watch.rate, 1.5), "those of the latest run"
    counters.began("tidy", Watch("tidy", clock))
    assert counters.statistics().kinds[0].held_seconds == 1.5


def test_metadata_are_lost_as_long_as_one_lane_misses_them() -> None:
    clock = ManualClock()
    counters = Counters(["tidy"], clock)
    counters.metadata_lost("freeing")
    first_ms = clock.now_ms()
    clock.advance_ms(10)
    counters.metadata_lost("copying")
    counters.metadata_lost("freeing")
    assert counters.statistics().metadata_lost_ms == first_ms
    counters.metadata_found("freeing")
    assert counters.statistics().metadata_lost_ms == first_ms + 10
    counters.metadata_found("copying")
    assert counters.statistics().metadata_lost_ms == 0


def test_what_is_left_out() -> None:
    assert numbers_left_out(KindStatistics) == {
        "runs": 0,
        "units_done": 0,
        "units_failed": 0,
        "units_set_aside": 0,
        "unusable": 0,
        "troubles": 0,
        "bytes_read": 0,
        "bytes_written": 0,
        "bytes_freed": 0,
        "last_success_ms": 0,
        "running_since_ms": 0,
    }
    assert numbers_left_out(MaintenanceStatistics) == {"metadata_lost_ms": 0}
