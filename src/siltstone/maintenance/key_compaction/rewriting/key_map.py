"""The map of a pass: a 128-bit hash of each key → the newest offset of that key.

Open addressing in one array, 24 bytes a key, filled to nine tenths at most (Kafka's load factor): beyond that a look-up
visits too many slots. The hash is keyed with 16 bytes nobody else knows, so nobody can make two keys that meet (K25);
by chance it happens once in 2**128 / n**2.
"""

import numpy as np

from siltstone.maintenance.key_compaction.rewriting.kernels.columns import Flags, Integers, Slots
from siltstone.maintenance.key_compaction.rewriting.kernels.port import Kernels

SLOT_BYTES = 24
LOAD_MAX = 0.9
_SLOTS_PER_KEY = 2
"""Where there is room: at a load of a half nearly every key is found at its first or second slot."""


class KeyMap:
    def __init__(self, bytes_max: int, keys_expected: int, kernels: Kernels) -> None:
        """One key fits whatever the limit is: a pass has to get on."""
        count = max(2, min(bytes_max // SLOT_BYTES, _SLOTS_PER_KEY * keys_expected))
        self._slots: Slots = np.zeros((count, 3), dtype=np.uint64)
        self.keys_max = max(1, int(count * LOAD_MAX))
        self._free = self.keys_max
        self._kernels = kernels

    @property
    def size_bytes(self) -> int:
        return self._slots.nbytes

    @property
    def keys(self) -> int:
        return self.keys_max - self._free

    def put(self, hashes: Slots, offsets: Integers, wanted: Flags) -> int | None:
        """Which record was the first that found no room; None: all did."""
        looked_at, self._free = self._kernels.put_newest(self._slots, self._free, hashes, offsets, wanted)
        return looked_at if looked_at < len(wanted) else None

    def newest_in(self, start_offset: int, end_offset: int) -> Flags | None:
        """Of each offset in [start, end) whether it is the newest of some key: who knows that the map holds all
        records between needs no hash to look one up. None: it would take more than an eighth of the map's bytes."""
        if end_offset - start_offset > self.size_bytes // 8:
            return None
        are_newest = np.zeros(end_offset - start_offset, dtype=np.bool_)
        places = self._slots[:, 2].astype(np.int64) - 1 - start_offset
        are_newest[places[(places >= 0) & (places < len(are_newest))]] = True
        return are_newest

    def newest(self, hashes: Slots, wanted: Flags) -> Integers:
        """Of each wanted record the newest offset of its key; -1 where the map has none."""
        return self._kernels.newest(self._slots, hashes, wanted)
