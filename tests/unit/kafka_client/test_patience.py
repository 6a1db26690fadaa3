import pytest

from siltstone.kafka_client.failures import BrokerGone, KafkaNotReady
from siltstone.kafka_client.patience import PAUSE_MS_MAX, PAUSE_MS_MIN, Patience, patiently
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.runtime.clock import ManualClock
from siltstone.runtime.randomness import seeded_randomness

NOT_READY = KafkaNotReady(ErrorCode.LEADER_NOT_AVAILABLE, "not now")


def patience(clock: ManualClock, time_limit_ms: float = 10_000) -> Patience:
    return Patience(clock, seeded_randomness(1), time_limit_ms)


def test_pauses_double_up_to_a_second() -> None:
    clock = ManualClock()
    waiting = patience(clock)
    pauses: list[float] = []
    for _ in range(8):
        before = clock.monotonic_ms()
        waiting.wait_after(NOT_READY)
        pauses.append(clock.monotonic_ms() - before)
    for failures, pause_ms in enumerate(pauses):
        ceiling_ms = min(PAUSE_MS_MAX, PAUSE_MS_MIN * 2**failures)
        assert ceiling_ms / 2 <= pause_ms <= ceiling_ms


def test_the_failure_itself_is_raised_when_the_time_is_over() -> None:
    clock = ManualClock()
    began = clock.monotonic_ms()
    waiting = patience(clock)
    with pytest.raises(KafkaNotReady, match="not now"):
        while True:
            waiting.wait_after(NOT_READY)
    assert 8_000 < clock.monotonic_ms() - began <= 10_000


def test_success_begins_anew() -> None:
    clock = ManualClock()
    waiting = patience(clock, 300)
    for _ in range(20):
        waiting.wait_after(NOT_READY)
        waiting.restart()
    assert clock.monotonic_ms() - 1_700_000_000_000 > 300


def test_only_what_is_named_is_tried_again() -> None:
    failures = [NOT_READY, NOT_READY, BrokerGone("gone")]

    def attempt() -> str:
        raise failures.pop(0)

    with pytest.raises(BrokerGone):
        patiently(patience(ManualClock()), attempt, KafkaNotReady)
    assert failures == []
    assert patiently(patience(ManualClock()), lambda: "done", KafkaNotReady) == "done"
