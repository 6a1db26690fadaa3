"""What is read of a batch without decoding its records: their deltas, missing keys, how long it will take."""

import pytest

from siltstone.kafka_protocol.batch_errors import MalformedRecords, OffsetDeltaWrong
from siltstone.kafka_protocol.batch_header import Codec
from siltstone.kafka_protocol.records.building import build_batch
from siltstone.kafka_protocol.records.reading import (
    Record,
    open_batch,
    records_without_key,
    skim_deltas,
    takes_long_to_read,
    timestamp_of,
)
from siltstone.kafka_protocol.records.varint import append_varint
from siltstone.model.limits import RECORDS_READ_AT_ONCE_MAX
from support.kafka.kafka_batches import with_body, with_header

ONE = bytes([0, 0, 0])  # attributes, and deltas of nought
KEY, NO_KEY = bytes([2, ord("k"), 1, 0]), bytes([1, 1, 0])  # with neither value nor headers


def record(delta: int, rest: bytes) -> bytes:
    body = bytearray(ONE[:2])
    append_varint(body, delta)
    body += rest
    return bytes([2 * len(body)]) + body


def keyed(*keys: bytes | None, value: bytes = b"v") -> bytearray:
    return build_batch(
        [
            Record(offset=number, timestamp_ms=1_000 + number, key=key, value=value)
            for number, key in enumerate(keys)
        ]
    )


def null_keys_in(batch: bytearray, count_max: int = 3) -> list[int]:
    return records_without_key(*open_batch(batch), count_max)


def of_body(body: bytes, count: int = 1) -> bytearray:
    return with_body(keyed(b"k"), body, record_count=count, last_offset_delta=count - 1)


@pytest.mark.parametrize("size", [0, 50, 60, 70, 200, 8_000, 9_000])
def test_records_without_a_key(size: int) -> None:
    """Lengths of one, two and three bytes, around the limits between them."""
    value = b"v" * size
    assert null_keys_in(keyed(b"a", b"", b"c", value=value)) == []
    assert null_keys_in(keyed(None, b"b", value=value)) == [0]
    assert null_keys_in(keyed(b"a", b"b", None, None, value=value)) == [2, 3]
    assert null_keys_in(keyed(b"k" * size, None, value=value)) == [1]


def test_no_more_records_are_named_than_asked_for() -> None:
    assert null_keys_in(keyed(None, b"a", None, None, b"b", None), 3) == [0, 2, 3]
    assert null_keys_in(keyed(None, b"a"), 0) == []


@pytest.mark.parametrize("delta", [1, 0x7F, 0xFE, 2, 4])
def test_an_offset_delta_that_is_not_the_index_is_named(delta: int) -> None:
    body = bytes([10, 0, 0, delta, 1, 0]) if delta >= 0x80 else bytes([8, 0, 0, delta, 0])
    with pytest.raises(OffsetDeltaWrong, match="record 0 has offset delta"):
        null_keys_in(of_body(body))


@pytest.mark.parametrize("count", [65, 8_193])
def test_offset_deltas_of_two_and_three_bytes_are_read(count: int) -> None:
    """The delta 64 is the first of two bytes, 8,192 the first of three."""
    but_one = b"".join(record(delta, KEY) for delta in range(count - 1))
    assert null_keys_in(of_body(but_one + record(count - 1, KEY), count)) == []
    assert null_keys_in(of_body(but_one + record(count - 1, NO_KEY), count)) == [count - 1]


@pytest.mark.parametrize("delta", [63, 65, 64 + 64, 64 + 8_192])
def test_an_offset_delta_of_two_bytes_that_is_not_the_index_is_named(delta: int) -> None:
    """Either of its bytes may be wrong."""
    body = b"".join(record(each, KEY) for each in [*range(64), delta])
    with pytest.raises(OffsetDeltaWrong, match=f"record 64 has offset delta {delta};"):
        null_keys_in(of_body(body, 65))


def test_every_length_of_two_bytes_is_read() -> None:
    for size in range(50, 70):
        assert null_keys_in(keyed(b"a", b"b", None, value=b"v" * size)) == [2]


def test_deltas_of_several_bytes_stand_before_a_key() -> None:
    batch = build_batch(
        [
            Record(offset=0, timestamp_ms=1_000, key=b"a"),
            Record(offset=1, timestamp_ms=9_000_000, key=b"b"),
            Record(offset=2, timestamp_ms=10**12, key=None),
        ]
    )
    assert null_keys_in(batch) == [2]
    assert [*skim_deltas(*open_batch(batch))] == [(0, 0), (8_999_000, 1), (10**12 - 1_000, 2)]


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (bytes([6]) + ONE, "ends before its key|ends early"),
        (bytes([8]) + ONE + bytes([3]), "a key has length -2"),
        (bytes([6]) + ONE + bytes([8]) + ONE + bytes([0]), "record 0 ends before its key"),
        (bytes([8]) + ONE + bytes([0]) + b"xyz", "3 bytes follow"),
        (bytes([9]) + ONE + bytes([0]), "length -5"),
        (bytes([0x81, 0x01]) + bytes(80), "length -65"),
        (bytes([0x80, 0x80]), "ends early"),
    ],
)
def test_damage_is_named_when_keys_are_looked_for(body: bytes, told: str) -> None:
    with pytest.raises(MalformedRecords, match=told):
        null_keys_in(of_body(body))


def test_a_batch_that_ends_before_its_last_record_is_named() -> None:
    one, other = bytes([8, 0, 0, 0, 0]), bytes([8, 0, 0, 2, 0])
    assert null_keys_in(of_body(one + other, 2)) == []
    with pytest.raises(MalformedRecords, match="record 1 of 2 ends early"):
        null_keys_in(of_body(one, 2))
    with pytest.raises(MalformedRecords, match="record 1 of 2 ends early"):
        [*skim_deltas(*open_batch(of_body(one, 2)))]


def test_deltas_end_within_their_record() -> None:
    assert [*skim_deltas(*open_batch(of_body(bytes([6]) + ONE)))] == [(0, 0)]
    with pytest.raises(MalformedRecords, match="record 0 ends before its offset delta does"):
        [*skim_deltas(*open_batch(of_body(bytes([4]) + ONE)))]
    with pytest.raises(MalformedRecords, match="1 bytes follow"):
        [*skim_deltas(*open_batch(of_body(bytes([6]) + ONE + b"x")))]


def test_which_batches_take_long_to_read() -> None:
    short = keyed(b"a")
    assert not takes_long_to_read(short)
    assert not takes_long_to_read(with_header(short, record_count=RECORDS_READ_AT_ONCE_MAX))
    assert takes_long_to_read(with_header(short, record_count=RECORDS_READ_AT_ONCE_MAX + 1))
    assert takes_long_to_read(with_header(short, attributes=int(Codec.ZSTD)))
    assert not takes_long_to_read(with_header(short, attributes=int(Codec.ZSTD))[:60])
    assert takes_long_to_read(with_header(short, attributes=int(Codec.ZSTD))[:61])


def test_a_timestamp_that_leaves_64_bits_comes_round_as_in_java() -> None:
    header, _ = open_batch(with_header(keyed(b"a"), base_timestamp_ms=2**63 - 2))
    assert [timestamp_of(header, delta) for delta in (0, 1, 2)] == [2**63 - 2, 2**63 - 1, -(2**63)]
    header, _ = open_batch(with_header(keyed(b"a"), base_timestamp_ms=-(2**63)))
    assert [timestamp_of(header, delta) for delta in (0, -1)] == [-(2**63), 2**63 - 1]
