import pytest

from siltstone.object_store.health import (
    FAILING_MS,
    FAILURES_IN_A_ROW,
    OPEN_MS_MIN,
    PROBE_INTERVAL_MS,
    PROBE_MS_MAX,
    PROBE_PREFIX,
    WITHOUT_SUCCESS_MS,
    Breaker,
    probe,
)
from siltstone.object_store.memory import MemoryStore
from siltstone.runtime.clock import ManualClock


def test_failures_within_a_moment_do_not_open_it() -> None:
    breaker = Breaker()
    for _ in range(10 * FAILURES_IN_A_ROW):
        breaker.failed(0, "reset")
    assert not breaker.is_open
    breaker.failed(FAILING_MS, "reset")
    assert breaker.is_open and breaker.cause == "reset"


def test_a_success_begins_the_count_anew() -> None:
    breaker = Breaker()
    for number in range(FAILURES_IN_A_ROW):
        breaker.failed(number * FAILING_MS, "reset")
        breaker.succeeded()
    assert not breaker.is_open


def test_two_failures_far_apart_with_no_success_open_it() -> None:
    breaker = Breaker()
    breaker.failed(0, "silent")
    breaker.failed(WITHOUT_SUCCESS_MS - 1, "silent")
    assert not breaker.is_open
    breaker.failed(WITHOUT_SUCCESS_MS, "silent")
    assert breaker.is_open


def test_it_is_opened_once() -> None:
    breaker = Breaker()
    assert breaker.trip(0, "denied") and not breaker.trip(1, "again")
    assert breaker.cause == "denied"


def test_three_good_probes_in_a_row_close_it_not_before_30_s() -> None:
    breaker = Breaker()
    breaker.trip(0, "denied")
    assert not breaker.probe_is_due(PROBE_INTERVAL_MS - 1) and breaker.probe_is_due(PROBE_INTERVAL_MS)
    assert not any(
        breaker.probed(now_ms, is_good=True) for now_ms in range(0, OPEN_MS_MIN, PROBE_INTERVAL_MS)
    )
    assert not breaker.probed(OPEN_MS_MIN, is_good=False)
    answers = [breaker.probed(OPEN_MS_MIN + number, is_good=True) for number in range(3)]
    assert answers == [False, False, True]
    assert not breaker.is_open and breaker.closed_ms == OPEN_MS_MIN + 2
    assert not breaker.probe_is_due(10 * OPEN_MS_MIN)


def test_a_probe_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore(ManualClock())
    probe(store, "one")
    assert list(store.list()) == []

    def refuse(key: str, start: int, end: int) -> bytes:
        raise OSError(key)

    monkeypatch.setattr(store, "get_range", refuse)
    with pytest.raises(OSError, match="probe/two"):
        probe(store, "two")
    assert list(store.list()) == []


def test_a_probe_deletes_those_that_were_left_behind_and_none_that_may_be_under_way() -> None:
    clock = ManualClock()
    store = MemoryStore(clock)
    store.put(PROBE_PREFIX + "of a process that died", [b"."])
    clock.advance_ms(1)
    store.put(PROBE_PREFIX + "slow", [b"."])
    clock.advance_ms(PROBE_MS_MAX)
    probe(store, "one")
    assert [each.key for each in store.list()] == [PROBE_PREFIX + "slow"]
