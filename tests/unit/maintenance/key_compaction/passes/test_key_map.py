import numpy as np
import pytest

from siltstone.maintenance.key_compaction.passes.key_map import SLOT_BYTES, KeyMap
from siltstone.record_columns.kernels import plain


def filled(
    keys: list[int], bytes_max: int = 1 << 20, expected: int = 100, **sizes: int
) -> tuple[KeyMap, int | None]:
    """Key k at offset 10, the next at 11 …"""
    made = KeyMap(bytes_max, expected, plain, **sizes)
    hashes = np.array([(key << 35, key) for key in keys], dtype=np.uint64)
    offsets = 10 + np.arange(len(keys), dtype=np.int64)
    return made, made.put(hashes, offsets, np.ones(len(keys), dtype=np.bool_))


@pytest.mark.parametrize(
    ("bytes_max", "expected", "keys_max"),
    [(0, 100, 1), (100 * SLOT_BYTES, 1000, 90), (1 << 20, 10, 18), (1 << 20, 0, 1)],
)
def test_it_takes_no_more_than_it_may_nor_than_it_needs(bytes_max: int, expected: int, keys_max: int) -> None:
    made = KeyMap(bytes_max, expected, plain)
    assert made.keys_max == keys_max
    assert made.size_bytes <= max(bytes_max, 2 * SLOT_BYTES)


def test_the_first_key_without_room_is_told() -> None:
    made, first_without_room = filled([1, 2, 1, 3, 4], bytes_max=4 * SLOT_BYTES)
    assert (made.keys_max, made.keys, first_without_room) == (3, 3, 4)


def test_which_offsets_are_the_newest_of_a_key() -> None:
    made, _ = filled([1, 2, 1, 3, 2])
    found = made.newest_in(10, 15)
    assert found is not None
    assert found.tolist() == [False, False, True, True, True]


def test_what_lies_outside_is_left_out() -> None:
    made, _ = filled([1, 2, 3])
    found = made.newest_in(11, 12)
    assert found is not None
    assert found.tolist() == [True]


def test_a_wide_range_is_not_spread_out() -> None:
    made, _ = filled([1, 2, 3])
    assert made.newest_in(0, made.size_bytes // 8 + 1) is None
    assert made.newest_in(0, made.size_bytes // 8) is not None


def test_it_grows_with_its_keys_and_forgets_none() -> None:
    keys = [number % 700 for number in range(2_000)]
    made, without_room = filled(keys, expected=2_000, slots_at_first=4)
    assert without_room is None and made.keys == 700
    assert 1_400 * SLOT_BYTES <= made.size_bytes <= 4_096 * SLOT_BYTES
    hashes = np.array([(key << 35, key) for key in range(701)], dtype=np.uint64)
    newest = made.newest(hashes, np.ones(701, dtype=np.bool_))
    assert newest.tolist() == [10 + max(at for at in range(key, 2_000, 700)) for key in range(700)] + [-1]


def test_growing_ends_at_the_limit() -> None:
    made, first_without_room = filled(
        list(range(100)), bytes_max=50 * SLOT_BYTES, expected=1_000, slots_at_first=4
    )
    assert (made.keys_max, made.keys, first_without_room) == (45, 45, 45)
    assert made.size_bytes == 50 * SLOT_BYTES
