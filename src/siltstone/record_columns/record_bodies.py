"""Columns of keys and values → the bytes of Kafka's records, many at once; and Kafka's hash of keys.

The small fields of a record (its length, attributes, deltas, the lengths of key and value) are variable-length numbers.
They are written for all records at once, into one array, and one copy puts them, the keys and the values in turn. So a
record costs some 0.3 µs, and one that Python builds costs 8. Records have no headers here.
"""

from collections.abc import Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from siltstone.record_columns.arrow import require_arrow
from siltstone.record_columns.kernels.columns import Bytes, Integers
from siltstone.record_columns.kernels.port import Kernels

NULL = -1
_VARINT_BYTES_MAX = 10
_SEED, _FACTOR = 0x9747B28C, 0x5BD1E995
_LONG_KEY_BYTES = 256
"""A longer key is left to the caller: a step over all keys costs some microseconds, however few keys are left."""

Words = npt.NDArray[np.uint32]


class ByteColumn(msgspec.Struct, frozen=True):
    """Byte strings that lie in ``data``; the length of a null is NULL."""

    data: Bytes
    starts: Integers
    lengths: Integers


def byte_column(column: object) -> ByteColumn:
    """Returns the values of a pyarrow.Array of binary or string, not copied. Raises ArrowMissing."""
    arrow = require_arrow()
    array = column.cast(arrow.large_binary())  # type: ignore[attr-defined]
    count = len(array)
    _, offsets_buffer, data_buffer = array.buffers()
    offsets = np.zeros(1, dtype=np.int64)
    if offsets_buffer is not None:
        offsets = np.frombuffer(offsets_buffer, dtype=np.int64)[array.offset : array.offset + count + 1]
    data = np.zeros(0, dtype=np.uint8)
    if data_buffer is not None:
        data = np.frombuffer(data_buffer, dtype=np.uint8)[: int(offsets[-1])]
    first = int(offsets[0]) if count else 0
    lengths = np.diff(offsets)
    lengths[array.is_null().to_numpy(zero_copy_only=False)] = NULL
    return ByteColumn(data[first:], offsets[:-1] - first, lengths)


def nulls(count: int) -> ByteColumn:
    """Returns so many nulls."""
    empty = np.zeros(count, dtype=np.int64)
    return ByteColumn(np.zeros(0, dtype=np.uint8), empty, empty + NULL)


def key_hashes(keys: ByteColumn) -> tuple[Words, Integers]:
    """Kafka's murmur2 of each key [Kafka: Utils.murmur2]; and the numbers of the keys that are too long for that, whose
    hash is missing. The hash of a null is any number."""
    lengths = np.maximum(keys.lengths, 0)
    is_long = lengths > _LONG_KEY_BYTES
    hashed = np.uint32(_SEED) ^ lengths.astype(np.uint32)
    left = np.flatnonzero((lengths >= 4) & ~is_long)
    block = 0
    while len(left):
        mixed = _bytes_of(keys.data, keys.starts[left] + 4 * block, 4) * np.uint32(_FACTOR)
        mixed ^= mixed >> np.uint32(24)
        hashed[left] = (hashed[left] * np.uint32(_FACTOR)) ^ (mixed * np.uint32(_FACTOR))
        block += 1
        left = left[lengths[left] >= 4 * block + 4]
    rest = lengths % 4
    for size in (1, 2, 3):
        rows = np.flatnonzero((rest == size) & ~is_long)
        tail = _bytes_of(keys.data, keys.starts[rows] + lengths[rows] - size, size)
        hashed[rows] = (hashed[rows] ^ tail) * np.uint32(_FACTOR)
    hashed ^= hashed >> np.uint32(13)
    hashed *= np.uint32(_FACTOR)
    return hashed ^ (hashed >> np.uint32(15)), np.flatnonzero(is_long)


def _bytes_of(data: Bytes, at: Integers, count: int) -> Words:
    words = np.zeros(len(at), dtype=np.uint32)
    for number in range(count):
        words |= data[at + number].astype(np.uint32) << np.uint32(8 * number)
    return words


