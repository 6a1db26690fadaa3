"""The kernels in Python: tests compare ``compiled`` with them, and they are used where numba is not installed.

Only these kernels raise exceptions: ``compiled`` calls them again with the bytes that it could not read.
"""

from collections.abc import Iterator
from struct import Struct

import numpy as np

from siltstone.kafka_protocol.batch_errors import BatchLengthWrong, MalformedRecords, RecordCountWrong
from siltstone.kafka_protocol.batch_header import read_batch_header, refuse_wrong_length
from siltstone.kafka_protocol.records.building import append_record
from siltstone.kafka_protocol.records.key_partition import murmur2
from siltstone.kafka_protocol.records.reading import Record
from siltstone.kafka_protocol.records.varint import INT64_BITS, append_varint, decode_varint
from siltstone.object_formats.batch_frame import DamagedFrame, decode_frame
from siltstone.record_columns.kernels.columns import (
    BATCH_COLUMNS,
    HEADER_COLUMNS,
    RECORD_COLUMNS,
    ByteColumn,
    Bytes,
    Flags,
    Integers,
    Slots,
    Words,
)

_BITS = 2**64 - 1
_WORD = Struct("<Q")


def scan_batches(data: Bytes, stream_id: int) -> Integers:
    view = data.data
    rows: list[tuple[int, ...]] = []
    position = 0
    while position < len(view):
        frame_at = position
        frame, position = decode_frame(view, frame_at)
        if frame.stream_id != stream_id:
            raise DamagedFrame(f"frame at {frame_at} is of stream {frame.stream_id}, not {stream_id}")
        header = read_batch_header(frame.payload)
        refuse_wrong_length(header, len(frame.payload))
        if header.size_bytes != len(frame.payload):
            raise BatchLengthWrong(f"batch of {header.size_bytes} bytes in a frame of {len(frame.payload)}")
        if (header.base_offset, header.end_offset) != (frame.base_offset, frame.end_offset):
            raise BatchLengthWrong(
                f"batch [{header.base_offset}, {header.end_offset}) in a frame of"
                f" [{frame.base_offset}, {frame.end_offset})"
            )
        if header.record_count != frame.record_count:
            raise RecordCountWrong(
                f"batch of {header.record_count} records in a frame of {frame.record_count}"
            )
        rows.append(
            (frame_at, position, frame.base_offset, frame.end_offset, frame.record_count,
             frame.smallest_timestamp_ms, frame.largest_timestamp_ms, header.attributes, header.base_timestamp_ms,
             header.max_timestamp_ms, header.producer_id, header.producer_epoch)
        )  # fmt: skip
    return np.array(rows, dtype=np.int64).reshape(len(rows), BATCH_COLUMNS)


def decode_records(data: Bytes, starts: Integers, ends: Integers, counts: Integers) -> Integers:
    view = data.data
    columns = np.empty((RECORD_COLUMNS, int(counts.sum())), dtype=np.int64)
    number = 0
    for batch, (start, end, count) in enumerate(
        zip(starts.tolist(), ends.tolist(), counts.tolist(), strict=True)
    ):
        records = view[start:end]
        position = 0
        for index in range(count):
            try:
                columns[:, number], position = _read_record(records, position, index, batch, start)
            except IndexError as cause:
                raise MalformedRecords(f"record {index} of {count} ends early") from cause
            number += 1
        if position != len(records):
            raise MalformedRecords(f"{len(records) - position} bytes after the {count} records of the batch")
    return columns


def _read_record(
    data: memoryview, position: int, index: int, batch: int, start: int
) -> tuple[tuple[int, ...], int]:
    length, body = decode_varint(data, position)
    end = body + length
    if length < 0 or end > len(data):
        raise MalformedRecords(f"record {index} of {length} bytes, {len(data) - body} left")
    record = data[:end]
    time_delta, at = decode_varint(record, body + 1, INT64_BITS)
    offset_delta, at = decode_varint(record, at)
    key_bytes, key_at = decode_varint(record, at)
    key_end = _field_end(key_at, key_bytes, end)
    value_bytes, value_at = decode_varint(record, key_end)
    if _field_end(value_at, value_bytes, end) >= end:
        raise MalformedRecords(f"record {index} ends before the number of its headers")
    return (
        batch, start + position, start + end, offset_delta, time_delta, start + key_at, key_bytes, value_bytes,
        start + value_at,
    ), end  # fmt: skip


