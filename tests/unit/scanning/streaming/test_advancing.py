"""Positions on images made by hand."""

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from siltstone.metadata.entities import PartitionMetadata, StreamMetadata, StreamState, TopicMetadata
from siltstone.model.objects import ObjectRange
from siltstone.scanning.planning import ScanPartition
from siltstone.scanning.streaming.advancing import (
    BatchLimit,
    LimitKind,
    StreamEnd,
    advance,
    continued,
    waiting,
)
from siltstone.scanning.streaming.failures import TopicGone, TopicMadeAnew
from siltstone.scanning.streaming.position import StreamKey, StreamPosition

FLIGHTS = "f" * 32


def ends_of(*ends: int, committed: int | None = None, first: int = 0, size: int = 1_000) -> Any:
    """The ends of topic ``flights``, and an image in which one object of ``size`` bytes holds each partition."""
    topic = TopicMetadata(
        FLIGHTS, "flights", tuple(PartitionMetadata(n, n + 500) for n in range(len(ends))), {}, 1, 0, False
    )
    streams, found = {}, {}
    for number, end in enumerate(ends):
        held = end if committed is None else min(committed, end)
        ranges = (ObjectRange(number, 1, 0, held, size, 0),) if held else ()
        stream = StreamMetadata(number, StreamState.OPENED, 0, 1, first, held, (), ranges, {})
        streams[number] = stream
        found[FLIGHTS, number] = StreamEnd(ScanPartition(topic, number, stream), end)
    image = SimpleNamespace(streams=streams, topics={FLIGHTS: topic}, topic_ids={"flights": FLIGHTS})
    return found, image


def position_of(**offsets: int) -> StreamPosition:
    return StreamPosition(
        "store", {FLIGHTS: "flights"}, {(FLIGHTS, int(name[1:])): offset for name, offset in offsets.items()}
    )


def offsets_limit(count: int) -> BatchLimit:
    return BatchLimit(LimitKind.OFFSETS, count)


def test_ss3_a_limit_is_shared_in_proportion_to_what_waits() -> None:
    ends, image = ends_of(1_000, 10)
    end = advance(position_of(p0=0, p1=0), ends, offsets_limit(101), image)
    assert end == position_of(p0=100, p1=1)
    assert advance(position_of(p0=0, p1=0), ends, BatchLimit(), image) == position_of(p0=1_000, p1=10)
    ends, image = ends_of(48, 52)
    assert advance(position_of(), ends, offsets_limit(40), image) == position_of(p0=20, p1=20), (
        "all 40 are used"
    )


def test_ss8_a_position_never_goes_back_when_an_end_does() -> None:
    ends, image = ends_of(100, 100, committed=100)
    start = position_of(p0=120, p1=90)
    for limit in (BatchLimit(), offsets_limit(1_000), BatchLimit(LimitKind.BYTES, 1_000)):
        assert advance(start, ends, limit, image) == position_of(p0=120, p1=100)


def test_ss4_a_partition_that_the_position_does_not_name_begins_at_0() -> None:
    ends, image = ends_of(50, 30, 0)
    end = advance(position_of(p0=50), ends, BatchLimit(), image)
    assert end == position_of(p0=50, p1=30), "one without records makes no micro-batch"
    assert waiting(position_of(p0=50), ends) == {(FLIGHTS, 1): 30}


def test_offsets_that_were_trimmed_are_passed_over_in_one_micro_batch() -> None:
    ends, image = ends_of(1_000, first=900)
    assert advance(position_of(p0=0), ends, offsets_limit(10), image) == position_of(p0=910)


def test_a_limit_of_bytes_counts_objects_and_estimates_what_is_in_none() -> None:
    ends, image = ends_of(100, size=10_000)
    assert advance(position_of(p0=0), ends, BatchLimit(LimitKind.BYTES, 1_000), image) == position_of(p0=10)
    ends, image = ends_of(200, committed=100, size=10_000)
    assert advance(position_of(p0=0), ends, BatchLimit(LimitKind.BYTES, 2_000), image) == position_of(p0=20)
    ends, image = ends_of(200, committed=0)
    assert advance(position_of(p0=0), ends, BatchLimit(LimitKind.BYTES, 10_240), image) == position_of(p0=10)


