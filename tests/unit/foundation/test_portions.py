import pytest

from siltstone.foundation.portions import portions


@pytest.mark.parametrize(
    ("weights", "count_max", "limit", "expected"),
    [
        ([], 3, 10, []),
        ([4, 6, 1], 3, 10, [[4, 6], [1]]),
        ([4, 7], 3, 10, [[4], [7]]),
        ([11, 1, 12, 2], 3, 10, [[11], [1], [12], [2]]),
        ([1, 1, 1, 1], 3, 10, [[1, 1, 1], [1]]),
        ([0, 0], 1, 0, [[0], [0]]),
    ],
)
def test_as_many_as_the_limits_allow(
    weights: list[int], count_max: int, limit: int, expected: list[list[int]]
) -> None:
    found = portions(weights, count_max, lambda weight: (weight,), (limit,))
    assert [list(each) for each in found] == expected


def test_each_limit_counts_by_itself() -> None:
    items = [(5, 1), (5, 1), (1, 3), (1, 1)]
    assert list(portions(items, 9, lambda item: item, (10, 4))) == [((5, 1), (5, 1)), ((1, 3), (1, 1))]
