import pytest

from siltstone.broker.backlog.quota_rules import BacklogMeasure
from siltstone.metadata.entities import StreamMetadata, StreamState
from siltstone.model.objects import ObjectRange
from siltstone.model.segments import ClosedSegment


def segment(start, end, size_bytes):
    return ClosedSegment(start, end, size_bytes, 1, 0, 0, 0)


def held(start, end, size_bytes):
    return ObjectRange(1, start, start, end, size_bytes, 0)


def stream_of(ranges=(), segments=(), start=0, cleaned=0):
    end = ranges[-1].end_offset if ranges else start
    return StreamMetadata(1, StreamState.OPENED, 0, 1, start, end, (), ranges, {}, segments, cleaned)


def tail_of(*batches):
    """(start, end, bytes) of what the tail cache holds, to the end."""

    def cached_bytes(offset):
        if not batches or offset < batches[0][0]:
            return None
        return sum(size_bytes for _, end, size_bytes in batches if end > offset)

    return cached_bytes


def nothing_cached(_):
    return None


def test_nothing_is_behind_the_end():
    measure = BacklogMeasure(stream_of((held(0, 10, 100),)), 10, nothing_cached)
    assert [measure.bytes_from(offset) for offset in (10, 11, 1_000)] == [0, 0, 0]
    assert BacklogMeasure(stream_of(), 0, nothing_cached).bytes_from(0) == 0


def test_ranges_of_objects_are_taken_in_proportion():
    measure = BacklogMeasure(stream_of((held(0, 10, 100), held(10, 20, 300))), 20, nothing_cached)
    assert [measure.bytes_from(offset) for offset in (0, 5, 10, 15, 19)] == [400, 350, 300, 150, 30]


def test_the_tail_is_counted_to_the_batch():
    stream = stream_of((held(0, 10, 100),))
    measure = BacklogMeasure(stream, 30, tail_of((10, 12, 70), (12, 30, 7)))
    assert [measure.bytes_from(offset) for offset in (5, 10, 11, 12, 29)] == [127, 77, 77, 7, 7]


def test_all_of_it_may_be_in_the_tail():
    measure = BacklogMeasure(stream_of(start=5), 9, tail_of((5, 7, 20), (7, 9, 30)))
    assert [measure.bytes_from(offset) for offset in (5, 7)] == [50, 30]


def test_closed_segments_say_what_was_appended_and_objects_what_follows_them():
    stream = stream_of((held(0, 100, 1_111),), (segment(0, 50, 500), segment(50, 90, 80)))
    measure = BacklogMeasure(stream, 100, nothing_cached)
    assert [measure.bytes_from(offset) for offset in (0, 25, 50, 90, 95)] == [691, 441, 191, 111, 55]


def test_where_key_compaction_has_been_objects_count():
    stream = stream_of(
        (held(40, 50, 20), held(50, 100, 500)), (segment(0, 50, 50_000), segment(50, 90, 400)), cleaned=50
    )
    measure = BacklogMeasure(stream, 100, nothing_cached)
    assert [measure.bytes_from(offset) for offset in (0, 45, 50, 90)] == [520, 510, 500, 100]


def test_what_was_trimmed_is_not_there():
    stream = stream_of((held(0, 100, 1_000),), (segment(0, 50, 500),), start=20)
    assert BacklogMeasure(stream, 100, nothing_cached).bytes_from(20) == 300 + 500


@pytest.mark.parametrize(
    ("size_bytes", "offset"), [(400, 0), (399, 1), (350, 5), (300, 10), (90, 17), (45, 19), (0, 20)]
)
def test_the_first_offset_behind_which_there_is_no_more_than_that(size_bytes, offset):
    measure = BacklogMeasure(stream_of((held(0, 10, 100), held(10, 20, 300))), 20, nothing_cached)
    assert measure.first_offset_within(size_bytes, 0) == offset


def test_it_never_lies_before_where_one_is():
    measure = BacklogMeasure(stream_of((held(0, 10, 100),)), 10, nothing_cached)
    assert measure.first_offset_within(1_000, 4) == 4
