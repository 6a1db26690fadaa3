import pytest

from siltstone.model.segments import ActiveSegment, ClosedSegment
from support.values.left_out import numbers_left_out


def test_a_segment_grows_by_batches_and_is_closed():
    empty = ActiveSegment(10, 10)
    one = empty.appended(15, 300, 7, now_ms=1_000)
    two = one.appended(20, 100, 5, now_ms=2_000)
    assert (empty.is_empty, one.is_empty) == (True, False)
    assert one == ActiveSegment(10, 15, 300, 1, 7, 1_000)
    assert two == ActiveSegment(10, 20, 400, 2, 7, 1_000)
    assert two.closed(3_000) == ClosedSegment(10, 20, 400, 2, 7, 1_000, 3_000)


def test_an_empty_segment_is_never_closed():
    with pytest.raises(AssertionError, match="segment at 10 is empty"):
        ActiveSegment(10, 10).closed(1)


def test_two_that_follow_each_other_are_joined():
    first, second = ClosedSegment(0, 5, 50, 1, 9, 100, 200), ClosedSegment(5, 8, 30, 2, -1, 200, 300)
    assert first.joined(second) == ClosedSegment(0, 8, 80, 3, 9, 100, 300)


@pytest.mark.parametrize(
    ("offset", "left"),
    [
        (0, ActiveSegment(0, 100, 1_000, 10, 7, 1)),
        (50, ActiveSegment(50, 100, 500, 5, 7, 1)),
        (99, ActiveSegment(99, 100, 10, 1, 7, 1)),
        (100, ActiveSegment(100, 100)),
        (300, ActiveSegment(300, 300)),
    ],
)
def test_what_is_left_of_an_active_one_from_an_offset_on(offset, left):
    assert ActiveSegment(0, 100, 1_000, 10, 7, 1).beginning_at(offset) == left


def test_what_is_left_of_a_closed_one():
    closed = ClosedSegment(0, 100, 1_000, 10, 7, 1, 2)
    assert closed.beginning_at(25) == ClosedSegment(25, 100, 750, 7, 7, 1, 2)


def test_what_is_left_out() -> None:
    assert numbers_left_out(ActiveSegment) == {
        "size_bytes": 0,
        "batch_count": 0,
        "opened_ms": 0,
        "largest_timestamp_ms": -1,
    }
