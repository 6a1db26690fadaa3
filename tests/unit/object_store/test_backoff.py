import pytest

from siltstone.object_store.backoff import Attempts, RetrySettings
from siltstone.object_store.port import StoreTransient
from siltstone.runtime.clock import ManualClock
from siltstone.runtime.randomness import seeded_randomness

CERTAIN = StoreTransient("SlowDown", uncertain=False)
UNCERTAIN = StoreTransient("time-out")


def test_the_wait_is_random_up_to_a_maximum_that_doubles_to_a_limit() -> None:
    settings = RetrySettings(backoff_ms_min=50, backoff_ms_max=1_000)
    rng = seeded_randomness(1)
    longest = {
        failures: max(settings.backoff_ms(failures, rng) for _ in range(2_000))
        for failures in (1, 2, 4, 9, 5_000)
    }

    for failures, limit_ms in {1: 100, 2: 200, 4: 800, 9: 1_000, 5_000: 1_000}.items():
        assert 0.98 * limit_ms < longest[failures] <= limit_ms
    shortest = min(settings.backoff_ms(4, rng) for _ in range(2_000))
    assert 0 <= shortest < 16


def test_attempts_end_at_their_number() -> None:
    attempts = Attempts("put k", RetrySettings(attempts_max=3), ManualClock(), seeded_randomness(1))
    attempts.wait_after(CERTAIN)
    attempts.wait_after(CERTAIN)

    with pytest.raises(
        StoreTransient, match=r"put k failed 3 times in \d+ ms; the last failure: SlowDown"
    ) as caught:
        attempts.wait_after(CERTAIN)

    assert not caught.value.uncertain
    assert caught.value.__cause__ is CERTAIN


def test_no_attempt_begins_after_the_deadline() -> None:
    clock = ManualClock()
    began_ms = clock.now_ms()
    settings = RetrySettings(attempts_max=10_000, backoff_ms_max=1_000, deadline_ms=30_000)
    attempts = Attempts("put k", settings, clock, seeded_randomness(1))

    with pytest.raises(StoreTransient):
        while True:
            attempts.wait_after(CERTAIN)
            assert clock.now_ms() - began_ms <= 30_000

    assert attempts.failures > 30
    assert clock.now_ms() - began_ms > 29_000, "the next wait, of at most a second, would have been too long"


def test_one_uncertain_attempt_makes_the_outcome_uncertain() -> None:
    attempts = Attempts("put k", RetrySettings(attempts_max=3), ManualClock(), seeded_randomness(1))
    attempts.wait_after(CERTAIN)
    attempts.wait_after(UNCERTAIN)

    with pytest.raises(StoreTransient) as caught:
        attempts.wait_after(CERTAIN)

    assert caught.value.uncertain


def test_progress_starts_the_count_anew() -> None:
    clock = ManualClock()
    attempts = Attempts("list", RetrySettings(attempts_max=2, deadline_ms=1_000), clock, seeded_randomness(1))
    for _ in range(5):
        attempts.wait_after(CERTAIN)
        clock.advance_ms(900)
        attempts.restart()

    assert attempts.failures == 0
