"""The order of a key's changes by a field (``siltstone.tables.sequences``), against a plain rule that takes the records
one by one."""

from base64 import b64decode
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from siltstone.model.limits import DAY_MS
from siltstone.tables.sequences import (
    REMOVED_KEPT_MS,
    REMOVED_MAX,
    Removed,
    RemovedKeys,
    SequencedRecords,
    whole_numbers,
)

Change = tuple[str, int | None, bool]
"""Key, sequence, and whether it removes the row. The offset is the place in the list."""

KEYS = st.sampled_from("abc")
CHANGES = st.lists(
    st.one_of(
        st.tuples(KEYS, st.integers(-3, 3), st.booleans()),
        st.tuples(KEYS, st.none(), st.just(True)),
    ),
    max_size=12,
)


class Plain:
    """The rule, a record at a time. ``known``: the highest sequence of each key; ``rows``: key → offset."""

    def __init__(self) -> None:
        self.known: dict[str, int] = {}
        self.rows: dict[str, int] = {}

    def take(self, offset: int, key: str, sequence: int | None, is_removal: bool) -> None:
        if sequence is None:
            sequence = self.known.get(key, -(2**63))
        if key in self.known and sequence < self.known[key]:
            return
        self.known[key] = sequence
        if is_removal:
            self.rows.pop(key, None)
        else:
            self.rows[key] = offset


class Merged:
    """The same by ``SequencedRecords``, some records at a time."""

    def __init__(self) -> None:
        self.rows: dict[str, tuple[int, int | None]] = {}
        self.removed = RemovedKeys()

    def merge(self, first_offset: int, changes: list[Change], now_ms: int = 0) -> None:
        keys = pa.array([key.encode() for key, _, _ in changes], pa.binary())
        sequences = pa.array([sequence for _, sequence, _ in changes], pa.int64())
        offsets = pa.array(range(first_offset, first_offset + len(changes)), pa.int64())
        removals = pa.array([is_removal for _, _, is_removal in changes], pa.bool_())
        newest = SequencedRecords(keys, sequences, offsets, removals, self.removed)
        old_keys = pa.array([key.encode() for key in self.rows], pa.binary())
        newest.see(old_keys, pa.array([sequence for _, sequence in self.rows.values()], pa.int64()))
        newest.settle(self.removed, now_ms)
        stay = newest.old_stay(old_keys).to_pylist()
        self.rows = {key: row for (key, row), stays in zip(self.rows.items(), stay, strict=True) if stays}
        for (key, sequence, _), offset, is_row in zip(
            changes, offsets.to_pylist(), newest.are_rows(keys, offsets).to_pylist(), strict=True
        ):
            if is_row:
                assert key not in self.rows, "a key has one row"
                self.rows[key] = (offset, sequence)
        again, note = RemovedKeys(), self.removed.note(now_ms)
        again.read(note)
        assert again.note(now_ms) == note
        self.removed = again


@given(st.lists(CHANGES, max_size=5))
def test_sq1_rows_are_those_of_the_plain_rule(parts: list[list[Change]]) -> None:
    plain, merged, offset = Plain(), Merged(), 0
    for changes in parts:
        for at, change in enumerate(changes):
            plain.take(offset + at, *change)
        merged.merge(offset, changes)
        offset += len(changes)
        assert {key: at for key, (at, _) in merged.rows.items()} == plain.rows


def test_sq2_a_late_insert_does_not_bring_a_removed_row_back() -> None:
    merged = Merged()
    merged.merge(0, [("a", 5, True)])
    merged.merge(1, [("a", 4, False)])
    assert not merged.rows
    merged.merge(2, [("a", 5, False)])
    assert merged.rows == {"a": (2, 5)}
    assert not len(merged.removed), "a key with a row is not a removed one"


def test_sq5_removed_keys_are_forgotten_after_a_week_and_beyond_their_number() -> None:
    removed = RemovedKeys()
    removed.add(b"old", Removed(1, 0))
    removed.add(b"new", Removed(2, DAY_MS))
    again = RemovedKeys()
    again.read(removed.note(REMOVED_KEPT_MS))
    assert again.sequences([b"old", b"new"]).tolist() == [-(2**63), 2]
    for number in range(REMOVED_MAX + 10):
        removed.add(b"%d" % number, Removed(7, 2 * DAY_MS + number))
    note = removed.note(2 * DAY_MS)
    assert len(note) == pytest.approx(32 * REMOVED_MAX * 4 / 3, abs=4)
    again = RemovedKeys()
    again.read(note)
    assert again.sequences([b"9", b"10", b"%d" % REMOVED_MAX]).tolist() == [-(2**63), 7, 7]


def test_a_note_that_is_cut_off_is_refused() -> None:
    removed = RemovedKeys()
    removed.add(b"a", Removed(1, 1))
    with pytest.raises(ValueError, match="multiple of element size"):
        RemovedKeys().read(removed.note(1)[:-4])


def test_no_note_has_a_key() -> None:
    removed = RemovedKeys()
    removed.add(b"0:somebody@example.org", Removed(1, 1))
    assert b"somebody" not in b64decode(removed.note(1))


@pytest.mark.parametrize(
    ("column", "found"),
    [
        (pa.array([1, None], pa.int32()), [1, None]),
        (pa.array([2], pa.timestamp("ms", "UTC")), [2_000]),
        (pa.array([3], pa.date32()), [3]),
        (pa.array(["3"]), None),
        (pa.array([1.5]), None),
    ],
)
def test_whole_numbers_of_columns(column: Any, found: Any) -> None:
    numbers = whole_numbers(column)
    assert (None if numbers is None else numbers.to_pylist()) == found


def test_many_records_in_one_merge() -> None:
    rng = Random(1)
    changes = [(str(rng.randrange(1_000)), rng.randrange(1_000), rng.random() < 0.1) for _ in range(20_000)]
    plain, merged = Plain(), Merged()
    for at, change in enumerate(changes):
        plain.take(at, *change)
    merged.merge(0, changes)
    assert {key: at for key, (at, _) in merged.rows.items()} == plain.rows
