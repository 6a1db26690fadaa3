"""Roll-over and retention against slow plain models of the same rules."""

from hypothesis import given, settings
from hypothesis import strategies as st

from siltstone.broker.partitions.segments import PartitionSegments
from siltstone.maintenance.retention.planning import walk
from siltstone.model.limits import MIB
from siltstone.model.segments import ActiveSegment, ClosedSegment
from siltstone.topic_configs.table import TopicConfig, parse_topic_configs
from support.maintenance.segmented_streams import NOW_MS, segmented
from support.values.examples import examples

KIB = 1024


def config_of(**configs: int) -> TopicConfig:
    return parse_topic_configs({name.replace("_", "."): str(value) for name, value in configs.items()})


# -- roll-over -------------------------------------------------------------------------------------------

rolling_configs = st.tuples(st.integers(0, 50), st.integers(1, 100), st.integers(0, 5)).map(
    lambda made: config_of(
        segment_bytes=MIB,
        siltstone_segment_min_ms=min(made[0], made[1]),
        segment_ms=made[1],
        siltstone_segment_batches_max=made[2],
        retention_ms=-1,
    )
)
batches = st.tuples(
    st.sampled_from([1, 300 * KIB, 512 * KIB, MIB - 1, MIB, 3 * MIB]),  # bytes
    st.sampled_from([0, 1, 7, 40, 120]),  # ms since the batch before
    st.integers(1, 5),  # records
)


def slow_segments(
    history: list[tuple[int, int, int]], config: TopicConfig
) -> list[list[tuple[int, int, int]]]:
    """The batches (bytes, time, records) by segment: each asks all that the rule says, of all batches before it."""
    segments: list[list[tuple[int, int, int]]] = [[]]
    now_ms = 0
    for size_bytes, wait_ms, records in history:
        now_ms += wait_ms
        current = segments[-1]
        held = sum(one[0] for one in current)
        age_ms = now_ms - current[0][1] if current else 0
        passes_bytes = held >= config.segment_bytes or held + size_bytes > config.segment_bytes
        passes_others = age_ms >= config.segment_ms or (
            config.segment_batches_max != 0 and len(current) >= config.segment_batches_max
        )
        if current and (passes_bytes or (passes_others and age_ms >= config.segment_min_ms)):
            segments.append([])
        segments[-1].append((size_bytes, now_ms, records))
    return segments


@settings(max_examples=examples(150), deadline=None)
@given(rolling_configs, st.lists(batches, max_size=40))
def test_segments_are_closed_where_the_rule_says(
    config: TopicConfig, history: list[tuple[int, int, int]]
) -> None:
    held = PartitionSegments(1, ActiveSegment(0, 0), config)
    now_ms = end = 0
    for size_bytes, wait_ms, records in history:
        now_ms += wait_ms
        end += records
        held.appended(end, size_bytes, now_ms, now_ms)
    found = [
        (one.batch_count, one.size_bytes, one.opened_ms, one.largest_timestamp_ms) for one in held.unwritten
    ]
    *closed, active = slow_segments(history, config)
    assert found == [(len(one), sum(b[0] for b in one), one[0][1], one[-1][1]) for one in closed]
    assert held.active.batch_count == len(active)
    bounds = [0, *(one.end_offset for one in held.unwritten)]
    assert [one.start_offset for one in held.unwritten] + [held.active.start_offset] == bounds
    assert all(one.size_bytes <= MIB or one.batch_count == 1 for one in held.unwritten)  # O5


