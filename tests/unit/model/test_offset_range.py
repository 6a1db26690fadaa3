import pytest

from siltstone.model.offset_range import OffsetRange


@pytest.mark.parametrize(("start", "end"), [(-1, 0), (5, 4), (-2, -1)])
def test_impossible_ranges_are_refused(start, end):
    with pytest.raises(ValueError, match="not an offset range"):
        OffsetRange(start, end)


def test_half_open():
    offsets = OffsetRange(10, 13)
    assert [offset for offset in range(8, 15) if offset in offsets] == [10, 11, 12]
    assert len(offsets) == 3
    assert str(offsets) == "[10, 13)"


def test_empty_range_is_false_and_contains_nothing():
    assert not OffsetRange(7, 7)
    assert 7 not in OffsetRange(7, 7)


def test_truth_of_a_range_longer_than_len_can_tell():
    assert OffsetRange(0, 2**63)
    assert OffsetRange(0, 2**64 - 1)


@pytest.mark.parametrize(
    ("first", "second", "overlaps", "intersection"),
    [
        ((0, 10), (10, 20), False, (10, 10)),
        ((0, 10), (9, 20), True, (9, 10)),
        ((0, 10), (3, 5), True, (3, 5)),
        ((0, 5), (8, 9), False, (8, 8)),
        ((0, 2**63), (2**62, 2**64), True, (2**62, 2**63)),
        ((4, 4), (0, 10), False, (4, 4)),
    ],
)
def test_overlap_and_intersection_are_symmetric(first, second, overlaps, intersection):
    one, other = OffsetRange(*first), OffsetRange(*second)
    assert one.overlaps(other) is other.overlaps(one) is overlaps
    assert one.intersection(other) == other.intersection(one) == OffsetRange(*intersection)


def test_order_is_by_start_then_end():
    assert sorted([OffsetRange(5, 6), OffsetRange(1, 9), OffsetRange(1, 2)]) == [
        OffsetRange(1, 2),
        OffsetRange(1, 9),
        OffsetRange(5, 6),
    ]
