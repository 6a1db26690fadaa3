import pytest

from siltstone.carrying.pipeline.watch import RunPace, StepProgress, part_done
from siltstone.runtime.clock import ManualClock


def told(done: int, step: str = "rewrite", size_bytes: int = 0) -> StepProgress:
    return StepProgress("tidy", step, done, 10, size_bytes * done // 10, size_bytes)


def test_what_is_left_takes_as_long_as_what_is_done() -> None:
    clock = ManualClock()
    pace = RunPace(clock)
    assert pace.seconds_left(told(0)) is None
    clock.advance_ms(1_000)
    assert pace.seconds_left(told(1)) is None, "too early to say"
    clock.advance_ms(3_000)
    assert pace.seconds_left(told(4)) == pytest.approx(6)
    clock.advance_ms(6_000)
    assert pace.seconds_left(told(10)) == 0


def test_each_step_has_its_own_pace() -> None:
    clock = ManualClock()
    pace = RunPace(clock)
    pace.seconds_left(told(9))
    clock.advance_ms(10_000)
    assert pace.seconds_left(told(1, "commit")) is None
    clock.advance_ms(2_000)
    assert pace.seconds_left(told(5, "commit")) == pytest.approx(2)


def test_bytes_say_more_than_units() -> None:
    assert part_done(StepProgress("tidy", "rewrite", 1, 2, 90, 100)) == 0.9
    assert part_done(StepProgress("tidy", "rewrite", 1, 2, 0, 0)) == 0.5
    assert part_done(StepProgress("tidy", "rewrite", 0, 0, 0, 0)) == 0.0
    assert part_done(StepProgress("tidy", "rewrite", 1, 1, 120, 100)) == 1.0
