"""How far a stream may be trimmed. Names begin with the scenario of docs/scenarios.md."""

import pytest
from msgspec.structs import replace

from siltstone.maintenance.retention.planning import Bound, Walked, walk
from siltstone.metadata.entities import StreamState
from siltstone.model.limits import DAY_MS, HOUR_MS, MIB, MINUTE_MS, OPEN_STREAM_LEFT_ALONE_MS
from siltstone.topic_configs.table import parse_topic_configs
from support.maintenance.segmented_streams import NOW_MS, closed_segments, segmented


def walked(
    stream_and_objects,
    retention_ms: int = -1,
    retention_bytes: int = -1,
    bound: Bound | None = None,
    **more: str,
) -> Walked:
    configs = {"retention.ms": str(retention_ms), "retention.bytes": str(retention_bytes)}
    config = parse_topic_configs(configs | {name.replace("_", "."): text for name, text in more.items()})
    stream, objects = stream_and_objects
    return walk(stream, objects, config, NOW_MS, bound)


TEN = closed_segments(*((MIB, (10 - number) * MINUTE_MS) for number in range(10)))
"""Of 1 MiB each, the oldest ten minutes old, the newest one minute."""


def test_r2_all_is_read_and_size_leaves_five():
    found = walked(segmented(TEN), HOUR_MS, 5 * MIB)
    assert (found.start_offset, found.over_size, found.expired, found.size_bytes) == (50, 5, 0, 5 * MIB)


def test_r1_what_a_group_has_not_read_stays_for_ever():
    found = walked(segmented(TEN), HOUR_MS, 5 * MIB, bound=(0, "10.0 MiB wait for group g"))
    assert (found.start_offset, found.due, found.blocked) == (0, 0, "10.0 MiB wait for group g")


@pytest.mark.parametrize(
    ("retention_ms", "retention_bytes", "start"),
    [(0, -1, 100), (-1, 0, 100), (0, 0, 100), (-1, -1, 0)],
)
def test_r3_nothing_and_no_limit(retention_ms, retention_bytes, start):
    """The active segment is younger, and stays."""
    stream_and_objects = segmented(TEN, [(MIB, 0)])
    assert walked(stream_and_objects, retention_ms, retention_bytes).start_offset == start


def test_r4_three_of_four_are_too_old():
    ages = [30 * MINUTE_MS, 20 * MINUTE_MS, 11 * MINUTE_MS, 5 * MINUTE_MS]
    found = walked(segmented(closed_segments(*((7, age) for age in ages)), [(1, 0)]), 10 * MINUTE_MS)
    assert (found.start_offset, found.expired, found.segments, found.size_bytes) == (30, 3, 5, 21)


@pytest.mark.parametrize(("age_ms", "goes"), [(1_000, False), (1_001, True)])
def test_r4_older_and_not_as_old(age_ms, goes):
    assert bool(walked(segmented(closed_segments((1, age_ms)), [(1, 0)]), 1_000).due) is goes


@pytest.mark.parametrize(("bound", "start"), [(35, 30), (40, 40), (39, 30), (1_000, 100)])
def test_r6_the_slowest_group_holds_its_segment(bound, start):
    found = walked(segmented(TEN), 0, bound=(bound, "group b is slow"))
    assert found.start_offset == start
    assert found.blocked == ("group b is slow" if start < 100 else "")


def test_r9_what_is_not_committed_to_its_end_stays():
    found = walked(segmented(TEN, end=25), 0)
    assert (found.start_offset, found.blocked) == (20, "the segment that is due is not all uploaded yet")


def test_it_stops_at_the_first_that_stays():
    segments = closed_segments((1, DAY_MS), (1, 10), (1, DAY_MS))
    assert walked(segmented(segments, [(1, DAY_MS)]), HOUR_MS).start_offset == 10


def test_a_future_time_pins_its_segment_until_size_drops_it():
    segments = closed_segments((MIB, DAY_MS), (MIB, -DAY_MS), (MIB, DAY_MS))
    assert walked(segmented(segments), HOUR_MS).start_offset == 10
    assert walked(segmented(segments, [(MIB, 0)]), HOUR_MS, 2 * MIB).start_offset == 30


@pytest.mark.parametrize(("closed_ago_ms", "goes"), [(1_000, False), (1_001, True)])
def test_without_timestamps_the_time_of_closing_counts(closed_ago_ms, goes):
    (segment,) = closed_segments((1, NOW_MS + 1), closed_later_ms=NOW_MS + 1 - closed_ago_ms)
    assert (segment.largest_timestamp_ms, segment.closed_ms) == (-1, NOW_MS - closed_ago_ms)
    assert bool(walked(segmented([segment], [(1, 0)]), 1_000).due) is goes


