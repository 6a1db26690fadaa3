"""When segments are closed. Names begin with the scenario of docs/scenarios.md."""

from random import Random

import pytest

from siltstone.model.limits import DAY_MS, HOUR_MS, MIB, MINUTE_MS
from siltstone.model.segments import ActiveSegment
from siltstone.topic_configs.rolling import (
    RollLimits,
    holds_up_retention,
    is_full,
    is_full_for,
    is_too_old,
    roll_limits,
)
from siltstone.topic_configs.table import parse_topic_configs
from siltstone.topic_configs.values import InvalidTopicConfig

NOW_MS = 1_700_000_000_000
LIMITS = RollLimits(bytes_max=1_000, batches_max=10, age_ms_min=100, age_ms_max=500)


def segment(size_bytes: int = 1, batches: int = 1, age_ms: int = 0) -> ActiveSegment:
    return ActiveSegment(0, batches, size_bytes, batches, NOW_MS, NOW_MS - age_ms)


def limits_of(seed: int = 0, **configs: str) -> RollLimits:
    named = {name.replace("_", "."): value for name, value in configs.items()}
    return roll_limits(parse_topic_configs(named), Random(seed).random())


@pytest.mark.parametrize(
    ("active", "batch_bytes", "is_closed"),
    [
        (segment(999), 1, False),
        (segment(999), 2, True),
        (segment(1_000), 0, True),
        (segment(1, batches=9, age_ms=100), 1, False),
        (segment(1, batches=10, age_ms=99), 1, False),
        (segment(1, batches=10, age_ms=100), 1, True),
        (segment(1, age_ms=499), 1, False),
        (segment(1, age_ms=500), 1, True),
        (segment(1, age_ms=-5), 1, False),
        (ActiveSegment(7, 7), 5_000, False),
    ],
)
def test_full(active, batch_bytes, is_closed):
    assert is_full_for(active, LIMITS, batch_bytes, NOW_MS) is is_closed


def test_without_a_limit_of_batches_there_is_none():
    limits = RollLimits(bytes_max=10**9, batches_max=0, age_ms_min=0, age_ms_max=500)
    assert not is_full(segment(1, batches=10**6, age_ms=499), limits, NOW_MS)


def test_only_age_closes_a_segment_that_nobody_appends_to():
    assert not is_too_old(segment(10**9, batches=10**6, age_ms=499), LIMITS, NOW_MS)
    assert is_too_old(segment(age_ms=500), LIMITS, NOW_MS)
    assert not is_too_old(ActiveSegment(7, 7), LIMITS, NOW_MS)


def test_o1_sixty_thousand_batches_in_five_minutes_wait_for_the_least_age():
    """Pulsar's numbers: minimum 10 min, maximum 240, 50,000 entries."""
    limits = limits_of(
        siltstone_segment_min_ms=str(10 * MINUTE_MS),
        segment_ms=str(240 * MINUTE_MS),
        siltstone_segment_batches_max="50000",
    )
    growing = ActiveSegment(0, 0)
    for number in range(60_000):
        now_ms = NOW_MS + number * 5 * MINUTE_MS // 60_000
        assert not is_full_for(growing, limits, 100, now_ms)
        growing = growing.appended(number + 1, 100, now_ms, now_ms)
    assert not is_too_old(growing, limits, NOW_MS + 20 * MINUTE_MS)
    assert not is_full_for(growing, limits, 100, NOW_MS + 10 * MINUTE_MS - 1)
    assert is_full_for(growing, limits, 100, NOW_MS + 10 * MINUTE_MS)


def test_o4_a_least_age_above_the_most_is_refused():
    with pytest.raises(InvalidTopicConfig, match=r"siltstone\.segment\.min\.ms \(1001\) > segment\.ms"):
        limits_of(siltstone_segment_min_ms="1001", segment_ms="1000")


