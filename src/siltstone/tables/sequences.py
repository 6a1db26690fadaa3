"""Which record of a key is the newest by its sequence: a table with ``siltstone.table.sequence`` takes the order of
changes from a field of the records and not from their offsets.

A record of a key counts if its sequence is at least the highest one that the table knows of the key; of equal ones the
last counts. So a record that is late, or comes a second time, changes nothing. A removal without a sequence, such as a
tombstone, comes after all that was before it.

A removed row leaves nothing in the table by which a late record could be told. So the data files of a bucket carry the
*removed keys* in a note of their footer: a hash of each key, its sequence, and when it was removed. They are committed
with the rows, and forgotten after REMOVED_KEPT_MS. A bucket without rows has a file without rows. Nobody else reads
the notes; a program that writes the files again drops them, and then a late record brings its row back.
"""

from base64 import b64decode, b64encode
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from siltstone.model.limits import DAY_MS
from siltstone.topic_configs.table_export import SEQUENCE_COLUMN

REMOVED_NOTE = b"siltstone.removed"
"""The key of the note in a footer, which is a text [Parquet: KeyValue]: 32 bytes for each removed key, as base64."""

REMOVED_KEPT_MS = 7 * DAY_MS
"""How long the sequence of a removed key is known. Events that are later than a week are rare; Databricks' AUTO CDC
keeps its tombstones for two days."""

REMOVED_MAX = 50_000
"""The most removed keys of a bucket, 2.1 MB: every reader of a file reads its footer. The oldest are forgotten."""

_LOWEST = np.iinfo(np.int64).min
_HASH_BYTES = 16
_REMOVED = np.dtype([("hash", f"V{_HASH_BYTES}"), ("sequence", "<i8"), ("removed_ms", "<i8")])

Numbers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


class Removed(msgspec.Struct, frozen=True):
    sequence: int
    removed_ms: int


class RemovedKeys:
    """The removed keys of a bucket, by the hash of partition and key."""

    def __init__(self) -> None:
        self._found: dict[bytes, Removed] = {}

    def __len__(self) -> int:
        return len(self._found)

    def read(self, note: bytes) -> None:
        """Adds what a note says. Raises ValueError for a note that is cut off."""
        for key, sequence, removed_ms in np.frombuffer(b64decode(note), dtype=_REMOVED).tolist():
            self._add(bytes(key), Removed(sequence, removed_ms))

    def _add(self, key: bytes, removed: Removed) -> None:
        before = self._found.get(key)
        if before is None or before.sequence <= removed.sequence:
            self._found[key] = removed

    def add(self, key: bytes, removed: Removed) -> None:
        self._add(_hash(key), removed)

    def pop(self, key: bytes) -> None:
        """Forgets a key, because it has a row again."""
        if self._found:
            self._found.pop(_hash(key), None)

    def sequences(self, keys: Sequence[bytes]) -> Numbers:
        """Returns the sequence of each key; the lowest number for one that was not removed."""
        if not self._found:
            return np.full(len(keys), _LOWEST, dtype=np.int64)
        found = (self._found.get(_hash(each)) for each in keys)
        return np.array([_LOWEST if each is None else each.sequence for each in found], dtype=np.int64)

    def note(self, now_ms: int) -> bytes:
        """Returns the note for the present files, without the keys that are forgotten by now; nothing if none is
        left."""
        kept = [
            (each.removed_ms, key, each.sequence)
            for key, each in self._found.items()
            if each.removed_ms > now_ms - REMOVED_KEPT_MS
        ]
        kept.sort()
        rows = [(key, sequence, removed_ms) for removed_ms, key, sequence in kept[-REMOVED_MAX:]]
        return b64encode(np.array(rows, dtype=_REMOVED).tobytes())


