"""Finds the records of erased keys by the hashes of their keys. Pure."""

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from siltstone.offline.erasures import StreamErasure
from siltstone.record_columns.chunking import Records
from siltstone.record_columns.kernels import columns
from siltstone.record_columns.kernels.columns import Bytes, Integers, Slots, read_only
from siltstone.record_columns.kernels.port import Kernels

NOT_ERASED = -1


def hashes_of_keys(keys: Sequence[bytes], hash_key: bytes, kernels: Kernels) -> list[bytes]:
    """Returns the 128-bit hash of each key, in the form of ``ErasedKey.hash``."""
    lengths = np.array([len(each) for each in keys], dtype=np.int64)
    starts = np.cumsum(lengths) - lengths
    slots = kernels.hash_keys(read_only(b"".join(keys)), starts, lengths, hash_key)
    return [each.tobytes() for each in slots.astype("<u8")]


class ErasedKeys:
    """The erased keys of one stream. Erasures of one topic share their hash key, so a record's key is hashed once."""

    def __init__(self, erasures: Sequence[StreamErasure]) -> None:
        by_hash_key: defaultdict[bytes, list[tuple[bytes, int, int]]] = defaultdict(list)
        for number, erasure in enumerate(erasures):
            by_hash_key[erasure.hash_key] += ((each, erasure.bound, number) for each in erasure.hashes)
        self._tables = {hash_key: _Table(entries) for hash_key, entries in by_hash_key.items()}

    def found_in(self, records: Records, kernels: Kernels) -> Integers:
        """Returns for each record the number of the erasure whose key it has, or NOT_ERASED."""
        at, lengths = records.columns[columns.KEY_AT], records.columns[columns.KEY_BYTES]
        found = self.found_among(records.data, at, lengths, records.offsets, kernels)
        return np.where(records.have_key, found, NOT_ERASED)

    def found_among(
        self, data: Bytes, starts: Integers, lengths: Integers, offsets: Integers, kernels: Kernels
    ) -> Integers:
        """Does the same for keys that lie in ``data``, each with the offset of its record."""
        found = np.full(len(offsets), NOT_ERASED, dtype=np.int64)
        for hash_key, table in self._tables.items():
            of_table = table.find(kernels.hash_keys(data, starts, lengths, hash_key), offsets)
            found = np.where(of_table != NOT_ERASED, of_table, found)
        return found


class _Table:
    """Hashes in order of their first half. Of a hash in several erasures the one with the highest bound counts: a
    record below a lower bound is below that one, too."""

    def __init__(self, entries: Sequence[tuple[bytes, int, int]]) -> None:
        highest: dict[bytes, tuple[int, int]] = {}
        for each, bound, number in entries:
            highest[each] = max(highest.get(each, (0, NOT_ERASED)), (bound, number))
        words = np.frombuffer(b"".join(highest), dtype="<u8").reshape(-1, 2).astype(np.uint64)
        order = np.lexsort((words[:, 1], words[:, 0]))
        self._words = words[order]
        self._bounds = np.array([bound for bound, _ in highest.values()], dtype=np.int64)[order]
        self._numbers = np.array([number for _, number in highest.values()], dtype=np.int64)[order]
        starts = np.searchsorted(self._words[:, 0], self._words[:, 0])
        self._alike_max = int(np.bincount(starts).max(initial=0))
        """The most hashes with one first half: one, but for a chance of 2**-64 for each pair."""

    def find(self, hashes: Slots, offsets: Integers) -> Integers:
        found = np.full(len(hashes), NOT_ERASED, dtype=np.int64)
        first = np.searchsorted(self._words[:, 0], hashes[:, 0])
        for step in range(self._alike_max):
            place = np.minimum(first + step, len(self._words) - 1)
            is_it: npt.NDArray[np.bool_] = (self._words[place] == hashes).all(axis=1)
            is_it &= offsets < self._bounds[place]
            found[is_it] = self._numbers[place][is_it]
        return found