def _field_end(at: int, length: int, end: int) -> int:
    if length == -1:
        return at
    if length < -1 or at + length > end:
        raise MalformedRecords(f"a field of {length} bytes, {end - at} left in its record")
    return at + length


def count_headers(data: Bytes, starts: Integers, ends: Integers) -> Integers:
    found = [
        len(_headers(data, start, end)) for start, end in zip(starts.tolist(), ends.tolist(), strict=True)
    ]
    return np.array(found, dtype=np.int64)


def decode_headers(data: Bytes, starts: Integers, ends: Integers, counts: Integers) -> Integers:
    found = [
        header
        for start, end in zip(starts.tolist(), ends.tolist(), strict=True)
        for header in _headers(data, start, end)
    ]
    return np.ascontiguousarray(np.array(found, dtype=np.int64).reshape(len(found), HEADER_COLUMNS).T)


def _headers(data: Bytes, start: int, end: int) -> list[tuple[int, int, int, int]]:
    """Position and length of name and content of each header of a record."""
    record = data.data[:end]
    try:
        count, at = decode_varint(record, start)
        if not 0 <= count <= end - at:
            raise MalformedRecords(f"{count} record headers cannot fit into {end - at} bytes")
        found = []
        for _ in range(count):
            name_bytes, name_at = decode_varint(record, at)
            if name_bytes < 0:
                raise MalformedRecords(f"the name of a record header has length {name_bytes}")
            content_bytes, content_at = decode_varint(record, _field_end(name_at, name_bytes, end))
            at = _field_end(content_at, content_bytes, end)
            found.append((name_at, name_bytes, content_at, content_bytes))
    except IndexError as cause:
        raise MalformedRecords("a record ends before its headers do") from cause
    if at != end:
        raise MalformedRecords(f"{end - at} bytes follow the last field of a record")
    return found


def hash_keys(data: Bytes, key_at: Integers, key_bytes: Integers, hash_key: bytes) -> Slots:
    hashes = np.zeros((len(key_at), 2), dtype=np.uint64)
    for number, (at, length) in enumerate(zip(key_at.tolist(), key_bytes.tolist(), strict=True)):
        if length >= 0:
            hashes[number] = siphash(data[at : at + length].tobytes(), hash_key)
    return hashes


def siphash(key: bytes, hash_key: bytes) -> tuple[int, int]:
    """SipHash-2-4 with 128 bits (Aumasson, Bernstein): the two halves as numbers, little endian."""
    k0, k1 = _WORD.unpack_from(hash_key, 0)[0], _WORD.unpack_from(hash_key, 8)[0]
    state = (
        k0 ^ 0x736F6D6570736575,
        k1 ^ 0x646F72616E646F6D ^ 0xEE,
        k0 ^ 0x6C7967656E657261,
        k1 ^ 0x7465646279746573,
    )
    padded = key + bytes(7 - len(key) % 8) + bytes([len(key) & 0xFF])
    for (word,) in _WORD.iter_unpack(padded):
        v0, v1, v2, v3 = _rounds(state[0], state[1], state[2], state[3] ^ word, 2)
        state = (v0 ^ word, v1, v2, v3)
    v0, v1, v2, v3 = _rounds(state[0], state[1], state[2] ^ 0xEE, state[3], 4)
    first = v0 ^ v1 ^ v2 ^ v3
    v0, v1, v2, v3 = _rounds(v0, v1 ^ 0xDD, v2, v3, 4)
    return first, v0 ^ v1 ^ v2 ^ v3


def _rounds(v0: int, v1: int, v2: int, v3: int, count: int) -> tuple[int, int, int, int]:
    for _ in range(count):
        v0 = v0 + v1 & _BITS
        v1 = _rotated(v1, 13) ^ v0
        v0 = _rotated(v0, 32)
        v2 = v2 + v3 & _BITS
        v3 = _rotated(v3, 16) ^ v2
        v0 = v0 + v3 & _BITS
        v3 = _rotated(v3, 21) ^ v0
        v2 = v2 + v1 & _BITS
        v1 = _rotated(v1, 17) ^ v2
        v2 = _rotated(v2, 32)
    return v0, v1, v2, v3