def encoded_records(
    keys: ByteColumn,
    values: ByteColumn,
    time_deltas: Integers,
    offset_deltas: Integers,
    kernels: Kernels,
) -> tuple[Bytes, Integers]:
    """Returns the records of all rows, one after another, and the position at which each ends [Kafka:
    DefaultRecord]."""
    count = len(keys.lengths)
    if not count:
        return np.zeros(0, dtype=np.uint8), np.zeros(0, dtype=np.int64)
    numbers = [_zigzag(each) for each in (time_deltas, offset_deltas, keys.lengths, values.lengths)]
    sizes = [_varint_sizes(each) for each in numbers]
    key_bytes, value_bytes = np.maximum(keys.lengths, 0), np.maximum(values.lengths, 0)
    bodies = sum(
        sizes, key_bytes + value_bytes + 2
    )  # the attributes before them, and the number of headers behind
    length = _zigzag(bodies)
    length_sizes = _varint_sizes(length)
    before_key = length_sizes + 1 + sizes[0] + sizes[1] + sizes[2]
    small = before_key + sizes[3] + 1
    ends = np.cumsum(small)
    flat = np.zeros(int(ends[-1]), dtype=np.uint8)
    at = ends - small
    _put_varints(flat, at, length, length_sizes)
    at = at + length_sizes + 1
    for number, size in zip(numbers, sizes, strict=True):
        _put_varints(flat, at, number, size)
        at = at + size
    data = np.concatenate([flat, keys.data, values.data])
    data.flags.writeable = False
    starts, stops = _ranges(ends, before_key, small, keys, values, len(flat), len(keys.data))
    return kernels.gather(data, starts, stops), np.cumsum(length_sizes + bodies)


def _ranges(
    ends: Integers,
    before_key: Integers,
    small: Integers,
    keys: ByteColumn,
    values: ByteColumn,
    keys_at: int,
    key_data_bytes: int,
) -> tuple[Integers, Integers]:
    """What is copied for each record: the small fields up to the key, the key, the small fields between, the value; and
    the last byte, the number of headers."""
    count = len(ends)
    first = ends - small
    starts, stops = np.empty((count, 5), dtype=np.int64), np.empty((count, 5), dtype=np.int64)
    values_at = keys_at + key_data_bytes
    parts: Sequence[tuple[Integers, Integers]] = (
        (first, first + before_key),
        (keys_at + keys.starts, keys_at + keys.starts + np.maximum(keys.lengths, 0)),
        (first + before_key, ends - 1),
        (values_at + values.starts, values_at + values.starts + np.maximum(values.lengths, 0)),
        (ends - 1, ends),
    )
    for number, (start, stop) in enumerate(parts):
        starts[:, number], stops[:, number] = start, stop
    return starts.ravel(), stops.ravel()


def _zigzag(numbers: Integers) -> npt.NDArray[np.uint64]:
    found: npt.NDArray[np.uint64] = ((numbers << 1) ^ (numbers >> 63)).view(np.uint64)
    return found


def _varint_sizes(numbers: npt.NDArray[np.uint64]) -> Integers:
    sizes = np.ones(len(numbers), dtype=np.int64)
    for count in range(1, _VARINT_BYTES_MAX):
        is_longer = numbers >= np.uint64(1) << np.uint64(7 * count)
        if not is_longer.any():
            break
        sizes += is_longer
    return sizes


def _put_varints(flat: Bytes, at: Integers, numbers: npt.NDArray[np.uint64], sizes: Integers) -> None:
    rows = np.arange(len(numbers))
    for number in range(int(sizes.max())):
        rows = rows[sizes[rows] > number]
        part = (numbers[rows] >> np.uint64(7 * number)) & np.uint64(0x7F)
        is_followed = (sizes[rows] > number + 1).astype(np.uint64) << np.uint64(7)
        flat[at[rows] + number] = (part | is_followed).astype(np.uint8)
