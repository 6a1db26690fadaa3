import pytest
from msgspec.structs import replace

from siltstone.maintenance.retention.past import bytes_within, past_of
from siltstone.model.segments import ActiveSegment
from support.maintenance.segmented_streams import NOW_MS, closed_segments, segmented


def past(stream_and_objects, segment_bytes: int = 100, end: int | None = None):
    stream, objects = stream_and_objects
    return past_of(stream, objects, segment_bytes, stream.end_offset if end is None else end)


def test_ordinarily_it_is_the_active_segment():
    found = past(segmented(closed_segments((50, 9)), [(60, 5), (70, 3)]))
    assert found.closed == ()
    assert found.active == ActiveSegment(10, 30, 130, 2, NOW_MS - 3, NOW_MS - 5)
    assert found.committed_ms == NOW_MS - 3


def test_nothing_lies_behind_the_last_closed_one():
    found = past(segmented(closed_segments((50, 9), (50, 8))))
    assert (found.closed, found.active) == ((), ActiveSegment(20, 20))


def test_of_a_closed_one_that_is_not_committed_nothing_is_told_twice():
    found = past(segmented(closed_segments((50, 9), (50, 8)), end=15))
    assert (found.closed, found.active) == ((), ActiveSegment(20, 20))


def test_what_is_from_before_there_were_segments_is_cut_at_borders_of_objects():
    found = past(segmented((), [(60, 9), (60, 8), (30, 7), (90, 1), (20, 0)]))
    assert [(one.start_offset, one.end_offset, one.size_bytes) for one in found.closed] == [
        (0, 20, 120),
        (20, 40, 120),
    ]
    assert [(one.largest_timestamp_ms, one.closed_ms) for one in found.closed] == [
        (NOW_MS - 8,) * 2,
        (NOW_MS - 1,) * 2,
    ]
    assert found.active == ActiveSegment(40, 50, 20, 1, NOW_MS, NOW_MS)


def test_cut_without_a_rest():
    found = past(segmented((), [(100, 9), (100, 8)]))
    assert [one.end_offset for one in found.closed] == [10, 20]
    assert (found.active, found.committed_ms) == (ActiveSegment(20, 20), 0)


@pytest.mark.parametrize(
    ("start", "end", "size_bytes"), [(0, 30, 90), (5, 30, 75), (5, 25, 60), (10, 20, 30), (30, 40, 0)]
)
def test_bytes_in_proportion(start, end, size_bytes):
    stream, _ = segmented((), [(30, 3), (30, 2), (30, 1)])
    assert bytes_within(stream, start, end) == size_bytes


def test_a_stream_that_is_trimmed_within_an_object():
    stream, objects = segmented((), [(30, 3), (30, 2)])
    trimmed = replace(stream, start_offset=5)
    assert past((trimmed, objects)).active == ActiveSegment(5, 20, 45, 2, NOW_MS - 2, NOW_MS - 3)
    assert past((trimmed, objects), end=12).active == ActiveSegment(5, 12, 21, 2, NOW_MS - 2, NOW_MS - 3)


def test_a_segment_is_cut_with_the_object_that_fills_it():
    found = past(segmented((), [(60, 9), (39, 8), (1, 7), (99, 6), (1, 5)]))
    assert [(one.end_offset, one.size_bytes) for one in found.closed] == [(30, 100), (50, 100)]
    assert found.active == ActiveSegment(50, 50)


def test_an_object_that_begins_at_the_end_is_not_of_the_past():
    stream, objects = segmented((), [(60, 9), (60, 8)])
    assert bytes_within(stream, 0, 10) == 60
    assert past((stream, objects), end=10).active == ActiveSegment(0, 10, 60, 1, NOW_MS - 9, NOW_MS - 9)
    assert past((stream, objects), end=0) == past(segmented((), [], end=0), end=0)
