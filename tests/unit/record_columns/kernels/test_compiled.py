"""Machine code against Python, over bytes that are right and bytes that are not."""

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from siltstone.kafka_protocol.batch_errors import MalformedRecords
from siltstone.kafka_protocol.records.building import build_batch
from siltstone.kafka_protocol.records.reading import Record
from siltstone.kafka_protocol.records.varint import append_varint
from siltstone.model.errors import SiltstoneError
from siltstone.model.record_batch import RecordBatch
from siltstone.object_formats.batch_frame import encode_frame_header
from siltstone.record_columns.kernels import compiled, machine_code, plain
from siltstone.record_columns.kernels.columns import (
    BATCH_COLUMNS,
    HEADER_COLUMNS,
    RECORD_COLUMNS,
    RECORD_END,
    VALUE_AT,
    VALUE_BYTES,
    Bytes,
    Integers,
    read_only,
)
from support.values.examples import examples

nullable = st.one_of(st.none(), st.binary(max_size=200))
records = st.lists(
    st.builds(
        Record,
        timestamp_ms=st.one_of(st.integers(-(2**63), 2**63 - 1), st.integers(0, 300)),
        key=nullable,
        value=nullable,
        headers=st.lists(st.tuples(st.text(max_size=3), nullable), max_size=2).map(tuple),
    ),
    min_size=1,
    max_size=5,
)


def numbers(*values: int) -> Integers:
    return np.array(values, dtype=np.int64)


def block_of(batches: list[list[Record]]) -> bytes:
    block = b""
    offset = 1000
    for found in batches:
        batch = build_batch(found, base_offset=offset, producer_id=2**40, producer_epoch=7)
        frame = RecordBatch(5, 1, offset, offset + len(found), len(found), -1, 2**50, batch)
        block += encode_frame_header(frame) + batch
        offset = frame.end_offset + 3
    return block


def mutated(data: bytes, seed: int, size_min: int = 1) -> bytes:
    chance = random.Random(seed)
    changed = bytearray(data)
    for _ in range(chance.randrange(4)):
        changed[chance.randrange(len(changed))] = chance.choice(
            [0, 1, 2, 0x7F, 0x80, 0xFF, chance.randrange(256)]
        )
    return bytes(
        changed[: chance.choice([len(changed), len(changed), chance.randrange(size_min, len(changed) + 1)])]
    )


