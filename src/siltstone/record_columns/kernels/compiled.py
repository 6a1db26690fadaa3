"""The kernels with numba: each function allocates its arrays and calls ``machine_code``. When that reports an error,
the same kernel of ``plain`` is called, which raises the exception."""

import numpy as np

from siltstone.record_columns.kernels import machine_code, plain
from siltstone.record_columns.kernels.columns import (
    BATCH_COLUMNS,
    FRAME_AND_HEADER_BYTES,
    HEADER_COLUMNS,
    RECORD_COLUMNS,
    ByteColumn,
    Bytes,
    Flags,
    Integers,
    Slots,
    Words,
)

_VARINT_BYTES_MAX = 10
_SMALL_FIELDS_BYTES_MAX = 2 + 5 * _VARINT_BYTES_MAX
"""What a record has besides its key and its value."""


def scan_batches(data: Bytes, stream_id: int) -> Integers:
    rows = np.empty((len(data) // FRAME_AND_HEADER_BYTES + 1, BATCH_COLUMNS), dtype=np.int64)
    count = machine_code.scan_batches(data, stream_id, rows)
    return rows[:count] if count >= 0 else plain.scan_batches(data, stream_id)


def decode_records(data: Bytes, starts: Integers, ends: Integers, counts: Integers) -> Integers:
    columns = np.empty((RECORD_COLUMNS, int(counts.sum())), dtype=np.int64)
    if machine_code.decode_records(data, starts, ends, counts, columns):
        return columns
    return plain.decode_records(data, starts, ends, counts)


def offsets_of(
    numbers: Integers, deltas: Integers, base_offsets: Integers, end_offsets: Integers
) -> tuple[Integers, bool]:
    offsets = np.empty(len(numbers), dtype=np.int64)
    are_in_order = machine_code.offsets_of(numbers, deltas, base_offsets, end_offsets, offsets)
    return offsets, bool(are_in_order)


def count_headers(data: Bytes, starts: Integers, ends: Integers) -> Integers:
    counts = np.empty(len(starts), dtype=np.int64)
    return (
        counts
        if machine_code.count_headers(data, starts, ends, counts)
        else plain.count_headers(data, starts, ends)
    )


def decode_headers(data: Bytes, starts: Integers, ends: Integers, counts: Integers) -> Integers:
    columns = np.empty((HEADER_COLUMNS, int(counts.sum())), dtype=np.int64)
    machine_code.decode_headers(data, starts, ends, counts, columns)
    return columns


def hash_keys(data: Bytes, key_at: Integers, key_bytes: Integers, hash_key: bytes) -> Slots:
    hashes = np.zeros((len(key_at), 2), dtype=np.uint64)
    k0, k1 = np.frombuffer(hash_key, dtype="<u8")
    machine_code.hash_keys(data, key_at, key_bytes, k0, k1, hashes)
    return hashes


def put_newest(slots: Slots, free: int, hashes: Slots, offsets: Integers, wanted: Flags) -> tuple[int, int]:
    looked_at, left = machine_code.put_newest(slots, free, hashes, offsets, wanted)
    return int(looked_at), int(left)


def newest(slots: Slots, hashes: Slots, wanted: Flags) -> Integers:
    offsets = np.full(len(hashes), -1, dtype=np.int64)
    machine_code.newest(slots, hashes, wanted, offsets)
    return offsets


def gather(data: Bytes, starts: Integers, ends: Integers) -> Bytes:
    target = np.empty(int((ends - starts).sum()), dtype=np.uint8)
    machine_code.gather(data, starts, ends, target)
    return target


def gather_shifted(
    data: Bytes, starts: Integers, ends: Integers, time_deltas: Integers, offset_deltas: Integers
) -> tuple[Bytes, Integers]:
    """A record becomes longer by its two new deltas, and by the longer length field that these may need."""
    longest = int((ends - starts).sum()) + 2 * _VARINT_BYTES_MAX * len(starts)
    target = np.empty(longest, dtype=np.uint8)
    lengths = np.empty(len(starts), dtype=np.int64)
    size = machine_code.gather_shifted(data, starts, ends, time_deltas, offset_deltas, target, lengths)
    return target[:size], lengths


def encode_records(
    keys: ByteColumn, values: ByteColumn, time_deltas: Integers, offset_deltas: Integers
) -> tuple[Bytes, Integers]:
    text_bytes = int(np.maximum(keys.lengths, 0).sum() + np.maximum(values.lengths, 0).sum())
    target = np.empty(text_bytes + _SMALL_FIELDS_BYTES_MAX * len(time_deltas), dtype=np.uint8)
    ends = np.empty(len(time_deltas), dtype=np.int64)
    size = machine_code.encode_records(
        *(keys.data, keys.starts, keys.lengths, values.data, values.starts, values.lengths),
        *(time_deltas, offset_deltas, target, ends),
    )
    return target[:size], ends


def key_hashes(keys: ByteColumn) -> Words:
    hashes = np.empty(len(keys.starts), dtype=np.uint32)
    machine_code.key_hashes(keys.data, keys.starts, keys.lengths, hashes)
    return hashes