def _rotated(value: int, bits: int) -> int:
    return (value << bits | value >> (64 - bits)) & _BITS


def offsets_of(
    numbers: Integers, deltas: Integers, base_offsets: Integers, end_offsets: Integers
) -> tuple[Integers, bool]:
    offsets: Integers = base_offsets[numbers] + deltas
    are_in_range = (deltas >= 0) & (offsets < end_offsets[numbers])
    do_increase = (offsets[1:] > offsets[:-1]) | (numbers[1:] != numbers[:-1])
    return offsets, bool(are_in_range.all() and do_increase.all())


def put_newest(slots: Slots, free: int, hashes: Slots, offsets: Integers, wanted: Flags) -> tuple[int, int]:
    for number in np.flatnonzero(wanted).tolist():
        at, found = _slot_of(slots, int(hashes[number, 0]), int(hashes[number, 1]))
        if not found:
            if free == 0:
                return number, free
            free -= 1
            slots[at, :2] = hashes[number]
        slots[at, 2] = max(int(slots[at, 2]), int(offsets[number]) + 1)
    return len(wanted), free


def newest(slots: Slots, hashes: Slots, wanted: Flags) -> Integers:
    offsets = np.full(len(hashes), -1, dtype=np.int64)
    for number in np.flatnonzero(wanted).tolist():
        at, found = _slot_of(slots, int(hashes[number, 0]), int(hashes[number, 1]))
        if found:
            offsets[number] = int(slots[at, 2]) - 1
    return offsets


def _slot_of(slots: Slots, high: int, low: int) -> tuple[int, bool]:
    """Returns the slot in which the key is or would be put, and whether it is there. At least one slot is always
    free."""
    count = len(slots)
    at = (high >> 32) * count >> 32
    while slots[at, 2] != 0:
        if slots[at, 0] == high and slots[at, 1] == low:
            return at, True
        at = at + 1 if at + 1 < count else 0
    return at, False


def gather(data: Bytes, starts: Integers, ends: Integers) -> Bytes:
    pieces = [data[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
    return np.concatenate(pieces) if pieces else np.zeros(0, dtype=np.uint8)


def gather_shifted(
    data: Bytes, starts: Integers, ends: Integers, time_deltas: Integers, offset_deltas: Integers
) -> tuple[Bytes, Integers]:
    view = data.data
    gathered = bytearray()
    lengths = np.empty(len(starts), dtype=np.int64)
    for number, start in enumerate(starts.tolist()):
        before = len(gathered)
        _, attributes_at = decode_varint(view, start)
        _, offset_delta_at = decode_varint(view, attributes_at + 1, INT64_BITS)
        _, rest_at = decode_varint(view, offset_delta_at)
        body = bytearray(view[attributes_at : attributes_at + 1])
        append_varint(body, int(time_deltas[number]))
        append_varint(body, int(offset_deltas[number]))
        body += view[rest_at : int(ends[number])]
        append_varint(gathered, len(body))
        gathered += body
        lengths[number] = len(gathered) - before
    return np.frombuffer(gathered, dtype=np.uint8), lengths


def encode_records(
    keys: ByteColumn, values: ByteColumn, time_deltas: Integers, offset_deltas: Integers
) -> tuple[Bytes, Integers]:
    encoded = bytearray()
    ends = np.empty(len(time_deltas), dtype=np.int64)
    columns = zip(_texts(keys), _texts(values), time_deltas.tolist(), offset_deltas.tolist(), strict=True)
    for number, (key, value, time_delta, offset_delta) in enumerate(columns):
        append_record(encoded, Record(timestamp_ms=time_delta, key=key, value=value), offset_delta, 0)
        ends[number] = len(encoded)
    return np.frombuffer(encoded, dtype=np.uint8), ends


def key_hashes(keys: ByteColumn) -> Words:
    return np.array([0 if key is None else murmur2(key) for key in _texts(keys)], dtype=np.uint32)


def _texts(column: ByteColumn) -> Iterator[bytes | None]:
    for start, length in zip(column.starts.tolist(), column.lengths.tolist(), strict=True):
        yield None if length < 0 else column.data[start : start + length].tobytes()
