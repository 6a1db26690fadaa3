import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from siltstone.foundation.crc32c import crc32c, crc32c_combine
from siltstone.foundation.crc32c_columns import crc32c_moved

CRCS = st.integers(0, 2**32 - 1)
LENGTHS = st.integers(0, 2**45)


@given(st.lists(st.tuples(CRCS, LENGTHS), max_size=20))
def test_moving_many_is_moving_each(pairs: list[tuple[int, int]]) -> None:
    crcs = np.array([crc for crc, _ in pairs], dtype=np.uint32)
    lengths = np.array([length for _, length in pairs], dtype=np.int64)
    expected = [crc32c_combine(crc, 0, length) for crc, length in pairs]
    assert crc32c_moved(crcs, lengths).tolist() == expected


def test_xor_of_moved_crcs_is_the_crc_of_the_concatenation() -> None:
    pieces = [b"silt", b"", b"s" * 1000, b"tone"]
    behind = [sum(map(len, pieces[at + 1 :])) for at in range(len(pieces))]
    moved = crc32c_moved(np.array([crc32c([piece]) for piece in pieces], dtype=np.uint32), np.array(behind))
    assert int(np.bitwise_xor.reduce(moved)) == crc32c(pieces)


def test_the_crcs_given_are_not_changed() -> None:
    crcs = np.array([1, 2], dtype=np.uint32)
    crc32c_moved(crcs, np.array([5, 5]))
    assert crcs.tolist() == [1, 2]
