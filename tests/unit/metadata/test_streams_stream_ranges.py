import pytest
from hypothesis import given
from hypothesis import strategies as st

from siltstone.metadata.streams import first_holding, inserted, joined, without_objects
from support.metadata.metadata_world import object_range


def ranges_of(*bounds: tuple[int, int]):
    return tuple(object_range(number, 0, *one) for number, one in enumerate(bounds))


@given(st.permutations(range(8)))
def test_any_order_of_insertion_gives_the_sorted_list(order) -> None:
    made = ()
    for number in order:
        made = inserted(made, object_range(number, 0, 10 * number, 10 * number + 5 + number % 2 * 5))
    assert [held.object_id for held in made] == list(range(8))


@pytest.mark.parametrize("bounds", [(0, 1), (4, 6), (9, 11), (10, 20), (12, 13), (0, 40), (29, 31), (39, 41)])
def test_an_overlap_is_a_bug(bounds) -> None:
    with pytest.raises(AssertionError, match="overlaps"):
        inserted(ranges_of((0, 5), (10, 20), (30, 40)), object_range(9, 0, *bounds))


def test_ranges_of_objects_are_taken_out() -> None:
    assert without_objects(ranges_of((0, 5), (5, 9), (9, 12)), {0, 2}) == ranges_of((0, 5), (5, 9))[1:]


def test_the_range_that_holds_an_offset() -> None:
    held = ranges_of((2, 5), (5, 9), (20, 30))
    found = [first_holding(held, offset) for offset in (0, 2, 4, 5, 8, 9, 19, 20, 29, 30)]
    assert found == [3, 0, 0, 1, 1, 3, 3, 2, 2, 3]


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 9)), max_size=8))
def test_joining_keeps_exactly_the_offsets(pieces) -> None:
    """A piece inside another does not shorten it (in AutoMQ's ``sortAndMerge`` it did)."""
    held = [object_range(0, 0, start, start + length) for start, length in sorted(pieces)]
    runs = joined(held)
    offsets = {offset for one in held for offset in range(one.start_offset, one.end_offset)}
    assert {offset for left, right in runs for offset in range(left, right)} == offsets
    assert all(runs[at][1] < runs[at + 1][0] for at in range(len(runs) - 1))
