import pytest

from siltstone.metadata.entities import NO_EPOCH, NO_NODE, OwnerRange, StreamState
from siltstone.metadata.streams import (
    advanced,
    cleaned,
    closed,
    created,
    deleted,
    is_live,
    opened,
    rolled,
    trimmed,
)
from siltstone.model.segments import ClosedSegment
from support.metadata.metadata_world import object_range


def segment(start: int, end: int) -> ClosedSegment:
    return ClosedSegment(start, end, 100, 2, 5, 1, 2)


def test_a_life() -> None:
    stream = created(4, {"a": "b"})
    assert (stream.state, stream.epoch, stream.owner) == (StreamState.CLOSED, NO_EPOCH, NO_NODE)
    assert (stream.start_offset, stream.end_offset) == (0, 0)
    stream = advanced(opened(stream, 0, 7), 30)
    stream = advanced(opened(closed(stream), 2, 8), 50)
    assert stream.owner_ranges == (OwnerRange(7, 0, 0, 30), OwnerRange(8, 2, 30, 50))
    assert deleted(closed(stream)).state is StreamState.DELETED


@pytest.mark.parametrize(
    ("start", "bounds", "owners"),
    [
        (10, (10, 50), (OwnerRange(7, 0, 10, 30), OwnerRange(8, 2, 30, 50))),
        (30, (30, 50), (OwnerRange(8, 2, 30, 50),)),
        (40, (40, 50), (OwnerRange(8, 2, 40, 50),)),
        (50, (50, 50), (OwnerRange(8, 2, 50, 50),)),
        (90, (90, 90), (OwnerRange(8, 2, 90, 90),)),
    ],
)
def test_trimming(start, bounds, owners) -> None:
    stream = advanced(opened(created(0, {}), 0, 7), 30)
    after = trimmed(advanced(opened(stream, 2, 8), 50), start)
    assert (after.start_offset, after.end_offset) == bounds
    assert after.owner_ranges == owners
    assert trimmed(after, 5) == after


def test_nothing_moves_back() -> None:
    stream = advanced(opened(created(0, {}), 0, 7), 30)
    assert advanced(stream, 29) is stream
    assert advanced(stream, 30) is stream
    assert cleaned(cleaned(stream, 20), 10).cleaned_offset == 20


def test_another_epoch_or_another_node_begins_an_owner_range() -> None:
    stream = advanced(opened(created(0, {}), 0, 7), 30)
    assert opened(stream, 0, 7).owner_ranges == (OwnerRange(7, 0, 0, 30),)
    assert opened(stream, 1, 7).owner_ranges == (OwnerRange(7, 0, 0, 30), OwnerRange(7, 1, 30, 30))
    assert opened(stream, 0, 8).owner_ranges == (OwnerRange(7, 0, 0, 30), OwnerRange(8, 0, 30, 30))


def test_closed_segments_follow_one_another_and_go_when_the_start_passes_them() -> None:
    stream = advanced(opened(created(0, {}), 0, 7), 30)
    stream = rolled(rolled(stream, segment(0, 10)), segment(10, 20))
    assert [trimmed(stream, start).segments for start in (9, 10, 20)] == [
        (segment(0, 10), segment(10, 20)),
        (segment(10, 20),),
        (),
    ]
    with pytest.raises(AssertionError, match="overlaps"):
        rolled(stream, segment(19, 30))


@pytest.mark.parametrize(("end", "live"), [(9, False), (10, False), (11, True)])
def test_a_range_is_live_while_it_reaches_beyond_the_start(end, live) -> None:
    stream = trimmed(advanced(opened(created(0, {}), 0, 7), 30), 10)
    held = object_range(1, 0, 0, end)
    assert is_live(stream, held) is live
    assert not is_live(deleted(stream), held)
    assert not is_live(None, held)