def test_size_is_a_floor():
    """What is left is never less than retention.bytes."""
    assert walked(segmented(TEN), retention_bytes=5 * MIB + 1).start_offset == 40
    assert walked(segmented(TEN), retention_bytes=5 * MIB).start_offset == 50
    assert walked(segmented(TEN, [(MIB // 2, 0)]), retention_bytes=5 * MIB + 1).start_offset == 50
    assert walked(segmented(TEN), retention_bytes=11 * MIB).start_offset == 0


def test_size_goes_on_where_time_ends():
    found = walked(segmented(TEN), 8 * MINUTE_MS, 5 * MIB)
    assert (found.expired, found.over_size, found.start_offset) == (2, 3, 50)


def test_of_a_segment_that_is_trimmed_in_part_the_rest_counts():
    found = walked(segmented(TEN, start=5), retention_bytes=9 * MIB)
    assert (found.start_offset, found.size_bytes) == (10, MIB // 2)
    assert walked(segmented(TEN, start=5), retention_bytes=9 * MIB + 1).start_offset == 5


def test_where_keys_were_compacted_objects_tell_the_size():
    stream, objects = segmented(closed_segments((10, DAY_MS), (10, DAY_MS)), cleaned=10)
    shrunk = replace(stream.ranges[0], size_bytes=2)
    stream = replace(stream, ranges=(shrunk, *stream.ranges[1:]))
    assert walked((stream, objects), retention_bytes=10).size_bytes == 2
    assert walked((stream, objects), retention_bytes=11).start_offset == 0


def test_r17_an_active_segment_that_is_all_too_old_is_closed_and_goes():
    found = walked(segmented(closed_segments((5, DAY_MS)), [(7, DAY_MS), (8, DAY_MS - 1)]), HOUR_MS)
    assert (found.start_offset, found.expired, found.size_bytes) == (30, 3 - 1, 20)
    assert found.rolled is not None
    assert (found.rolled.start_offset, found.rolled.end_offset, found.rolled.size_bytes) == (10, 30, 15)
    assert (found.rolled.largest_timestamp_ms, found.rolled.closed_ms) == (NOW_MS - DAY_MS + 1, NOW_MS)


def test_r17_a_stream_with_no_records_keeps_its_end():
    found = walked(segmented((), start=70), 0, 0)
    assert (found.start_offset, found.due, found.segments, found.rolled) == (70, 0, 0, None)


def test_r17_one_younger_record_keeps_all_of_the_active_segment():
    assert walked(segmented((), [(1, DAY_MS), (1, 10)]), HOUR_MS).due == 0


def test_r17_size_alone_never_closes_the_active_segment():
    assert walked(segmented((), [(5 * MIB, 0)], committed_ms=1), retention_bytes=0).due == 0


def test_r17_the_active_segment_waits_for_what_is_before_it():
    """A group, or a segment younger than it."""
    old = [(1, DAY_MS)]
    assert walked(segmented(closed_segments((1, 5)), old), HOUR_MS).due == 0
    found = walked(segmented(closed_segments((1, DAY_MS)), old), HOUR_MS, bound=(15, "group g"))
    assert (found.start_offset, found.rolled, found.blocked) == (10, None, "group g")


@pytest.mark.parametrize(
    ("state", "committed_ago_ms", "goes"),
    [
        (StreamState.CLOSED, 0, True),
        (StreamState.OPENED, OPEN_STREAM_LEFT_ALONE_MS - 1, False),
        (StreamState.OPENED, OPEN_STREAM_LEFT_ALONE_MS, True),
    ],
)
def test_r17_a_broker_that_has_it_open_is_given_the_time_to_close_it(state, committed_ago_ms, goes):
    stream = segmented((), [(1, DAY_MS)], state=state, committed_ms=NOW_MS - committed_ago_ms)
    assert bool(walked(stream, HOUR_MS).due) is goes


def test_r17_an_active_segment_without_timestamps_is_as_old_as_its_objects():
    for committed_ago_ms, goes in ((HOUR_MS, False), (HOUR_MS + 1, True)):
        stream = segmented((), [(1, NOW_MS + 1)], committed_ms=NOW_MS - committed_ago_ms)
        assert bool(walked(stream, HOUR_MS).due) is goes


def test_data_from_before_there_were_segments_goes_object_by_object():
    ages = [5 * HOUR_MS, 4 * HOUR_MS, 3 * HOUR_MS, 2 * HOUR_MS, HOUR_MS]
    stream = segmented((), [(MIB, age) for age in ages])
    found = walked(stream, 3 * HOUR_MS - 1, segment_bytes=str(MIB))
    assert (found.start_offset, found.expired, found.segments, found.rolled) == (30, 3, 5, None)
    assert walked(stream, retention_bytes=2 * MIB, segment_bytes=str(MIB)).start_offset == 30
