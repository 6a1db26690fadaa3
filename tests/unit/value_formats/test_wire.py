"""The prefix of Confluent's wire format, read for a whole column at once."""

from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from siltstone.value_formats.wire import (
    NOT_FRAMED,
    PathMalformed,
    SchemaName,
    in_order,
    message_path,
    nulls_of,
    payloads,
    schema_codes,
)


def name_of(value: bytes | None) -> SchemaName:
    """The slow reading of the rule."""
    if value is None or len(value) < 5:
        return NOT_FRAMED
    if value[0] == 0:
        return int.from_bytes(value[1:5], "big")
    return str(UUID(bytes=value[1:17])) if value[0] == 1 and len(value) >= 17 else NOT_FRAMED


def names_of(column: Any) -> list[SchemaName]:
    codes, names = schema_codes(column)
    assert set(names) == set(codes.tolist()) - {NOT_FRAMED}
    assert [names[each] for each in names if each >= 0] == [each for each in names if each >= 0]
    return [names.get(code, NOT_FRAMED) for code in codes.tolist()]


GUIDS = st.sampled_from([b"\7" * 16, b"\7" * 15 + b"\0", bytes(range(16))])


@given(
    st.lists(
        st.none()
        | st.binary(max_size=20)
        | st.binary(max_size=8).map(lambda data: b"\0" + data)
        | st.tuples(GUIDS, st.binary(max_size=2)).map(lambda each: b"\1" + each[0] + each[1])
    ),
    st.integers(0, 3),
)
def test_names_of_a_column_are_those_of_each_value(values: list[bytes | None], left_out: int) -> None:
    column = pa.array(values, pa.binary()).slice(left_out)
    assert names_of(column) == [name_of(value) for value in values[left_out:]]
    assert nulls_of(column).tolist() == [value is None for value in values[left_out:]]


def test_bytes_below_a_null_are_not_looked_at() -> None:
    offsets, data = pa.array([0, 6, 12], pa.int32()).buffers()[1], pa.py_buffer(b"\0\0\0\0\7x" * 2)
    values = pa.Array.from_buffers(pa.binary(), 2, [pa.py_buffer(b"\2"), offsets, data], 1)
    assert values.to_pylist() == [None, b"\0\0\0\0\7x"]
    assert names_of(values) == [NOT_FRAMED, 7]


def test_json_is_what_follows_the_name_of_its_schema() -> None:
    plain = pa.array([b"{}", None, b""], pa.binary())
    assert payloads(plain) is plain
    named = pa.array([b"\0\0\0\0\7{}", None, b"[]", b"\1" + bytes(16) + b"3"], pa.binary())
    assert payloads(named).to_pylist() == [b"{}", None, b"[]", b"3"]


def test_ids_come_before_guids() -> None:
    assert in_order(["b", 10, "a", 9, 10]) == [9, 10, "a", "b"]


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (b"\0", ((0,), 1)),
        (b"\x02\x00", ((0,), 2)),
        (b"\x04\x02\x00", ((1, 0), 3)),
        (b"\x02\x80\x02", ((128,), 3)),
    ],
)
def test_the_path_to_a_message(path: bytes, found: tuple[tuple[int, ...], int]) -> None:
    for prefix in (b"\0\0\0\0\1", b"\1" + bytes(16)):
        indexes, position = message_path(prefix + path + b"payload")
        assert (indexes, position - len(prefix)) == found


@pytest.mark.parametrize("path", [b"", b"\x80", b"\x02", b"\x01", b"\xff" * 12, b"\x82\x02" + b"\0" * 200])
def test_a_damaged_path_is_an_error(path: bytes) -> None:
    with pytest.raises(PathMalformed):
        message_path(b"\0\0\0\0\1" + path)
