import pytest

from siltstone.metadata.entities import NO_EPOCH, NO_NODE, OwnerRange, StreamState
from siltstone.metadata.streams import advanced, closed, created, deleted, opened, trimmed


def test_a_life() -> None:
    stream = created(4, {"a": "b"})
    assert (stream.state, stream.epoch, stream.owner) == (StreamState.CLOSED, NO_EPOCH, NO_NODE)
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
