"""What both sets of kernels do."""

from typing import Protocol

from siltstone.maintenance.key_compaction.kernels.columns import Bytes, Flags, Integers, Slots


class Kernels(Protocol):
    def scan_batches(self, data: Bytes, stream_id: int) -> Integers:
        """A row for each frame of a block, in order; each holds one batch of magic 2. Raises DamagedFrame,
        DamagedBatch, UnsupportedMagic."""
        ...

    def decode_records(self, data: Bytes, starts: Integers, ends: Integers, counts: Integers) -> Integers:
        """The record columns of batches whose records (not compressed) lie at [start, end) of the data. Headers of
        records are not looked at. Raises MalformedRecords."""
        ...

    def hash_keys(self, data: Bytes, key_at: Integers, key_bytes: Integers, hash_key: bytes) -> Slots:
        """128 bits of each key in two numbers, shape (records, 2): SipHash-2-4. Of a null key nothing that means
        something."""
        ...

    def put_newest(
        self, slots: Slots, free: int, hashes: Slots, offsets: Integers, wanted: Flags
    ) -> tuple[int, int]:
        """Of each wanted record the offset, if it is the newest of its key. Ends at the first new key for which no
        slot is free any more: how many records were looked at, and how many slots are free now."""
        ...

    def newest(self, slots: Slots, hashes: Slots, wanted: Flags) -> Integers:
        """Of each wanted record the newest offset of its key; -1 for keys that are not in the map."""
        ...

    def gather(self, data: Bytes, starts: Integers, ends: Integers) -> Bytes:
        """Byte ranges, one after another."""
        ...

    def gather_shifted(
        self, data: Bytes, starts: Integers, ends: Integers, time_deltas: Integers
    ) -> tuple[Bytes, Integers]:
        """Records, one after another, with other timestamp deltas; and the length of each."""
        ...