@settings(max_examples=examples(100), deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 9), st.integers(1, 3)), min_size=1, max_size=12),
    st.lists(st.integers(0, 60), max_size=6),
)
def test_following_the_metadata_leaves_no_hole_and_nothing_twice(
    made: list[tuple[int, int]], said: list[int]
) -> None:
    """What there is of segments covers [what was said last, end), whatever is said, in whatever order."""
    config = config_of(siltstone_segment_batches_max=2)
    held = PartitionSegments(1, ActiveSegment(0, 0), config)
    end = highest = 0
    for number, (records, size_bytes) in enumerate(made):
        end += records
        held.appended(end, size_bytes, number, number)
        if said:
            highest = max(highest, min(said.pop(), end))
            held.follow(highest)
    pieces = [*held.unwritten, held.active]
    assert pieces[0].start_offset <= highest or not held.unwritten
    assert [one.end_offset for one in pieces[:-1]] == [one.start_offset for one in pieces[1:]]
    assert held.active.end_offset == end
    held.follow(end)
    assert held.unwritten == () and held.active.is_empty


# -- retention -------------------------------------------------------------------------------------------

AGES = st.integers(-3, 12)
SIZES = st.integers(0, 5)


def slow_walk(
    segments: list[ClosedSegment], end: int, total: int, config: TopicConfig, bound: int | None
) -> tuple[int, int]:
    """New start and segments that go, as Kafka's deleteOldSegments and Pulsar's first gate say it."""
    start = gone = 0
    deleted_bytes = 0
    for segment in segments:
        by_time = config.retention_ms >= 0 and NOW_MS - segment.largest_timestamp_ms > config.retention_ms
        remains = total - deleted_bytes - segment.size_bytes
        by_size = config.retention_bytes >= 0 and remains >= config.retention_bytes
        readable_to_its_end = segment.end_offset <= end
        is_read = bound is None or segment.end_offset <= bound
        if not ((by_time or by_size) and readable_to_its_end and is_read):
            break
        start, gone, deleted_bytes = segment.end_offset, gone + 1, deleted_bytes + segment.size_bytes
    return start, gone


@settings(max_examples=examples(300), deadline=None)
@given(
    st.lists(st.tuples(SIZES, AGES), max_size=8),
    st.lists(SIZES, max_size=2),
    st.integers(-1, 10),
    st.integers(-1, 20),
    st.none() | st.integers(0, 90),
    st.integers(0, 3),
)
def test_what_goes_is_what_a_plain_walk_says(
    closed: list[tuple[int, int]],
    active: list[int],
    retention_ms: int,
    retention_bytes: int,
    bound: int | None,
    uncommitted: int,
) -> None:
    """The active segment is of just now, so it stays in any case."""
    config = config_of(retention_ms=retention_ms, retention_bytes=retention_bytes)
    segments = [
        ClosedSegment(10 * n, 10 * n + 10, size, 1, NOW_MS - age, NOW_MS - age, NOW_MS)
        for n, (size, age) in enumerate(closed)
    ]
    whole = 10 * (len(closed) + len(active))
    end = max(0, whole - 5 * uncommitted)
    stream, objects = segmented(segments, [(size, -1_000) for size in active], end=end)
    behind = sum(
        held.size_bytes
        * (held.end_offset - max(held.start_offset, 10 * len(closed)))
        // (held.end_offset - held.start_offset)
        for held in stream.ranges
        if held.end_offset > 10 * len(closed)
    )
    total = sum(one.size_bytes for one in segments) + behind
    found = walk(stream, objects, config, NOW_MS, None if bound is None else (bound, "a group"))
    start, gone = slow_walk(segments, end, total, config, bound)
    assert (found.start_offset, found.due) == (start, gone)
    assert found.size_bytes == sum(one.size_bytes for one in segments[:gone])
    assert found.rolled is None
    if found.due_ms is not None:
        limit = None if bound is None else (bound, "a group")
        before = walk(stream, objects, config, found.due_ms - 1, limit)
        then = walk(stream, objects, config, found.due_ms, limit)
        assert found.due_ms > NOW_MS and before.start_offset == start < then.start_offset
    if found.bytes_until is not None:
        assert found.bytes_until > 0 and (retention_bytes + found.bytes_until) > retention_bytes >= 0
    if retention_bytes >= 0 and retention_ms < 0:
        assert total - found.size_bytes >= min(total, retention_bytes)