@settings(max_examples=examples(300))
@given(st.lists(records, min_size=1, max_size=4), st.integers(0, 2**32))
def test_batches_are_found_alike_or_refused_alike(batches: list[list[Record]], seed: int) -> None:
    data = read_only(mutated(block_of(batches), seed))
    rows = np.empty((len(data) // 133 + 1, BATCH_COLUMNS), dtype=np.int64)
    count = machine_code.scan_batches(data, 5, rows)
    try:
        expected = plain.scan_batches(data, 5)
    except SiltstoneError:
        assert count == -1
        return
    assert rows[:count].tolist() == expected.tolist()


@settings(max_examples=examples(400))
@given(records, st.integers(0, 2**32))
def test_records_are_decoded_alike_or_refused_alike(found: list[Record], seed: int) -> None:
    body = mutated(bytes(build_batch(found)[61:]), seed)
    data = read_only(b"before" + body + b"after")
    starts, ends, counts = numbers(6), numbers(6 + len(body)), numbers(len(found))
    columns = np.empty((RECORD_COLUMNS, len(found)), dtype=np.int64)
    is_right = machine_code.decode_records(data, starts, ends, counts, columns)
    try:
        expected = plain.decode_records(data, starts, ends, counts)
    except MalformedRecords:
        assert not is_right
        with pytest.raises(MalformedRecords):
            compiled.decode_records(data, starts, ends, counts)
        return
    assert is_right
    assert columns.tolist() == expected.tolist()


@pytest.mark.parametrize("bits", [32, 64])
def test_varints_of_every_length_and_too_wide_ones(bits: int) -> None:
    """As the timestamp delta (64 bits) or the offset delta (32) of a record."""
    for seven in range(0, bits + 8, 7):
        for nudge in (-1, 0, 1):
            value = 2**seven + nudge
            raw = bytearray()
            append_varint(raw, value)
            fields = (
                (b"\0", bytes(raw), b"\0", b"\1\1\0") if bits == 64 else (b"\0", b"\0", bytes(raw), b"\1\1\0")
            )
            body = b"".join(fields)
            record = bytearray()
            append_varint(record, len(body))
            record += body
            data, arguments = read_only(bytes(record)), (numbers(0), numbers(len(record)), numbers(1))
            columns = np.empty((RECORD_COLUMNS, 1), dtype=np.int64)
            fits = value < 2 ** (bits - 1)
            assert machine_code.decode_records(data, *arguments, columns) == fits
            if fits:
                assert columns[4 if bits == 64 else 3, 0] == value
                assert plain.decode_records(data, *arguments).tolist() == columns.tolist()
            else:
                with pytest.raises(MalformedRecords):
                    plain.decode_records(data, *arguments)


@given(st.lists(st.binary(max_size=70), min_size=1, max_size=8), st.binary(min_size=16, max_size=16))
def test_keys_are_hashed_alike(keys: list[bytes], hash_key: bytes) -> None:
    data = read_only(b"".join(keys))
    lengths = numbers(*(len(key) for key in keys), -1)
    starts = np.concatenate([numbers(0), np.cumsum(lengths[:-1])])
    expected = plain.hash_keys(data, starts, lengths, hash_key)
    assert (compiled.hash_keys(data, starts, lengths, hash_key) == expected).all()
    assert tuple(expected[-1].tolist()) == (0, 0)


@given(
    st.lists(st.tuples(st.integers(0, 30), st.booleans()), max_size=60),
    st.integers(2, 40),
    st.integers(1, 36),
)
def test_the_map_holds_the_newest_of_each_key(found: list[tuple[int, bool]], size: int, room: int) -> None:
    room = min(room, size - 1)
    hashes = np.array([(key << 40, key) for key, _ in found], dtype=np.uint64).reshape(len(found), 2)
    offsets = np.arange(len(found), dtype=np.int64)
    wanted = np.array([is_wanted for _, is_wanted in found], dtype=np.bool_)
    newest: dict[int, int] = {}
    looked_at = len(found)
    for number, (key, is_wanted) in enumerate(found):
        if is_wanted and key not in newest and len(newest) == room:
            looked_at = number
            break
        if is_wanted:
            newest[key] = number
    expected = [newest.get(key, -1) for key, _ in found]
    for kernels in (plain, compiled):
        slots = np.zeros((size, 3), dtype=np.uint64)
        done = kernels.put_newest(slots, room, hashes, offsets, wanted)
        assert done == (looked_at, room - len(newest))
        all_wanted = np.ones(len(found), dtype=np.bool_)
        assert kernels.newest(slots, hashes, all_wanted).tolist() == expected


@given(st.lists(st.lists(st.integers(-1, 6), max_size=5), min_size=1, max_size=5))
def test_offsets_are_in_order_if_they_increase_within_the_range_of_their_batch(
    deltas: list[list[int]],
) -> None:
    bases = numbers(*range(0, 10 * len(deltas), 10))
    of_batch = numbers(*(number for number, each in enumerate(deltas) for _ in each))
    expected = [10 * number + delta for number, each in enumerate(deltas) for delta in each]
    are_in_order = all(
        0 <= delta < 5 and delta > before
        for each in deltas
        for before, delta in zip([-1, *each], each, strict=False)
    )
    flat = numbers(*(delta for each in deltas for delta in each))
    for kernels in (plain, compiled):
        offsets, flag = kernels.offsets_of(of_batch, flat, bases, bases + 5)
        assert (offsets.tolist(), flag) == (expected, are_in_order)


@given(
    records,
    st.lists(st.integers(-(2**63), 2**63 - 1), min_size=5, max_size=5),
    st.lists(st.integers(-(2**31), 2**31 - 1), min_size=5, max_size=5),
)
def test_records_are_copied_and_shifted_alike(
    found: list[Record], time_deltas: list[int], offset_deltas: list[int]
) -> None:
    data = read_only(bytes(build_batch(found)[61:]))
    whole = (numbers(0), numbers(len(data)), numbers(len(found)))
    columns = plain.decode_records(data, *whole)
    starts, ends = np.ascontiguousarray(columns[1]), np.ascontiguousarray(columns[2])
    assert compiled.gather(data, starts, ends).tobytes() == plain.gather(data, starts, ends).tobytes()
    others = numbers(*time_deltas[: len(found)]), numbers(*offset_deltas[: len(found)])
    expected, lengths = plain.gather_shifted(data, starts, ends, *others)
    shifted, same_lengths = compiled.gather_shifted(data, starts, ends, *others)
    assert (shifted.tobytes(), same_lengths.tolist()) == (expected.tobytes(), lengths.tolist())
    again = plain.decode_records(read_only(shifted.tobytes()), numbers(0), numbers(len(shifted)), whole[2])
    assert (again[4].tolist(), again[3].tolist()) == (others[0].tolist(), others[1].tolist())
    assert again[[0, 6, 7]].tolist() == columns[[0, 6, 7]].tolist()


def test_arrays_of_another_type_are_refused_and_not_compiled_for() -> None:
    with pytest.raises(TypeError):
        machine_code.gather(np.zeros(3, dtype=np.int16), numbers(0), numbers(1), np.zeros(1, dtype=np.uint8))


BORDERS = [sign * 2**bits + nudge for bits in range(63) for sign in (1, -1) for nudge in (-1, 0, 1)]


def test_times_at_the_borders_of_a_byte_more_are_shifted_alike() -> None:
    record = Record(timestamp_ms=0, key=b"k", value=b"v")
    data = read_only(bytes(build_batch([record] * len(BORDERS))[61:]))
    columns = plain.decode_records(data, numbers(0), numbers(len(data)), numbers(len(BORDERS)))
    starts, ends = np.ascontiguousarray(columns[1]), np.ascontiguousarray(columns[2])
    offset_deltas = numbers(*range(len(BORDERS)))
    expected, lengths = plain.gather_shifted(data, starts, ends, numbers(*BORDERS), offset_deltas)
    shifted, same_lengths = compiled.gather_shifted(data, starts, ends, numbers(*BORDERS), offset_deltas)
    assert (shifted.tobytes(), same_lengths.tolist()) == (expected.tobytes(), lengths.tolist())
    again = compiled.decode_records(
        read_only(shifted.tobytes()), numbers(0), numbers(len(shifted)), numbers(len(BORDERS))
    )
    assert again[4].tolist() == BORDERS


@pytest.mark.parametrize("length", [*range(26), 126, 127, 128, 255, 256, 257])
def test_keys_of_every_length_are_hashed_alike(length: int) -> None:
    data, hash_key = read_only(bytes(number * 7 & 0xFF for number in range(300))), bytes(range(16))
    where = numbers(3), numbers(length)
    assert (
        compiled.hash_keys(data, *where, hash_key).tolist()
        == plain.hash_keys(data, *where, hash_key).tolist()
    )


@pytest.mark.parametrize("field", range(9))
@pytest.mark.parametrize("value", [-2, -1, 0, 1, 2, 5, 6, 1_000, 2**40])
def test_a_frame_that_is_impossible_is_refused_alike(field: int, value: int) -> None:
    """One of the frame's eight-byte fields is another number."""
    frame = bytearray(block_of([[Record(key=b"a", value=b"b")] * 3]))
    frame[8 * field : 8 * field + 8] = value.to_bytes(8, "little", signed=True)
    data = read_only(bytes(frame))
    rows = np.empty((2, BATCH_COLUMNS), dtype=np.int64)
    count = machine_code.scan_batches(data, 5, rows)
    try:
        expected = plain.scan_batches(data, 5)
    except SiltstoneError as refusal:
        assert count == -1
        with pytest.raises(type(refusal)):
            compiled.scan_batches(data, 5)
    else:
        assert rows[:count].tolist() == expected.tolist()


# -- headers of records --------------------------------------------------------------------------------------


def headers_of(body: bytes, count: int) -> tuple[Bytes, Integers, Integers]:
    """The data, and where the headers of each record begin and end in it."""
    data = read_only(b"before" + body + b"after")
    columns = plain.decode_records(data, numbers(6), numbers(6 + len(body)), numbers(count))
    starts = columns[VALUE_AT] + np.maximum(columns[VALUE_BYTES], 0)
    return data, np.ascontiguousarray(starts), np.ascontiguousarray(columns[RECORD_END])


@given(records)
def test_headers_are_found_where_they_are(found: list[Record]) -> None:
    data, *where = headers_of(bytes(build_batch(found)[61:]), len(found))
    expected = [header for record in found for header in record.headers]
    for kernels in (plain, compiled):
        counts = kernels.count_headers(data, *where)
        assert counts.tolist() == [len(record.headers) for record in found]
        columns = kernels.decode_headers(data, *where, counts)
        assert columns.flags.c_contiguous and columns.shape == (HEADER_COLUMNS, len(expected))
        for (name, content), (name_at, name_bytes, content_at, content_bytes) in zip(
            expected, columns.T.tolist(), strict=True
        ):
            assert bytes(data[name_at : name_at + name_bytes]) == name.encode()
            assert content_bytes == (-1 if content is None else len(content))
            assert bytes(data[content_at : content_at + max(content_bytes, 0)]) == (content or b"")


HEADERS = Record(
    key=b"k", value=b"v", headers=(("name", b"content"), ("", None), ("longer than a byte", bytes(100)))
)


def refused_or_counted(kernels: Any, data: Bytes, starts: Integers, ends: Integers) -> list[int] | None:
    try:
        return kernels.count_headers(data, starts, ends).tolist()
    except MalformedRecords:
        return None


def test_headers_with_any_byte_changed_are_counted_alike_or_refused_alike() -> None:
    body = bytes(build_batch([HEADERS])[61:])
    data, starts, ends = headers_of(body, 1)
    refused = 0
    for position in range(int(starts[0]), int(ends[0])):
        near = (int(data[position]) + 2 & 0xFF, int(data[position]) - 2 & 0xFF)
        for byte in (0, 1, 2, 3, 0x7F, 0x80, 0xFF, *near):
            changed = bytearray(data)
            changed[position] = byte
            where = read_only(changed), starts, ends
            outcome = refused_or_counted(plain, *where)
            counts = numbers(0)
            assert machine_code.count_headers(*where, counts) == (outcome is not None), (position, byte)
            assert outcome is None or counts.tolist() == outcome == [data[starts[0]] // 2]
            refused += outcome is None
    assert refused > 50
    for cut in range(1, int(ends[0] - starts[0]) + 1):
        counts = numbers(0)
        assert not machine_code.count_headers(data, starts, ends - cut, counts), cut
        assert refused_or_counted(plain, data, starts, ends - cut) is None, cut
    assert not machine_code.count_headers(data, starts, ends + 1, counts), "a byte too many"
    assert refused_or_counted(plain, data, starts, ends + 1) is None


def test_what_is_right_is_read_by_the_machine_code_and_never_again_in_python(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It would still be right, and take a hundred times as long."""
    given_records = [HEADERS, Record(), Record(timestamp_ms=-(2**63), key=b"", value=bytes(20_000)), HEADERS]
    block, body = block_of([given_records, [HEADERS]]), bytes(build_batch(given_records)[61:])
    data, starts, ends = headers_of(body, len(given_records))
    whole = numbers(6), numbers(6 + len(body)), numbers(len(given_records))
    expected = (
        plain.scan_batches(read_only(block), 5).tolist(),
        plain.decode_records(data, *whole).tolist(),
        plain.count_headers(data, starts, ends).tolist(),
    )

    def never(*_: object) -> None:
        raise AssertionError("the plain kernel was called")

    for name in ("scan_batches", "decode_records", "count_headers", "decode_headers", "hash_keys", "gather"):
        monkeypatch.setattr(plain, name, never)
    assert expected == (
        compiled.scan_batches(read_only(block), 5).tolist(),
        compiled.decode_records(data, *whole).tolist(),
        compiled.count_headers(data, starts, ends).tolist(),
    )


@pytest.mark.parametrize("field", ["length", "time", "offset", "key", "value"])
@pytest.mark.parametrize("size", [1, 2, 3, 4, 5])
def test_numbers_of_every_length_at_the_very_end_of_the_data(field: str, size: int) -> None:
    """A number of one or two bytes is read in another way than a longer one, and the last bytes in another than those
    before; no number may be read from behind the record's end."""
    body = bytes(build_batch([Record(timestamp_ms=0, key=b"", value=b"")])[61:])
    assert len(body) == 7
    at = ["length", "attributes", "time", "offset", "key", "value"].index(field)
    for left in range(size + 1):
        raw = body[:at] + (b"\x80" * (size - 1) + b"\x00")[:left]
        data = read_only(raw)
        where = numbers(0), numbers(len(raw)), numbers(1)
        columns = np.empty((RECORD_COLUMNS, 1), dtype=np.int64)
        assert not machine_code.decode_records(data, *where, columns), raw.hex()
        with pytest.raises(MalformedRecords):
            plain.decode_records(data, *where)


def test_a_batch_that_key_compaction_has_emptied_is_nothing_but_its_header() -> None:
    emptied = bytearray(build_batch([Record(key=b"k")])[:61])
    emptied[8:12] = (61 - 12).to_bytes(4, "big")
    emptied[57:61] = bytes(4)
    frame = bytearray(encode_frame_header(RecordBatch(5, 1, 0, 1, 1, -1, -1, bytes(emptied))))
    frame[40:48] = bytes(8)
    data = read_only(bytes(frame + emptied) * 2)
    rows = np.empty((3, BATCH_COLUMNS), dtype=np.int64)
    assert machine_code.scan_batches(data, 5, rows) == 2
    assert rows[:2].tolist() == plain.scan_batches(data, 5).tolist()
    assert rows[:2, 4].tolist() == [0, 0] and rows[:2, 0].tolist() == [0, 133]
    for cut in (1, 61, 62, 132):
        assert machine_code.scan_batches(data[: len(data) - cut], 5, rows) == -1
