"""The primitive types, at their borders."""

import pytest

from siltstone.broker.groups.offsets_log import fields
from siltstone.broker.groups.offsets_log.fields import (
    STRING_BYTES_MAX,
    DamagedGroupRecord,
    FieldReader,
    TextTooLong,
)


def test_what_is_written_is_read_in_its_order() -> None:
    data = (
        fields.int16(-2) + fields.int32(3) + fields.int64(-(2**40)) + fields.string("é")
        + fields.nullable_string(None) + fields.nullable_string("") + fields.sized_bytes(b"ab")
    )  # fmt: skip
    assert data.hex() == "fffe00000003ffffff00000000000002c3a9ffff0000000000026162"
    reader = FieldReader(data)
    assert (reader.int16(), reader.int32(), reader.int64()) == (-2, 3, -(2**40))
    assert (reader.string(), reader.nullable_string(), reader.nullable_string()) == ("é", None, "")
    assert reader.sized_bytes() == b"ab"
    reader.end()


@pytest.mark.parametrize("data", [b"\0", b"\0\0\0", b"\0" * 7])
def test_a_record_that_ends_inside_a_number_is_damaged(data: bytes) -> None:
    for method in (FieldReader.int16, FieldReader.int32, FieldReader.int64):
        if len(data) < {"int16": 2, "int32": 4, "int64": 8}[method.__name__]:
            with pytest.raises(
                DamagedGroupRecord, match=f"the record ends at byte {len(data)}, inside a field"
            ):
                method(FieldReader(data))


@pytest.mark.parametrize("length", [-2, -1, 3])
def test_bytes_of_another_length_than_there_are(length: int) -> None:
    with pytest.raises(DamagedGroupRecord, match=f"a field claims {length} bytes in a record of 6 bytes"):
        FieldReader(fields.int32(length) + b"ab").sized_bytes()


@pytest.mark.parametrize("length", [-2, 3])
def test_a_string_of_another_length_than_there_is(length: int) -> None:
    with pytest.raises(DamagedGroupRecord, match=f"a field claims {length} bytes in a record of 4 bytes"):
        FieldReader(fields.int16(length) + b"ab").nullable_string()


def test_null_is_damage_where_it_may_not_be() -> None:
    with pytest.raises(DamagedGroupRecord, match="null in a field that may not be null"):
        FieldReader(fields.nullable_string(None)).string()


def test_a_string_is_utf_8() -> None:
    with pytest.raises(DamagedGroupRecord, match="a string is not UTF-8"):
        FieldReader(fields.int16(1) + b"\xff").string()


@pytest.mark.parametrize(
    ("count", "item_bytes", "fits"), [(0, 9, True), (2, 4, True), (3, 3, False), (-1, 1, False)]
)
def test_an_array_claims_no_more_items_than_there_is_room_for(
    count: int, item_bytes: int, fits: bool
) -> None:
    reader = FieldReader(fields.int32(count) + bytes(8))
    if fits:
        assert reader.count(item_bytes) == count
    else:
        with pytest.raises(
            DamagedGroupRecord, match=f"an array claims {count} items in a record of 12 bytes"
        ):
            reader.count(item_bytes)


def test_nothing_follows_the_last_field() -> None:
    reader = FieldReader(fields.int16(1) + b"abc")
    reader.int16()
    with pytest.raises(DamagedGroupRecord, match="3 bytes follow the last field"):
        reader.end()


def test_the_longest_string() -> None:
    assert FieldReader(fields.string("x" * STRING_BYTES_MAX)).string() == "x" * STRING_BYTES_MAX
    with pytest.raises(TextTooLong, match="a text has 32768 bytes; send at most 32767"):
        fields.string("x" * (STRING_BYTES_MAX + 1))