def test_o5_at_100_mb_a_second_no_segment_is_larger_than_the_cap():
    """In Pulsar's way a segment has 60 GB: 10 min at that rate."""
    cap, batch = 2_048 * 10**6 // 1_000, 10**6 // 1_000  # in KB, so that it fits
    limits = RollLimits(cap, batches_max=50_000, age_ms_min=10 * MINUTE_MS, age_ms_max=240 * MINUTE_MS)
    sizes, growing = [], ActiveSegment(0, 0)
    for number in range(10 * 60 * 100):
        now_ms = NOW_MS + number * 10
        if is_full_for(growing, limits, batch, now_ms):
            sizes.append(growing.size_bytes)
            growing = ActiveSegment(number, number)
        growing = growing.appended(number + 1, batch, now_ms, now_ms)
    assert len(sizes) == 29
    assert max(sizes) <= cap and min(sizes) == cap


def test_o5_a_batch_larger_than_the_cap_has_a_segment_of_its_own():
    assert not is_full_for(ActiveSegment(0, 0), LIMITS, 5_000, NOW_MS)
    assert is_full_for(segment(5_000), LIMITS, 1, NOW_MS)


def test_o6_a_compacted_topic_is_closed_in_time_for_its_lag():
    limits = limits_of(
        cleanup_policy="compact", segment_ms=str(7 * DAY_MS), max_compaction_lag_ms=str(DAY_MS)
    )
    growing, closed = ActiveSegment(0, 0), []
    for hour in range(10 * 24):
        now_ms = NOW_MS + hour * HOUR_MS
        if is_full_for(growing, limits, 100, now_ms):
            closed.append(hour)
            growing = ActiveSegment(hour, hour)
        growing = growing.appended(hour + 1, 100, now_ms, now_ms)
    assert closed == [24 * day for day in range(1, 10)]


def test_o6_a_topic_that_is_not_compacted_knows_no_lag():
    assert limits_of(segment_ms=str(7 * DAY_MS), max_compaction_lag_ms="1").age_ms_max == 7 * DAY_MS


def test_jitter_leaves_some_age_and_at_least_the_least():
    shortest = [
        limits_of(seed, segment_ms="10", segment_jitter_ms="100000").age_ms_max for seed in range(200)
    ]
    assert (min(shortest), max(shortest)) == (1, 10)
    with_least = [
        limits_of(seed, segment_ms="10", segment_jitter_ms="9", siltstone_segment_min_ms="8").age_ms_max
        for seed in range(200)
    ]
    assert (min(with_least), max(with_least)) == (8, 10)


def test_limits_are_those_of_the_topic():
    limits = limits_of(segment_bytes=str(3 * MIB), siltstone_segment_batches_max="7")
    assert limits == RollLimits(3 * MIB, 7, 0, 7 * DAY_MS)


@pytest.mark.parametrize(
    ("newest_ms", "configs", "holds_up"),
    [
        (NOW_MS - 1_000, {"retention.ms": "1000"}, False),
        (NOW_MS - 1_001, {"retention.ms": "1000"}, True),
        (NOW_MS - 1_001, {"retention.ms": "-1"}, False),
        (NOW_MS - 1_001, {"retention.ms": "1000", "cleanup.policy": "compact"}, False),
        (NOW_MS - 1_001, {"retention.ms": "1000", "cleanup.policy": "compact,delete"}, True),
        (NOW_MS + DAY_MS, {"retention.ms": "1000"}, False),
        (-1, {"retention.ms": "1000"}, True),
        (-1, {"retention.ms": "2000"}, False),
    ],
)
def test_r17_what_retention_waits_for(newest_ms, configs, holds_up):
    """Opened two seconds ago."""
    active = ActiveSegment(0, 5, 100, 1, newest_ms, NOW_MS - 2_000)
    assert holds_up_retention(active, parse_topic_configs(configs), NOW_MS) is holds_up


def test_r17_an_empty_segment_holds_up_nothing():
    assert not holds_up_retention(ActiveSegment(5, 5), parse_topic_configs({"retention.ms": "0"}), NOW_MS)
