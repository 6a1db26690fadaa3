"""Computes Iceberg's transforms ``bucket`` and ``truncate`` for whole columns.

The hash of a bucket is murmur3 (x86, 32 bits, seed 0) of the bytes of a text or of binary, and of the eight bytes of
any number, date or time [Iceberg spec, appendix B]. It is computed block by block for all values at once, and one by
one for the few longest values.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Words = npt.NDArray[np.uint32]

_C1, _C2 = 0xCC9E2D51, 0x1B873593
_LONG_BYTES = 1_024
"""A longer value is hashed by itself: a step for all values costs some microseconds, however few values are still in
it."""
_MASK = 0xFFFFFFFF


def bucket_of(column: Any, count: int) -> Any:
    """Returns the bucket of each value of an Arrow array, as int32; null for null."""
    numbers = pa.array((hashes_of(column) & np.uint32(0x7FFFFFFF)) % np.uint32(count), pa.int32())
    return pc.if_else(column.is_valid(), numbers, pa.scalar(None, pa.int32()))


def truncated(column: Any, width: int) -> Any:
    """Cuts texts to their first characters, and rounds numbers down to a multiple of the width."""
    if pa.types.is_integer(column.type):
        numbers = column.fill_null(0).to_numpy(zero_copy_only=False)
        rounded = pa.array(numbers - np.mod(numbers, width), column.type)
        return pc.if_else(column.is_valid(), rounded, pa.scalar(None, column.type))
    return pc.utf8_slice_codeunits(column, 0, width)


def hashes_of(column: Any) -> Words:
    """Returns the murmur3 hash of each value of an Arrow array; the hash of a null is any number."""
    types = pa.types
    if types.is_string(column.type) or types.is_binary(column.type):
        return _of_bytes(column)
    if types.is_large_string(column.type) or types.is_large_binary(column.type):
        return _of_bytes(column.cast(pa.binary()))
    if types.is_date32(column.type):
        column = column.cast(pa.int32())
    elif types.is_timestamp(column.type):
        column = column.view(pa.int64())
    numbers = column.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False).astype("<i8")
    words = np.ascontiguousarray(numbers).view("<u4").reshape(-1, 2)
    state = np.zeros(len(numbers), dtype=np.uint32)
    for at in range(2):
        state = _mixed(state, words[:, at])
    return _finished(state, np.full(len(numbers), 8, dtype=np.uint32))


def _of_bytes(column: Any) -> Words:
    _, offsets, data = column.buffers()
    ends = np.frombuffer(offsets, dtype=np.int32)[column.offset : column.offset + len(column) + 1].astype(
        np.int64
    )
    content = np.frombuffer(data, dtype=np.uint8) if data is not None else np.zeros(0, dtype=np.uint8)
    starts, lengths = ends[:-1], np.diff(ends)
    state = np.zeros(len(column), dtype=np.uint32)
    is_long = lengths > _LONG_BYTES
    left = np.flatnonzero((lengths >= 4) & ~is_long)
    block = 0
    while len(left):
        state[left] = _mixed(state[left], _words(content, starts[left] + 4 * block))
        block += 1
        left = left[lengths[left] >= 4 * block + 4]
    tails = np.flatnonzero((lengths % 4 != 0) & ~is_long)
    state[tails] ^= _scrambled(_tail_words(content, starts[tails], lengths[tails]))
    finished = _finished(state, lengths.astype(np.uint32))
    for row in np.flatnonzero(is_long).tolist():
        finished[row] = murmur3(content[starts[row] : starts[row] + lengths[row]].tobytes())
    return finished


def _words(content: npt.NDArray[np.uint8], at: npt.NDArray[np.int64]) -> Words:
    words = np.zeros(len(at), dtype=np.uint32)
    for shift in range(4):
        words |= content[at + shift].astype(np.uint32) << np.uint32(8 * shift)
    return words


def _tail_words(
    content: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]
) -> Words:
    words = np.zeros(len(starts), dtype=np.uint32)
    rest = lengths % 4
    first = starts + lengths - rest
    for shift in range(3):
        has_it = rest > shift
        words[has_it] |= content[first[has_it] + shift].astype(np.uint32) << np.uint32(8 * shift)
    return words


def _rotated(words: Words, by: int) -> Words:
    return (words << np.uint32(by)) | (words >> np.uint32(32 - by))


def _scrambled(words: Words) -> Words:
    return _rotated(words * np.uint32(_C1), 15) * np.uint32(_C2)


def _mixed(state: Words, words: Words) -> Words:
    return _rotated(state ^ _scrambled(words), 13) * np.uint32(5) + np.uint32(0xE6546B64)


def _finished(state: Words, lengths: Words) -> Words:
    state = state ^ lengths
    state = (state ^ (state >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    state = (state ^ (state >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return state ^ (state >> np.uint32(16))


def murmur3(data: bytes) -> int:
    """Returns the murmur3 hash of one value, as an unsigned number."""
    state, whole = 0, len(data) // 4 * 4
    for at in range(0, whole, 4):
        state ^= _scrambled_word(int.from_bytes(data[at : at + 4], "little"))
        state = ((state << 13 | state >> 19) * 5 + 0xE6546B64) & _MASK
    if whole < len(data):
        state ^= _scrambled_word(int.from_bytes(data[whole:], "little"))
    state ^= len(data)
    state = (state ^ state >> 16) * 0x85EBCA6B & _MASK
    state = (state ^ state >> 13) * 0xC2B2AE35 & _MASK
    return state ^ state >> 16


def _scrambled_word(word: int) -> int:
    word = word * _C1 & _MASK
    return (word << 15 | word >> 17) * _C2 & _MASK
