"""How many bytes are behind an offset, against a plain list of batches: exact where the tail cache has them, and within
one object or segment elsewhere."""

from hypothesis import given
from hypothesis import strategies as st

from siltstone.broker.backlog.quota_rules import (
    EVICT_TO_PERCENT,
    BacklogMeasure,
    backlog_of,
    evictions,
    verdict_on,
)
from siltstone.metadata.entities import StreamMetadata, StreamState
from siltstone.model.objects import ObjectRange
from siltstone.model.segments import ClosedSegment

batches = st.lists(st.tuples(st.integers(1, 5), st.integers(1, 200)), min_size=1, max_size=40)
EVICT = "consumer_backlog_eviction"


class Log:
    """Batches of (records, bytes); the first ``committed`` of them in objects of three, of those the first
    ``closed`` in segments of five; the rest, and the last of the committed, in the tail cache."""

    def __init__(self, sizes, committed, closed):
        self.batches, offset = [], 0
        for records, size_bytes in sizes:
            self.batches.append((offset, offset + records, size_bytes))
            offset += records
        self.end = offset
        committed = min(committed, len(self.batches))
        in_objects, in_segments = self.batches[:committed], self.batches[: min(closed, committed)]
        self.cached = self.batches[max(committed - 1, 0) :]
        ranges = tuple(ObjectRange(1, i, *_span(in_objects[i : i + 3]), 0) for i in range(0, committed, 3))
        segments = tuple(
            ClosedSegment(*_span(in_segments[i : i + 5]), 1, 0, 0, 0) for i in range(0, len(in_segments), 5)
        )
        end = ranges[-1].end_offset if ranges else 0
        stream = StreamMetadata(1, StreamState.OPENED, 0, 1, 0, end, (), ranges, {}, segments)
        self.measure = BacklogMeasure(stream, self.end, self._cached_bytes)
        self.largest_piece = max(
            [held.size_bytes for held in ranges] + [each.size_bytes for each in segments], default=0
        )

    def _cached_bytes(self, offset):
        return self.bytes_from(offset) if offset >= self.cached[0][0] else None

    def bytes_from(self, offset):
        return sum(size_bytes for _, end, size_bytes in self.batches if end > offset)


def _span(batches):
    return batches[0][0], batches[-1][1], sum(size_bytes for _, _, size_bytes in batches)


logs = st.builds(Log, batches, st.integers(0, 40), st.integers(0, 40))


@given(logs)
def test_it_is_what_the_batches_have_within_one_object_or_segment(log):
    before = None
    for offset in range(log.end + 1):
        measured, real = log.measure.bytes_from(offset), log.bytes_from(offset)
        if offset >= log.cached[0][0]:
            assert measured == real
        else:
            assert abs(measured - real) <= 2 * log.largest_piece
        assert before is None or measured <= before + log.largest_piece
        before = measured


@given(logs, st.integers(0, 4_000), st.dictionaries(st.sampled_from("abc"), st.integers(0, 200), min_size=1))
def test_evicted_groups_keep_what_the_quota_allows_and_others_stay(log, quota_bytes, offsets):
    offsets = {group: min(offset, log.end) for group, offset in offsets.items()}
    backlog = backlog_of(log.measure, offsets, quota_bytes)
    assert offsets[backlog.group] == min(offsets.values())
    moves = evictions(log.measure, offsets, backlog, EVICT)
    allowed = quota_bytes * EVICT_TO_PERCENT // 100
    if not backlog.is_beyond:
        assert moves == {}
        return
    assert backlog.group in moves
    (target,) = set(moves.values())
    assert log.measure.bytes_from(target) <= allowed
    assert all(offset < target for group, offset in offsets.items() if group in moves)
    assert all(offset >= target for group, offset in offsets.items() if group not in moves)
    assert verdict_on(backlog, EVICT) is None
