import pytest

from siltstone.foundation.histogram import REQUEST_SECONDS, Histogram, HistogramCounts
from support.processes.calls_counted import calls_counted


def test_an_observation_is_counted_for_the_first_bound_that_is_not_below_it():
    histogram = Histogram((1.0, 2.0))
    for value in (0.5, 1.0, 1.5, 2.0, 2.5, 100.0):
        histogram.observe(value)
    counts = histogram.counts()
    assert (counts.counts, counts.total, counts.count) == ((2, 2, 2), 107.5, 6)


def test_counts_are_a_copy():
    histogram = Histogram((1.0,))
    before = histogram.counts()
    histogram.observe(3.0)
    assert before.counts == (0, 0) and histogram.counts().counts == (0, 1)


def test_the_default_of_a_statistic_is_a_histogram_without_observations():
    assert HistogramCounts() == Histogram().counts()
    assert list(REQUEST_SECONDS) == sorted(REQUEST_SECONDS)


def test_counts_of_two_processes_add_up():
    one, other = Histogram((1.0,)), Histogram((1.0,))
    one.observe(0.5)
    other.observe(2.0)
    assert one.counts() + other.counts() == HistogramCounts((1.0,), (1, 1), 2.5)
    with pytest.raises(AssertionError):
        one.counts() + HistogramCounts()


def test_an_observation_calls_nothing_but_itself():
    """It is made for every request: a bisection and two additions."""
    histogram = Histogram()
    with calls_counted() as calls:
        for _ in range(1_000):
            histogram.observe(0.003)
    assert calls == ["Histogram.observe"] * 1_000