class SequencedRecords:
    """What the new records of some keys do to the rows of these keys. ``see`` the older rows first, then ``settle``."""

    def __init__(self, keys: Any, sequences: Any, offsets: Any, removals: Any, removed: RemovedKeys) -> None:
        """The arguments are pyarrow Arrays with one item for each new record, in any order: ``keys`` are binary and
        differ for different partitions, ``sequences`` may be null for a removal."""
        rows = pa.table(
            [keys, sequences, offsets, removals], names=["key", "sequence", "offset", "is_removal"]
        ).sort_by([("key", "ascending"), ("offset", "ascending")])
        self._key = rows["key"].combine_chunks()
        self._values = self._key.unique()
        at = pc.index_in(self._key, value_set=self._values).cast(pa.int64())
        self._of: Numbers = at.to_numpy()
        self._sequence = rows["sequence"].fill_null(_LOWEST).to_numpy()
        self._has_none: Mask = rows["sequence"].is_null().to_numpy()
        self._offset = rows["offset"].to_numpy()
        self._is_removal: Mask = rows["is_removal"].to_numpy()
        self._known = removed.sequences(self._values.to_pylist())

    def see(self, keys: Any, sequences: Any) -> None:
        """Sees older rows of the table."""
        at = pc.index_in(keys, value_set=self._values)
        is_theirs = at.is_valid()
        found = sequences.filter(is_theirs).fill_null(_LOWEST).to_numpy()
        np.maximum.at(self._known, at.filter(is_theirs).to_numpy(), found)

    def settle(self, removed: RemovedKeys, now_ms: int) -> None:
        """Decides which record of each key counts, and notes the keys that have no row any more."""
        effective = self._effective()
        # Why the order: the last of each key is the highest, and of equal ones the one with the highest offset.
        order = np.lexsort((self._offset, effective, self._of))
        is_last = np.ones(len(order), dtype=np.bool_)
        is_last[:-1] = self._of[order][1:] != self._of[order][:-1]
        best = order[is_last]
        counts = effective[best] >= self._known[self._of[best]]
        winners = best[counts]
        self._offsets = np.full(len(self._values), -1, dtype=np.int64)
        self._offsets[self._of[winners]] = np.where(self._is_removal[winners], -1, self._offset[winners])
        self._changed = np.zeros(len(self._values), dtype=np.bool_)
        self._changed[self._of[winners]] = True
        for at in winners.tolist():
            key = self._key[at].as_py()
            if not self._is_removal[at]:
                removed.pop(key)
            elif effective[at] > _LOWEST:
                removed.add(key, Removed(int(effective[at]), now_ms))

    def _effective(self) -> Numbers:
        """Returns the sequence of each record; of a removal without one, the highest that was known before it."""
        found: Numbers = self._sequence.copy()
        if not self._has_none.any():
            return found
        numbers, ranks = np.unique(np.concatenate([found, self._known]), return_inverse=True)
        ranks, known = ranks[: len(found)], ranks[len(found) :]
        lifted = np.maximum(ranks, known[self._of]) + self._of * len(numbers)
        highest: Numbers = np.maximum.accumulate(lifted) - self._of * len(numbers)
        found[self._has_none] = numbers[highest[self._has_none]]
        return found

    def old_stay(self, keys: Any) -> Any:
        """Returns which older rows stay, as a pyarrow.BooleanArray. An older row stays unless a new record of its key
        counts."""
        at = pc.index_in(keys, value_set=self._values)
        changed = pa.array(self._changed).take(at)
        return pc.invert(changed.fill_null(False))

    def are_rows(self, keys: Any, offsets: Any) -> Any:
        """Returns which new records are rows of the table, as a pyarrow.BooleanArray."""
        at = pc.index_in(keys, value_set=self._values)
        return pc.equal(pa.array(self._offsets).take(at), offsets).fill_null(False)


def sequence_field() -> Any:
    """Returns the column of sequences as a pyarrow.Field."""
    return pa.field(SEQUENCE_COLUMN, pa.int64())


def whole_numbers(column: Any) -> Any | None:
    """Returns a column as whole numbers; None if its type has none. Raises pyarrow.ArrowInvalid for a number that is
    too large."""
    kind = column.type
    if pa.types.is_integer(kind):
        return column.cast(pa.int64())
    if pa.types.is_timestamp(kind):
        return column.cast(pa.timestamp("us", kind.tz)).cast(pa.int64())
    if pa.types.is_date32(kind):
        return column.cast(pa.int32()).cast(pa.int64())
    return None


def _hash(key: bytes) -> bytes:
    return blake2b(key, digest_size=_HASH_BYTES).digest()
