import pytest

from siltstone.runtime.clock import ManualClock
from siltstone.runtime.log_limit import LOG_INTERVAL_MS, LogLimit


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def test_a_subject_is_due_once_in_an_interval(clock: ManualClock) -> None:
    limit = LogLimit(clock)
    assert limit.is_due("a") and not limit.is_due("a")
    clock.advance_ms(LOG_INTERVAL_MS - 1)
    assert not limit.is_due("a")
    clock.advance_ms(1)
    assert limit.is_due("a") and not limit.is_due("a")


def test_each_subject_has_an_interval_of_its_own(clock: ManualClock) -> None:
    limit = LogLimit(clock, 10)
    assert limit.is_due("a") and limit.is_due(("b", 1)) and limit.is_due() and not limit.is_due(None)
    clock.advance_ms(10)
    assert limit.is_due("a") and limit.is_due(("b", 1)) and limit.is_due()


def test_a_subject_that_was_not_due_keeps_its_interval(clock: ManualClock) -> None:
    limit = LogLimit(clock, 10)
    limit.is_due("a")
    clock.advance_ms(9)
    limit.is_due("a")
    clock.advance_ms(1)
    assert limit.is_due("a")


def test_a_forgotten_subject_is_due_at_once(clock: ManualClock) -> None:
    limit = LogLimit(clock)
    limit.is_due("a")
    limit.forget("a")
    limit.forget("never logged")
    assert limit.is_due("a")


def test_memory_is_limited_and_the_oldest_subject_is_forgotten_first(clock: ManualClock) -> None:
    limit = LogLimit(clock, 10, subjects_max=3)
    for subject in range(3):
        limit.is_due(subject)
    clock.advance_ms(10)
    limit.is_due(0)  # now the newest
    limit.is_due(3)
    assert len(limit) == 3
    assert not limit.is_due(0) and not limit.is_due(3)
    assert limit.is_due(1) and len(limit) == 3
