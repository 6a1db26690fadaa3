"""Deleted rows are packed, and left out batch by batch."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from siltstone.tables.row_deletes import DeletedRows, count, deleted_flags, live_flags, packed

ROWS = 100


@given(st.lists(st.integers(-3, ROWS + 20)), st.lists(st.integers(0, ROWS - 1)), st.integers(1, 40))
def test_rule_16_the_rows_that_are_left_are_those_of_the_plain_rule(
    first: list[int], second: list[int], batch: int
) -> None:
    gathered = DeletedRows(ROWS)
    for each in (first, second):
        gathered.add(np.array(each, dtype=np.int64))
    gone = {each for each in (*first, *second) if 0 <= each < ROWS}
    flags = deleted_flags(gathered.packed())
    left = []
    for start in range(0, ROWS, batch):
        rows = min(batch, ROWS - start)
        live = live_flags(flags, start, rows)
        left += [start + at for at in range(rows) if live is None or live[at]]
    beyond = {each for each in first if each >= ROWS}
    assert left == [each for each in range(ROWS) if each not in gone]
    assert len(gone) <= count(gathered.packed()) <= len(gone) + len(beyond)


def test_equal_rows_are_equal_bytes_and_none_are_no_bytes() -> None:
    assert packed(np.zeros(50, dtype=np.bool_)) == b""
    assert (count(b""), live_flags(deleted_flags(b""), 0, 5)) == (0, None)
    short, long = np.zeros(5, dtype=np.bool_), np.zeros(500, dtype=np.bool_)
    short[3] = long[3] = True
    assert packed(short) == packed(long) != b""
