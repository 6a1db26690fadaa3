import pytest

from siltstone.carrying.pipeline.watch import Cancelled, RunningWatch, StepProgress, Watch
from siltstone.runtime.clock import ManualClock


def test_it_tells_how_far_the_run_is() -> None:
    told: list[StepProgress] = []
    watch = Watch("tidy", ManualClock(), on_step_progress=told.append)
    watch.report("read", 1, 2)
    watch.steps("write", 1000)(1, 4)
    assert told == [StepProgress("tidy", "read", 1, 2, 0, 0), StepProgress("tidy", "write", 1, 4, 250, 1000)]


def test_the_first_reason_for_cancelling_is_the_one_told() -> None:
    watch = Watch("tidy", ManualClock())
    watch.check()
    assert watch.why_cancelled == ""
    watch.cancel("Ctrl-C")
    watch.cancel("the lease is gone")
    assert watch.why_cancelled == "Ctrl-C"
    with pytest.raises(Cancelled, match="Ctrl-C"):
        watch.check()
    with pytest.raises(Cancelled):
        watch.report("read", 1, 2)


def test_its_time_passes_by_the_clock() -> None:
    clock = ManualClock()
    watch, endless = Watch("tidy", clock, seconds_max=2.5), Watch("tidy", clock)
    clock.advance_ms(2_499)
    assert not watch.is_over
    clock.advance_ms(1)
    assert watch.is_over and not endless.is_over


def test_the_first_unit_is_begun_even_when_the_plan_took_all_the_time() -> None:
    clock = ManualClock()
    watch, short = Watch("tidy", clock, seconds_max=1), Watch("tidy", clock, seconds_max=0.5)
    clock.advance_ms(600)
    assert [watch.may_begin(), short.may_begin()] == [True, True]
    assert [watch.may_begin(), short.may_begin()] == [True, False]
    clock.advance_ms(400)
    assert not watch.may_begin()


def test_a_cancelled_run_begins_nothing() -> None:
    watch = Watch("tidy", ManualClock())
    watch.cancel("Ctrl-C")
    with pytest.raises(Cancelled):
        watch.may_begin()


def test_who_cancels_what_runs_cancels_what_would_follow() -> None:
    running = RunningWatch()
    first = Watch("tidy", ManualClock())
    assert running.replace(first) is first
    assert not running.is_cancelled
    running.replace(first).check()
    running.cancel("Ctrl-C")
    running.cancel("again")
    assert running.is_cancelled and first.why_cancelled == "Ctrl-C"
    following = running.replace(Watch("mend", ManualClock()))
    with pytest.raises(Cancelled, match="Ctrl-C"):
        following.check()


def test_one_that_is_cancelled_before_anything_runs() -> None:
    running = RunningWatch()
    running.cancel("SIGTERM")
    assert running.replace(Watch("tidy", ManualClock())).why_cancelled == "SIGTERM"
