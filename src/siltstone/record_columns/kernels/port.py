"""The port of the kernels, which ``plain`` and ``compiled`` implement."""

from typing import Protocol

from siltstone.record_columns.kernels.columns import ByteColumn, Bytes, Flags, Integers, Slots, Words


class Kernels(Protocol):
    def scan_batches(self, data: Bytes, stream_id: int) -> Integers:
        """Returns the batch columns of a block: a row for each frame, in order. Each frame has to hold one batch of
        magic 2 of the stream. Raises DamagedFrame, DamagedBatch, UnsupportedMagic."""
        ...

    def decode_records(self, data: Bytes, starts: Integers, ends: Integers, counts: Integers) -> Integers:
        """Returns the record columns of batches whose uncompressed records lie at [start, end) of the data. Headers of
        records are not read, and any offset deltas are accepted. Raises MalformedRecords."""
        ...

    def offsets_of(
        self, numbers: Integers, deltas: Integers, base_offsets: Integers, end_offsets: Integers
    ) -> tuple[Integers, bool]:
        """Returns the offset of each record, and whether the offsets of each batch increase and lie in its range. Each
        record has the number of its batch, which never decreases, and its offset delta; each batch has its range."""
        ...

    def count_headers(self, data: Bytes, starts: Integers, ends: Integers) -> Integers:
        """Returns the number of headers of each record, whose headers lie at [start, end) of the data; ``start`` is the
        end of the record's value. Raises MalformedRecords, also if bytes follow the last header."""
        ...

    def decode_headers(self, data: Bytes, starts: Integers, ends: Integers, counts: Integers) -> Integers:
        """Returns the header columns of the records, whose headers ``count_headers`` has counted."""
        ...

    def hash_keys(self, data: Bytes, key_at: Integers, key_bytes: Integers, hash_key: bytes) -> Slots:
        """Returns the 128-bit SipHash-2-4 of each key as two numbers, shape (records, 2). The hash of a null key is
        0."""
        ...

    def put_newest(
        self, slots: Slots, free: int, hashes: Slots, offsets: Integers, wanted: Flags
    ) -> tuple[int, int]:
        """Puts the offset of each wanted record into the slots, if it is the newest of its key. Stops at the first
        new key when no slot is free. → How many records were read, and how many slots may still be taken."""
        ...

    def newest(self, slots: Slots, hashes: Slots, wanted: Flags) -> Integers:
        """Returns the newest offset of each wanted record's key; -1 for keys that are not in the slots."""
        ...

    def gather(self, data: Bytes, starts: Integers, ends: Integers) -> Bytes:
        """Copies the byte ranges [start, end), one after another."""
        ...

    def gather_shifted(
        self, data: Bytes, starts: Integers, ends: Integers, time_deltas: Integers, offset_deltas: Integers
    ) -> tuple[Bytes, Integers]:
        """Copies records one after another, with new timestamp and offset deltas; also returns the length of each."""
        ...

    def encode_records(
        self, keys: ByteColumn, values: ByteColumn, time_deltas: Integers, offset_deltas: Integers
    ) -> tuple[Bytes, Integers]:
        """Returns the records of all rows, one after another and without headers, and the position at which each
        ends [Kafka: DefaultRecord]."""
        ...

    def key_hashes(self, keys: ByteColumn) -> Words:
        """Returns Kafka's murmur2 of each key; of a null, 0."""
        ...