def test_bytes_are_counted_exactly_where_all_of_them_are_in_objects() -> None:
    ends, image = ends_of(100, size=10_000)
    for count, end in ((10_000, 100), (9_999, 99), (100, 1), (1, 1)):
        assert advance(position_of(p0=0), ends, BatchLimit(LimitKind.BYTES, count), image) == position_of(
            p0=end
        )


def test_each_object_counts_with_its_own_bytes() -> None:
    ends, image = ends_of(200)
    (end,) = ends.values()
    ranges = (ObjectRange(0, 1, 0, 100, 1_000, 0), ObjectRange(0, 2, 100, 200, 10_000, 0))
    stream = replace(end.of.stream, ranges=ranges)
    image.streams[0] = stream
    later = {end.key: StreamEnd(replace(end.of, stream=stream), 200)}
    # 150 offsets wait: half of the first object, and the second, which are 500 and 10,000 bytes.
    assert advance(position_of(p0=50), later, BatchLimit(LimitKind.BYTES, 1_050), image) == position_of(p0=65)


def test_offsets_in_no_object_weigh_at_least_a_byte() -> None:
    ends, image = ends_of(200, committed=100, size=10)
    assert advance(position_of(p0=0), ends, BatchLimit(LimitKind.BYTES, 55), image) == position_of(p0=100)


def test_a_limit_of_one_byte_moves_every_partition_by_one_offset() -> None:
    ends, image = ends_of(100, 50, 1)
    limit = BatchLimit(LimitKind.BYTES, 1)
    assert advance(position_of(p0=0, p1=7), ends, limit, image) == position_of(p0=1, p1=8, p2=1)


def test_offsets_that_weigh_less_than_a_byte_are_moved_all_the_same() -> None:
    ends, image = ends_of(100, size=1)
    assert advance(position_of(p0=50), ends, BatchLimit(LimitKind.BYTES, 1), image) == position_of(p0=100)


@given(
    st.lists(st.integers(0, 5_000), min_size=1, max_size=8),
    st.integers(1, 3_000),
    st.sampled_from([LimitKind.OFFSETS, LimitKind.BYTES, LimitKind.ALL]),
)
def test_micro_batches_reach_the_end_and_each_moves_every_partition_that_has_something(
    ends: list[int], count: int, kind: LimitKind
) -> None:
    found, image = ends_of(*ends)
    limit = BatchLimit(kind, max(count, sum(ends) // 20 + 1))
    position = StreamPosition("store")
    for _ in range(1 + sum(ends)):
        left: dict[StreamKey, int] = waiting(position, found)
        if not left:
            break
        after = advance(position, found, limit, image)
        moved = {key: after.offsets[key] - position.offsets.get(key, 0) for key in left}
        assert all(1 <= moved[key] <= left[key] for key in left)
        if kind is LimitKind.OFFSETS:
            assert sum(moved.values()) <= limit.count + len(left)
        position = after
    assert not waiting(position, found)


def test_ss5_a_topic_that_is_gone_or_made_anew_is_named_or_left_out() -> None:
    ends, image = ends_of(10)
    old = StreamPosition("store", {"0" * 32: "flights"}, {("0" * 32, 0): 5})
    with pytest.raises(TopicMadeAnew, match="topic flights was deleted and created again"):
        continued(old, ends, image, fail_on_data_loss=True)
    kept, warnings = continued(old, ends, image, fail_on_data_loss=False)
    assert kept.offsets == {} and len(warnings) == 1
    assert advance(kept, ends, BatchLimit(), image) == position_of(p0=10), "from the new one's beginning"
    both = StreamPosition("store", {**old.names, FLIGHTS: "flights"}, {**old.offsets, (FLIGHTS, 0): 7})
    assert continued(both, ends, image, fail_on_data_loss=False)[0] == position_of(p0=7), "the others stay"
    gone = StreamPosition("store", {"0" * 32: "trips"}, {("0" * 32, 0): 5})
    with pytest.raises(TopicGone, match="topic trips was deleted"):
        continued(gone, ends, image, fail_on_data_loss=True)
    with pytest.raises(TopicGone, match="topic flights is not subscribed to any more"):
        continued(position_of(p0=5), {}, image, fail_on_data_loss=True)
    assert continued(position_of(p0=5), ends, image, fail_on_data_loss=True) == (position_of(p0=5), [])
