"""The key map of a task: a 128-bit hash of each key → the newest offset of that key.

It is an array with open addressing, 24 bytes a slot, filled to nine tenths at most (Kafka's load factor); with more a
look-up visits too many slots. The hash is keyed with 16 random bytes, so a client cannot make two keys with the same
hash (K25). By chance, n keys have a collision with a probability of about n**2 / 2**129.

The array begins small and grows as needed, so a small map uses little memory and stays in the processor's cache.
"""

import numpy as np

from siltstone.record_columns.kernels.columns import Flags, Integers, Slots
from siltstone.record_columns.kernels.port import Kernels

SLOT_BYTES = 24
LOAD_MAX = 0.9
_SLOTS_PER_KEY = 2
"""Slots for each key while memory allows it: at this load nearly every key is found in its first or second slot."""
SLOTS_AT_FIRST = 1 << 14
_GROWTH = 4
"""Each growth puts all keys again: by a factor of four, a third of the keys in all, by two as many as there are."""


class KeyMap:
    def __init__(
        self, bytes_max: int, keys_expected: int, kernels: Kernels, slots_at_first: int = SLOTS_AT_FIRST
    ) -> None:
        """At least one key fits, whatever ``bytes_max`` is, so that every run makes progress."""
        self._count_max = max(2, min(bytes_max // SLOT_BYTES, _SLOTS_PER_KEY * keys_expected))
        self.keys_max = max(1, int(self._count_max * LOAD_MAX))
        self._kernels = kernels
        self.keys = 0
        self._slots: Slots = _empty(min(slots_at_first, self._count_max))

    @property
    def size_bytes(self) -> int:
        return self._slots.nbytes

    def put(self, hashes: Slots, offsets: Integers, wanted: Flags) -> int | None:
        """Puts the wanted records. → The number of the first record for which there was no room; None when all
        fitted."""
        at = self._put(hashes, offsets, wanted)
        while at < len(wanted) and len(self._slots) < self._count_max:
            self._grow()
            at += self._put(hashes[at:], offsets[at:], wanted[at:])
        return at if at < len(wanted) else None

    def _put(self, hashes: Slots, offsets: Integers, wanted: Flags) -> int:
        """Puts records until the array is as full as it may be. → How many records were read."""
        room = self._keys_before_growing() - self.keys
        looked_at, left = self._kernels.put_newest(self._slots, room, hashes, offsets, wanted)
        self.keys += room - left
        return looked_at

    def _keys_before_growing(self) -> int:
        count = len(self._slots)
        return self.keys_max if count == self._count_max else count // _SLOTS_PER_KEY

    def _grow(self) -> None:
        before = self._slots
        self._slots = _empty(min(_GROWTH * len(before), self._count_max))
        offsets = before[:, 2].astype(np.int64) - 1
        hashes = np.ascontiguousarray(before[:, :2])
        self._kernels.put_newest(self._slots, self.keys, hashes, offsets, before[:, 2] != 0)

    def newest_in(self, start_offset: int, end_offset: int) -> Flags | None:
        """Returns, for each offset in [start, end), whether it is the newest offset of a key. When the map holds all
        records of the range, a record's offset then answers the question without its hash. None when the array would
        need more than an eighth of the map's memory limit."""
        if end_offset - start_offset > self._count_max * SLOT_BYTES // 8:
            return None
        are_newest = np.zeros(end_offset - start_offset, dtype=np.bool_)
        places = self._slots[:, 2].astype(np.int64) - 1 - start_offset
        are_newest[places[(places >= 0) & (places < len(are_newest))]] = True
        return are_newest

    def newest(self, hashes: Slots, wanted: Flags) -> Integers:
        """Returns the newest offset of each wanted record's key; -1 for keys that are not in the map."""
        return self._kernels.newest(self._slots, hashes, wanted)


def _empty(count: int) -> Slots:
    return np.zeros((count, 3), dtype=np.uint64)
