import pytest

from siltstone.broker.partitions.segments import PartitionSegments, chance_of_segment
from siltstone.model.limits import (
    DAY_MS,
    HOUR_MS,
    MIB,
    MINUTE_MS,
    SECOND_MS,
    SEGMENT_REST_MS,
    SEGMENTS_UNWRITTEN_MAX,
)
from siltstone.model.segments import ActiveSegment, ClosedSegment
from siltstone.topic_configs.rolling import roll_limits
from siltstone.topic_configs.table import parse_topic_configs

NOW_MS = 1_700_000_000_000
SMALL = parse_topic_configs({"segment.bytes": str(MIB), "segment.ms": str(HOUR_MS)})


def segments(config=SMALL, start: int = 0) -> PartitionSegments:
    return PartitionSegments(5, ActiveSegment(start, start), config)


def grown(held: PartitionSegments, *ends: int, size_bytes: int = MIB // 2) -> list[bool]:
    return [held.appended(end, size_bytes, NOW_MS + end, NOW_MS) for end in ends]


def test_a_batch_that_would_pass_the_cap_begins_the_next_segment():
    held = segments()
    assert grown(held, 10, 20, 30) == [False, False, True]
    assert held.unwritten == (ClosedSegment(0, 20, MIB, 2, NOW_MS + 20, NOW_MS, NOW_MS),)
    assert held.active == ActiveSegment(20, 30, MIB // 2, 1, NOW_MS + 30, NOW_MS)


def test_the_first_batch_of_a_segment_begins_its_age():
    held = segments()
    held.appended(1, 10, NOW_MS, NOW_MS)
    assert not held.appended(2, 10, NOW_MS, NOW_MS + HOUR_MS - 1)
    assert held.appended(3, 10, NOW_MS, NOW_MS + HOUR_MS)
    assert held.active.opened_ms == NOW_MS + HOUR_MS
    assert not held.appended(4, 10, NOW_MS, NOW_MS + 2 * HOUR_MS - 1)


def test_an_idle_one_is_closed_by_age_and_an_empty_one_never():
    held = segments()
    assert not held.check(SMALL, NOW_MS + DAY_MS)
    held.appended(1, 10, NOW_MS, NOW_MS)
    assert not held.check(SMALL, NOW_MS + HOUR_MS - 1)
    assert held.check(SMALL, NOW_MS + HOUR_MS)
    assert not held.check(SMALL, NOW_MS + DAY_MS)
    assert (held.active, len(held.unwritten)) == (ActiveSegment(1, 1), 1)


def test_r17_one_that_retention_waits_for_is_closed_when_it_rests():
    config = parse_topic_configs({"retention.ms": "1000"})
    held = segments(config)
    held.appended(1, 10, NOW_MS - DAY_MS, NOW_MS)
    assert not held.check(config, NOW_MS + SEGMENT_REST_MS - 1)
    assert held.check(config, NOW_MS + SEGMENT_REST_MS)


def test_a_changed_configuration_is_heeded_from_the_next_look_on():
    held = segments()
    held.appended(1, 10, NOW_MS, NOW_MS)
    sooner = parse_topic_configs({"segment.ms": "1000"})
    assert held.check(sooner, NOW_MS + 1_000)
    assert held.limits.age_ms_max == 1_000


def test_jitter_is_that_of_the_active_segment():
    config = parse_topic_configs(
        {"segment.bytes": str(MIB), "segment.ms": str(DAY_MS), "segment.jitter.ms": str(HOUR_MS)}
    )
    held = segments(config)
    assert held.limits == roll_limits(config, chance_of_segment(5, 0))
    grown(held, 10, 20, 30)
    assert (
        held.limits
        == roll_limits(config, chance_of_segment(5, 20))
        != roll_limits(config, chance_of_segment(5, 0))
    )


def closed(start: int, end: int, size_bytes: int = 100) -> ClosedSegment:
    return ClosedSegment(start, end, size_bytes, 10, 9, 1, 2)


@pytest.mark.parametrize(
    ("active_offset", "unwritten", "active"),
    [
        (0, (closed(0, 10), closed(10, 20)), ActiveSegment(20, 30, 100, 10, 9, 1)),
        (10, (closed(10, 20),), ActiveSegment(20, 30, 100, 10, 9, 1)),
        (15, (ClosedSegment(15, 20, 50, 5, 9, 1, 2),), ActiveSegment(20, 30, 100, 10, 9, 1)),
        (20, (), ActiveSegment(20, 30, 100, 10, 9, 1)),
        (24, (), ActiveSegment(24, 30, 60, 6, 9, 1)),
        (30, (), ActiveSegment(30, 30)),
    ],
)
def test_what_the_metadata_says_is_followed(active_offset, unwritten, active):
    held = PartitionSegments(5, ActiveSegment(20, 30, 100, 10, 9, 1), SMALL, (closed(0, 10), closed(10, 20)))
    held.follow(active_offset)
    assert (held.unwritten, held.active) == (unwritten, active)


def test_segments_that_cannot_be_written_become_one_at_last():
    held = segments()
    count = SEGMENTS_UNWRITTEN_MAX + 3
    assert all(grown(held, *range(1, count + 2), size_bytes=MIB)[1:])
    assert len(held.unwritten) == SEGMENTS_UNWRITTEN_MAX
    assert [each.batch_count for each in held.unwritten[-2:]] == [1, 4]
    assert [each.start_offset for each in held.unwritten[1:]] == [
        each.end_offset for each in held.unwritten[:-1]
    ]
    assert held.active.start_offset == held.unwritten[-1].end_offset == count


def test_of_what_is_read_again_the_age_is_what_its_records_say():
    held = segments()
    held.appended(1, 10, NOW_MS - 500, NOW_MS, opened_ms=NOW_MS - 500)
    assert held.active.opened_ms == NOW_MS - 500


def test_o7_jitter_spreads_what_was_created_together():
    config = parse_topic_configs({"segment.ms": str(HOUR_MS), "segment.jitter.ms": str(10 * MINUTE_MS)})
    ages = [roll_limits(config, chance_of_segment(stream, 0)).age_ms_max for stream in range(10_000)]
    assert min(ages) >= HOUR_MS - 10 * MINUTE_MS and max(ages) <= HOUR_MS
    in_each_second = [0] * 601
    for age_ms in ages:
        in_each_second[(HOUR_MS - age_ms) // SECOND_MS] += 1
    assert max(in_each_second) < 50  # of 17 on average


def test_jitter_is_that_of_the_segment_in_every_life():
    config = parse_topic_configs({"segment.jitter.ms": str(DAY_MS)})
    drawn = {
        (stream, start): roll_limits(config, chance_of_segment(stream, start)).age_ms_max
        for stream in (1, 2)
        for start in (0, 1, 2**62)
    }
    assert len(set(drawn.values())) == 6
    assert all(
        roll_limits(config, chance_of_segment(*which)).age_ms_max == age for which, age in drawn.items()
    )
