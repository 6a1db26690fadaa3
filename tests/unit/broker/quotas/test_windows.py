"""Rates over eleven windows and buckets of changes, against a slow model that keeps every use."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from siltstone.broker.quotas.windows import MeasuredRate, MutationBucket, fair_share


class SlowRate:
    """Keeps every use. A window begins with the first use a second or more after the one before began."""

    def __init__(self) -> None:
        self.uses: list[tuple[float, float]] = []

    def debt_ms(self, limit: float, now_ms: float) -> float:
        windows: list[list[tuple[float, float]]] = []
        for use in self.uses:
            if not windows or use[0] - windows[-1][0][0] >= 1_000:
                windows.append([])
            windows[-1].append(use)
        kept = [window for window in windows if now_ms - window[-1][0] < 11_000]
        used = sum(amount for window in kept for _, amount in window)
        passed_ms = now_ms - kept[0][0][0] if kept else 0
        measured_ms = passed_ms + max(10 - passed_ms // 1_000, 0) * 1_000
        return max((used / measured_ms * 1_000 - limit) / limit * measured_ms, 0)


@given(
    st.lists(st.tuples(st.integers(0, 4_000), st.integers(0, 50_000)), min_size=1, max_size=60),
    st.integers(1, 20_000),
)
def test_qu13_random_charges_are_those_of_the_slow_model(charges: list[tuple[int, int]], limit: int) -> None:
    rate, at_once, slow, now_ms = MeasuredRate(), MeasuredRate(), SlowRate(), 5
    for passed_ms, amount in charges:
        now_ms += passed_ms
        rate.add(amount, now_ms)
        slow.uses.append((now_ms, amount))
        assert rate.debt_ms(limit, now_ms) == pytest.approx(slow.debt_ms(limit, now_ms), abs=1e-6)
        assert at_once.charge(amount, limit, now_ms) == rate.debt_ms(limit, now_ms)


def test_the_first_use_counts_over_ten_seconds() -> None:
    rate = MeasuredRate()
    rate.add(10_000, 0)
    assert rate.debt_ms(1_000, 0) == 0
    rate.add(5_000, 0)
    assert rate.debt_ms(1_000, 0) == 5_000


def test_a_use_that_is_taken_back_does_not_count() -> None:
    rate = MeasuredRate()
    rate.add(15_000, 0)
    rate.add(-15_000, 0)
    assert (rate.used(0), rate.debt_ms(1_000, 0)) == (0, 0)


def test_nothing_is_left_after_eleven_seconds() -> None:
    rate = MeasuredRate()
    rate.add(99_000, 0)
    assert rate.used(10_999) == 99_000
    assert rate.used(11_000) == 0


def test_a_bucket_holds_eleven_seconds_and_is_paid_by_waiting() -> None:
    bucket = MutationBucket()
    bucket.take(55, 5, 1_000)
    assert bucket.debt_ms(5, 1_000) == 0
    bucket.take(5, 5, 1_000)
    assert bucket.debt_ms(5, 1_000) == 1_000
    assert bucket.debt_ms(5, 1_500) == 500
    assert bucket.debt_ms(5, 2_000) == 0
    bucket.take(55, 5, 100_000)  # it was full again, and no fuller
    assert bucket.debt_ms(5, 100_000) == 0


def test_a_bucket_of_a_tiny_limit_allows_one_change() -> None:
    bucket = MutationBucket()
    bucket.take(1, 0.01, 0)
    assert bucket.debt_ms(0.01, 0) == 0


@given(st.lists(st.floats(0, 1e9), min_size=1, max_size=8), st.floats(1, 1e9))
def test_a_fair_share_is_used_up_and_leaves_alone_who_uses_little(rates: list[float], limit: float) -> None:
    share = fair_share(rates, limit)
    assert share >= limit / len(rates) * (1 - 1e-9)
    together = sum(min(rate, share) for rate in rates)
    assert together == pytest.approx(min(limit, sum(rates)))
