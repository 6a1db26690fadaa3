import numpy as np
import pytest

from siltstone.kafka_protocol.batch_errors import (
    BatchLengthWrong,
    MalformedRecords,
    RecordCountWrong,
    UnsupportedMagic,
)
from siltstone.kafka_protocol.records.building import build_batch
from siltstone.model.record_batch import RecordBatch
from siltstone.object_formats.batch_frame import DamagedFrame, encode_frame_header
from siltstone.record_columns.kernels import compiled, machine_code, plain
from siltstone.record_columns.kernels.columns import Integers, read_only
from support.kafka.kafka_batches import RECORDS, with_header

KEY = bytes(range(16))


def test_siphash_is_that_of_its_authors() -> None:
    """The first of their vectors for 128 bits: the key 00 … 0f, the inputs nothing and 00."""
    halves = [np.array(plain.siphash(data, KEY), dtype="<u8").tobytes().hex() for data in (b"", b"\0")]
    assert halves == ["a3817f04ba25a8e66df67214c7550293", "da87c1d86b99af44347659119b22fc45"]


def test_another_key_gives_another_hash() -> None:
    assert plain.siphash(b"key", KEY) != plain.siphash(b"key", bytes(16))


@pytest.mark.parametrize(
    ("error", "stream_id", "changes"),
    [
        (BatchLengthWrong, 5, {"base_offset": 8}),
        (BatchLengthWrong, 5, {"last_offset_delta": 3}),
        (DamagedFrame, 6, {}),
        (RecordCountWrong, 5, {"record_count": 2}),
        (UnsupportedMagic, 5, {"magic": 1}),
    ],
    ids=["base offset", "last offset", "another stream", "record count", "magic"],
)
def test_a_batch_that_is_not_what_its_frame_says(
    error: type[Exception], stream_id: int, changes: dict[str, int]
) -> None:
    batch = with_header(build_batch(RECORDS), **changes)
    block = encode_frame_header(RecordBatch(5, 1, 0, 3, 3, -1, -1, batch)) + batch
    with pytest.raises(error):
        plain.scan_batches(read_only(block), stream_id)


def numbers(*values: int) -> Integers:
    return np.array(values, dtype=np.int64)


@pytest.mark.parametrize("length", [*range(26), 255, 256, 257])
def test_keys_of_every_length_are_hashed_as_the_machine_code_does(length: int) -> None:
    data = read_only(bytes(number * 7 & 0xFF for number in range(300)))
    where = numbers(3), numbers(length)
    assert plain.hash_keys(data, *where, KEY).tolist() == compiled.hash_keys(data, *where, KEY).tolist()


def test_keys_that_hash_alike_fill_the_map_to_its_last_free_slot() -> None:
    """All begin at slot 3: they continue to the end, and then from the beginning."""
    slots = np.zeros((5, 3), dtype=np.uint64)
    high = 3 * (1 << 64) // 5 + (1 << 33)
    hashes = np.array([(high, low) for low in range(6)], dtype=np.uint64)
    all_wanted = np.ones(6, dtype=np.bool_)
    offsets = numbers(10, 11, 12, 13, 14, 15)
    assert plain.put_newest(slots, 4, hashes, offsets, all_wanted) == (4, 0)
    assert slots[:, 2].tolist() == [13, 14, 0, 11, 12]
    slots[:] = 0
    assert plain.put_newest(slots, 3, hashes[[0, 1, 0, 2]], offsets[[3, 1, 0, 2]], all_wanted[:4]) == (4, 0)
    assert plain.newest(slots, hashes, all_wanted).tolist() == [13, 11, 12, -1, -1, -1]
    assert plain.newest(slots, hashes, offsets == 11).tolist() == [-1, 11, -1, -1, -1, -1]


def test_records_are_found_and_copied_with_other_times() -> None:
    body = bytes(build_batch(RECORDS)[61:])
    data = read_only(b"ab" + body + b"c")
    where = numbers(2), numbers(2 + len(body)), numbers(len(RECORDS))
    columns = plain.decode_records(data, *where)
    expected = np.empty_like(columns)
    assert machine_code.decode_records(data, *where, expected)
    assert columns.tolist() == expected.tolist()
    starts, ends = columns[1], columns[2]
    assert plain.gather(data, starts, ends).tobytes() == body
    assert plain.gather(data, starts[:0], ends[:0]).tobytes() == b""
    deltas = numbers(*range(5, 5 + len(RECORDS)))
    offset_deltas = numbers(*range(len(RECORDS)))
    shifted, lengths = plain.gather_shifted(data, starts, ends, deltas, offset_deltas)
    again = plain.decode_records(
        read_only(shifted.tobytes()), numbers(0), numbers(int(lengths.sum())), numbers(len(RECORDS))
    )
    assert again[4].tolist() == deltas.tolist()
    assert again[3].tolist() == offset_deltas.tolist()
    assert again[[0, 6, 7]].tolist() == columns[[0, 6, 7]].tolist()
    assert (again[2] - again[1]).tolist() == lengths.tolist()


@pytest.mark.parametrize("wrong", ["count", "end", "length"])
def test_records_that_are_not_as_many_or_as_long_as_said_are_refused(wrong: str) -> None:
    body = bytearray(build_batch(RECORDS)[61:])
    count, end = len(RECORDS), len(body)
    if wrong == "count":
        count += 1
    elif wrong == "end":
        end -= 1
    else:
        body[0] += 2
    with pytest.raises(MalformedRecords):
        plain.decode_records(read_only(bytes(body)), numbers(0), numbers(end), numbers(count))
