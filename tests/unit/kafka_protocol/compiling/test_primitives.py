"""Varints and tagged fields, byte by byte."""

import pytest

from siltstone.kafka_protocol.compiling.primitives import (
    TAGGED_FIELDS_MAX,
    check_uuid,
    out_of_bounds,
    rest_of_varint,
    skip_tagged,
    tagged_at,
    varint,
    varint_at,
)

VARINTS = {
    0: b"\x00",
    1: b"\x01",
    127: b"\x7f",
    128: b"\x80\x01",
    300: b"\xac\x02",
    16_383: b"\xff\x7f",
    16_384: b"\x80\x80\x01",
    (1 << 31) - 1: b"\xff\xff\xff\xff\x07",
    (1 << 32) - 1: b"\xff\xff\xff\xff\x0f",
}
EACH = pytest.mark.parametrize(("value", "written"), VARINTS.items())


@EACH
def test_varints_both_ways(value: int, written: bytes) -> None:
    assert varint(value) == written
    assert varint_at(b"xx" + written + b"yy", 2) == (value, 2 + len(written))


@EACH
def test_varints_cut_off(value: int, written: bytes) -> None:
    for size in range(len(written)):
        with pytest.raises(IndexError):
            varint_at(written[:size], 0)


def test_the_rest_of_a_varint() -> None:
    assert rest_of_varint(b"\xac\x02", 1, 0xAC) == (300, 2)


def test_a_varint_of_more_than_five_bytes() -> None:
    assert varint_at(b"\x80\x80\x80\x80\x00", 0) == (0, 5)
    with pytest.raises(ValueError, match="longer than 5 bytes"):
        varint_at(b"\x80\x80\x80\x80\x80\x00", 0)


def test_a_tagged_field() -> None:
    assert tagged_at(b"x\x05\x03abc", 1) == (5, 3, 6)
    assert tagged_at(b"x\x05\x00", 1) == (5, 3, 3)
    with pytest.raises(ValueError, match="tagged field 5 has length 3"):
        tagged_at(b"x\x05\x03ab", 1)


def test_tagged_fields_are_skipped_by_their_sizes() -> None:
    fields = b"\x00\x02ab" + b"\x63\x00" + b"\xac\x02\x01c"
    assert skip_tagged(fields + b"rest", 0, 3) == len(fields)
    assert skip_tagged(fields, 0, 0) == 0
    with pytest.raises(IndexError):
        skip_tagged(fields, 0, 4)


def test_no_more_tagged_fields_are_skipped_than_there_may_be_at_one_place() -> None:
    fields = b"\x63\x00" * (TAGGED_FIELDS_MAX + 1)
    assert skip_tagged(fields, 0, TAGGED_FIELDS_MAX) == 2 * TAGGED_FIELDS_MAX
    with pytest.raises(ValueError, match="1001 tagged fields at one place, more than 1000"):
        skip_tagged(fields, 0, TAGGED_FIELDS_MAX + 1)


def test_uuids_have_sixteen_bytes() -> None:
    assert check_uuid(bytes(16)) == bytes(16)
    for size in (0, 15, 17):
        with pytest.raises(ValueError, match=f"not {size}"):
            check_uuid(bytes(size))


def test_what_is_out_of_bounds() -> None:
    assert str(out_of_bounds("name", -1, 7)) == "name is null at byte 7, but is not nullable"
    assert str(out_of_bounds("name", 9, 7)) == "name has length 9, more than the bytes that remain at byte 7"
