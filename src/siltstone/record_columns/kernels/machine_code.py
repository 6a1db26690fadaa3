"""The loops that numba compiles. This is the only module that imports numba, and only tasks import it.

Functions have signatures, so each is compiled once, at import, or read from numba's cache (next to this file, or in
the user's cache folder). A call with arrays of another type is then an error instead of seconds of compiling.
Malformed bytes are reported by the return value; ``compiled`` then calls the plain kernel, which raises the
exception.

All arithmetic on hashes is in unsigned 64 bits: one signed literal would turn it into floating point.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import numba
import numpy as np

F = TypeVar("F", bound=Callable[..., Any])

BYTES = "Array(uint8, 1, 'C', readonly=True)"
_NEWLY = "uint8[::1]"
_INTS = "int64[::1]"


def machine_code(signature: str) -> Callable[[F], F]:
    """Compiles a function with a signature. When no cache folder can be written to, each process compiles again, which
    takes seconds."""

    def compiled(function: F) -> F:
        try:
            made: F = numba.njit(signature, nogil=True, cache=True)(function)
        except RuntimeError:  # no cache folder can be written to
            made = numba.njit(signature, nogil=True)(function)
        return made

    return compiled


def apart_from_it(function: F) -> F:
    """Compiles a helper of the functions below, which is rarely called, as a function of its own."""
    made: F = numba.njit(nogil=True)(function)
    return made


def part_of_it(function: F) -> F:
    """Compiles a helper of the functions below into each function that calls it."""
    made: F = numba.njit(nogil=True, forceinline=True)(function)
    return made


@part_of_it
def _at(array: Any, position: Any) -> Any:
    """Returns the element at a position that is never negative: numba checks signed positions, and skips that for
    unsigned ones."""
    return array[np.uint64(position)]


# -- frames and batch headers ------------------------------------------------------------------------------


@part_of_it
def _little(data: Any, at: Any) -> Any:
    value = np.uint64(0)
    for byte in range(8):
        value |= np.uint64(_at(data, at + byte)) << np.uint64(8 * byte)
    return value


@part_of_it
def _big(data: Any, at: Any, size: int) -> Any:
    """Returns the signed big-endian integer of ``size`` bytes."""
    value = np.int64(np.int8(data[at]))
    for byte in range(1, size):
        value = (value << 8) | np.int64(data[at + byte])
    return value


@machine_code(f"int64({BYTES}, int64, int64[:, ::1])")
def scan_batches(data: Any, stream_id: int, rows: Any) -> Any:
    """Returns the number of batches; -1 when the bytes are malformed."""
    size, position, count = len(data), 0, 0
    while position < size:
        at = position + 72
        if size - position < 72 + 61 or _little(data, position) != np.uint64(0x31464253):
            return -1
        row = rows[count]
        row[0] = position
        row[2] = np.int64(_little(data, position + 24))
        row[3] = np.int64(_little(data, position + 32))
        row[4] = np.int64(_little(data, position + 40))
        row[5] = np.int64(_little(data, position + 48))
        row[6] = np.int64(_little(data, position + 56))
        length = np.int64(_little(data, position + 64))
        if length < 61 or length > size - at or np.int64(_little(data, position + 8)) != stream_id:
            return -1
        position = int(at + length)
        row[1] = position
        row[7] = _big(data, at + 21, 2)
        row[8] = _big(data, at + 27, 8)
        row[9] = _big(data, at + 35, 8)
        row[10] = _big(data, at + 43, 8)
        row[11] = _big(data, at + 51, 2)
        if not (row[2] < row[3] and 0 <= row[4] <= row[3] - row[2]):
            return -1
        if data[at + 16] != 2 or _big(data, at + 8, 4) + 12 != length or _big(data, at + 57, 4) != row[4]:
            return -1
        if _big(data, at, 8) != row[2] or row[2] + _big(data, at + 23, 4) + 1 != row[3]:
            return -1
        count += 1
    return count


# -- records -------------------------------------------------------------------------------------------------


@apart_from_it
def _long_varint(data: Any, at: Any, end: Any, bits: int) -> Any:
    raw = np.uint64(0)
    shift = 0
    while at < end and shift < bits:
        byte = np.uint64(_at(data, at))
        at += 1
        raw |= (byte & np.uint64(0x7F)) << np.uint64(shift)
        if byte < np.uint64(0x80):
            is_too_wide = shift + 7 > bits and (byte >> np.uint64(bits - shift)) != np.uint64(0)
            return np.int64(raw >> np.uint64(1)) ^ -np.int64(raw & np.uint64(1)), -1 if is_too_wide else at
        shift += 7
    return np.int64(0), -1


@part_of_it
def _varint(data: Any, at: Any, end: Any, bits: int) -> Any:
    """Returns the integer, and the position after it; that is -1 when the integer is cut off or too wide. Integers of
    one and two bytes, which most are, are decoded here."""
    if at + 1 < end:
        first = np.int64(_at(data, at))
        if first < 0x80:
            return (first >> 1) ^ -(first & 1), at + 1
        second = np.int64(_at(data, at + 1))
        if second < 0x80:
            raw = (first & 0x7F) | (second << 7)
            return (raw >> 1) ^ -(raw & 1), at + 2
    return _long_varint(data, at, end, bits)


@machine_code(f"boolean({BYTES}, {_INTS}, {_INTS}, {_INTS}, int64[:, ::1])")
def decode_records(data: Any, starts: Any, ends: Any, counts: Any, columns: Any) -> bool:  # noqa: PLR0911
    """Returns whether all records could be decoded."""
    number = np.uint64(0)
    for batch in range(len(starts)):
        position, stop = starts[batch], ends[batch]
        for _ in range(counts[batch]):
            record_at = position
            length, at = _varint(data, position, stop, 32)
            if at < 0 or length < 1 or length > stop - at:
                return False
            end = at + length
            time_delta, at = _varint(data, at + 1, end, 64)
            if at < 0:
                return False
            offset_delta, at = _varint(data, at, end, 32)
            if at < 0:
                return False
            key_bytes, key_at = _varint(data, at, end, 32)
            if key_at < 0 or key_bytes < -1 or key_bytes > end - key_at:
                return False
            value_bytes, value_at = _varint(data, key_at + max(key_bytes, 0), end, 32)
            if value_at < 0 or value_bytes < -1 or max(value_bytes, 0) >= end - value_at:
                return False
            columns[np.uint64(0), number] = batch
            columns[np.uint64(1), number] = record_at
            columns[np.uint64(2), number] = end
            columns[np.uint64(3), number] = offset_delta
            columns[np.uint64(4), number] = time_delta
            columns[np.uint64(5), number] = key_at
            columns[np.uint64(6), number] = key_bytes
            columns[np.uint64(7), number] = value_bytes
            columns[np.uint64(8), number] = value_at
            number += np.uint64(1)
            position = end
        if position != stop:
            return False
    return True


@machine_code(f"boolean({_INTS}, {_INTS}, {_INTS}, {_INTS}, {_INTS})")
def offsets_of(numbers: Any, deltas: Any, base_offsets: Any, end_offsets: Any, offsets: Any) -> bool:
    """Returns whether the offsets of each batch increase and lie in its range."""
    are_in_order = True
    batch_before, delta_before = np.int64(-1), np.int64(-1)
    for number in range(len(numbers)):
        batch, delta = numbers[number], deltas[number]
        if batch != batch_before:
            batch_before, delta_before = batch, np.int64(-1)
        offset = _at(base_offsets, batch) + delta
        are_in_order &= (delta > delta_before) & (offset < _at(end_offsets, batch))
        delta_before = delta
        offsets[number] = offset
    return are_in_order


@part_of_it
def _header_end(data: Any, at: Any, end: Any) -> Any:
    """Returns the positions and lengths of the name and the content of a header; the position of the content is -1 when
    the header is malformed."""
    name_bytes, name_at = _varint(data, at, end, 32)
    if name_at < 0 or name_bytes < 0 or name_bytes > end - name_at:
        return 0, 0, -1, 0
    content_bytes, content_at = _varint(data, name_at + name_bytes, end, 32)
    if content_at < 0 or content_bytes < -1 or max(content_bytes, 0) > end - content_at:
        return 0, 0, -1, 0
    return name_at, name_bytes, content_at, content_bytes


@machine_code(f"boolean({BYTES}, {_INTS}, {_INTS}, {_INTS})")
def count_headers(data: Any, starts: Any, ends: Any, counts: Any) -> bool:
    """Returns whether the headers of all records could be decoded."""
    for number in range(len(starts)):
        end = ends[number]
        count, at = _varint(data, starts[number], end, 32)
        if at < 0 or count < 0 or count > end - at:
            return False
        for _ in range(count):
            _, _, content_at, content_bytes = _header_end(data, at, end)
            if content_at < 0:
                return False
            at = content_at + max(content_bytes, 0)
        if at != end:
            return False
        counts[number] = count
    return True


@machine_code(f"void({BYTES}, {_INTS}, {_INTS}, {_INTS}, int64[:, ::1])")
def decode_headers(data: Any, starts: Any, ends: Any, counts: Any, columns: Any) -> None:
    number = np.uint64(0)
    for record in range(len(starts)):
        end = ends[record]
        _, at = _varint(data, starts[record], end, 32)
        for _ in range(counts[record]):
            name_at, name_bytes, content_at, content_bytes = _header_end(data, at, end)
            columns[np.uint64(0), number] = name_at
            columns[np.uint64(1), number] = name_bytes
            columns[np.uint64(2), number] = content_at
            columns[np.uint64(3), number] = content_bytes
            number += np.uint64(1)
            at = content_at + max(content_bytes, 0)


@machine_code(f"void({BYTES}, {_INTS}, {_INTS}, {_NEWLY})")
def gather(data: Any, starts: Any, ends: Any, target: Any) -> None:
    position = np.uint64(0)
    for number in range(len(starts)):
        for at in range(np.uint64(starts[number]), np.uint64(ends[number])):
            target[position] = data[at]
            position += np.uint64(1)


@part_of_it
def _put_varint(target: Any, at: int, value: int) -> int:
    raw = (np.uint64(value) << np.uint64(1)) ^ np.uint64(value >> 63)
    while raw >= np.uint64(0x80):
        target[at] = np.uint8((raw & np.uint64(0x7F)) | np.uint64(0x80))
        raw >>= np.uint64(7)
        at += 1
    target[at] = np.uint8(raw)
    return at + 1


@part_of_it
def _varint_bytes(value: int) -> int:
    raw = (np.uint64(value) << np.uint64(1)) ^ np.uint64(value >> 63)
    size = 1
    while raw >= np.uint64(0x80):
        raw >>= np.uint64(7)
        size += 1
    return size


@machine_code(f"int64({BYTES}, {_INTS}, {_INTS}, {_INTS}, {_INTS}, {_NEWLY}, {_INTS})")
def gather_shifted(
    data: Any, starts: Any, ends: Any, time_deltas: Any, offset_deltas: Any, target: Any, lengths: Any
) -> int:
    position = 0
    for number in range(len(starts)):
        begun = position
        _, attributes_at = _varint(data, starts[number], ends[number], 32)
        _, offset_delta_at = _varint(data, attributes_at + 1, ends[number], 64)
        _, rest_at = _varint(data, offset_delta_at, ends[number], 32)
        rest = ends[number] - rest_at
        body = 1 + _varint_bytes(time_deltas[number]) + _varint_bytes(offset_deltas[number]) + rest
        position = _put_varint(target, position, body)
        target[position] = data[attributes_at]
        position = _put_varint(target, position + 1, time_deltas[number])
        position = _put_varint(target, position, offset_deltas[number])
        for byte in range(np.uint64(rest)):
            target[np.uint64(position) + byte] = data[np.uint64(rest_at) + byte]
        position += rest
        lengths[number] = position - begun
    return position


# -- rows to records -------------------------------------------------------------------------------------------


@part_of_it
def _put_text(target: Any, position: int, data: Any, start: int, length: int) -> int:
    """Puts the length, -1 for a null, and then the bytes."""
    position = _put_varint(target, position, length)
    for byte in range(np.uint64(max(length, 0))):
        target[np.uint64(position) + byte] = data[np.uint64(start) + byte]
    return position + max(length, 0)


@machine_code(f"int64({', '.join([BYTES, _INTS, _INTS] * 2)}, {_INTS}, {_INTS}, {_NEWLY}, {_INTS})")
def encode_records(
    keys: Any, key_starts: Any, key_lengths: Any,
    values: Any, value_starts: Any, value_lengths: Any,
    time_deltas: Any, offset_deltas: Any, target: Any, ends: Any,
) -> int:  # fmt: skip
    position = 0
    for number in range(len(ends)):
        key_bytes, value_bytes = key_lengths[number], value_lengths[number]
        body = 2 + _varint_bytes(time_deltas[number]) + _varint_bytes(offset_deltas[number])
        body += (
            _varint_bytes(key_bytes) + max(key_bytes, 0) + _varint_bytes(value_bytes) + max(value_bytes, 0)
        )
        position = _put_varint(target, position, body)
        target[position] = np.uint8(0)  # attributes
        position = _put_varint(target, position + 1, time_deltas[number])
        position = _put_varint(target, position, offset_deltas[number])
        position = _put_text(target, position, keys, key_starts[number], key_bytes)
        position = _put_text(target, position, values, value_starts[number], value_bytes)
        target[position] = np.uint8(0)  # the number of headers
        position += 1
        ends[number] = position
    return position


@part_of_it
def _times(value: Any) -> Any:
    return (value * np.uint64(0x5BD1E995)) & np.uint64(0xFFFFFFFF)


@machine_code(f"void({BYTES}, {_INTS}, {_INTS}, uint32[::1])")
def key_hashes(keys: Any, starts: Any, lengths: Any, hashes: Any) -> None:
    for number in range(len(hashes)):
        at, length = starts[number], lengths[number]
        if length < 0:
            hashes[number] = np.uint32(0)
            continue
        hashed = np.uint64(0x9747B28C) ^ np.uint64(length)
        end = at + (length & ~3)
        while at < end:
            mixed = np.uint64(0)
            for byte in range(4):
                mixed |= np.uint64(_at(keys, at + byte)) << np.uint64(8 * byte)
            at += 4
            mixed = _times(mixed)
            hashed = _times(hashed) ^ _times(mixed ^ (mixed >> np.uint64(24)))
        if length & 3:
            for byte in range(length & 3):
                hashed ^= np.uint64(_at(keys, at + byte)) << np.uint64(8 * byte)
            hashed = _times(hashed)
        hashed = _times(hashed ^ (hashed >> np.uint64(13)))
        hashes[number] = np.uint32(hashed ^ (hashed >> np.uint64(15)))


# -- SipHash-2-4, 128 bits ------------------------------------------------------------------------------------


@part_of_it
def _round(v0: Any, v1: Any, v2: Any, v3: Any) -> Any:
    v0 = v0 + v1
    v1 = ((v1 << np.uint64(13)) | (v1 >> np.uint64(51))) ^ v0
    v0 = (v0 << np.uint64(32)) | (v0 >> np.uint64(32))
    v2 = v2 + v3
    v3 = ((v3 << np.uint64(16)) | (v3 >> np.uint64(48))) ^ v2
    v0 = v0 + v3
    v3 = ((v3 << np.uint64(21)) | (v3 >> np.uint64(43))) ^ v0
    v2 = v2 + v1
    v1 = ((v1 << np.uint64(17)) | (v1 >> np.uint64(47))) ^ v2
    v2 = (v2 << np.uint64(32)) | (v2 >> np.uint64(32))
    return v0, v1, v2, v3


@machine_code(f"void({BYTES}, {_INTS}, {_INTS}, uint64, uint64, uint64[:, ::1])")
def hash_keys(data: Any, key_at: Any, key_bytes: Any, k0: Any, k1: Any, hashes: Any) -> None:
    for number in range(len(key_at)):
        at, length = key_at[number], key_bytes[number]
        if length < 0:
            continue
        v0 = k0 ^ np.uint64(0x736F6D6570736575)
        v1 = k1 ^ np.uint64(0x646F72616E646F6D) ^ np.uint64(0xEE)
        v2 = k0 ^ np.uint64(0x6C7967656E657261)
        v3 = k1 ^ np.uint64(0x7465646279746573)
        end = at + (length & ~7)
        while at < end:
            word = _little(data, at)
            at += 8
            v0, v1, v2, v3 = _round(v0, v1, v2, v3 ^ word)
            v0, v1, v2, v3 = _round(v0, v1, v2, v3)
            v0 ^= word
        word = np.uint64(length & 0xFF) << np.uint64(56)
        for byte in range(length & 7):
            word |= np.uint64(_at(data, at + byte)) << np.uint64(8 * byte)
        v0, v1, v2, v3 = _round(v0, v1, v2, v3 ^ word)
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
        v0 ^= word
        v2 ^= np.uint64(0xEE)
        for _ in range(4):
            v0, v1, v2, v3 = _round(v0, v1, v2, v3)
        hashes[number, 0] = v0 ^ v1 ^ v2 ^ v3
        v1 ^= np.uint64(0xDD)
        for _ in range(4):
            v0, v1, v2, v3 = _round(v0, v1, v2, v3)
        hashes[number, 1] = v0 ^ v1 ^ v2 ^ v3


# -- the map ---------------------------------------------------------------------------------------------------


@part_of_it
def _slot_of(slots: Any, high: Any, low: Any) -> Any:
    count = np.uint64(len(slots))
    at = ((high >> np.uint64(32)) * count) >> np.uint64(32)
    while slots[at, 2] != np.uint64(0):
        if slots[at, 0] == high and slots[at, 1] == low:
            return at, True
        at += np.uint64(1)
        if at == count:
            at = np.uint64(0)
    return at, False


@machine_code(f"UniTuple(int64, 2)(uint64[:, ::1], int64, uint64[:, ::1], {_INTS}, boolean[::1])")
def put_newest(slots: Any, free: Any, hashes: Any, offsets: Any, wanted: Any) -> Any:
    for number in range(len(wanted)):
        if not wanted[number]:
            continue
        at, found = _slot_of(slots, hashes[number, 0], hashes[number, 1])
        if not found:
            if free == 0:
                return number, free
            free -= 1
            slots[at, 0] = hashes[number, 0]
            slots[at, 1] = hashes[number, 1]
        slots[at, 2] = max(slots[at, 2], np.uint64(offsets[number] + 1))
    return len(wanted), free


@machine_code(f"void(uint64[:, ::1], uint64[:, ::1], boolean[::1], {_INTS})")
def newest(slots: Any, hashes: Any, wanted: Any, offsets: Any) -> None:
    for number in range(len(wanted)):
        if wanted[number]:
            at, found = _slot_of(slots, hashes[number, 0], hashes[number, 1])
            if found:
                offsets[number] = np.int64(slots[at, 2]) - 1
