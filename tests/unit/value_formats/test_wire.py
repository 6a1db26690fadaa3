"""The prefix of Confluent's wire format, read for a whole column at once."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from siltstone.value_formats.wire import NOT_FRAMED, PathMalformed, message_path, nulls_of, schema_ids


def id_of(value: bytes | None) -> int:
    """The slow reading of the rule."""
    framed = value is not None and len(value) >= 5 and value[0] == 0
    return int.from_bytes(value[1:5], "big") if framed and value is not None else NOT_FRAMED


@given(
    st.lists(st.none() | st.binary(max_size=12) | st.binary(max_size=8).map(lambda data: b"\0" + data)),
    st.integers(0, 3),
)
def test_ids_of_a_column_are_those_of_each_value(values: list[bytes | None], left_out: int) -> None:
    column = pa.array(values, pa.binary()).slice(left_out)
    assert schema_ids(column).tolist() == [id_of(value) for value in values[left_out:]]
    assert nulls_of(column).tolist() == [value is None for value in values[left_out:]]


def test_bytes_below_a_null_are_not_looked_at() -> None:
    offsets, data = pa.array([0, 6, 12], pa.int32()).buffers()[1], pa.py_buffer(b"\0\0\0\0\7x" * 2)
    values = pa.Array.from_buffers(pa.binary(), 2, [pa.py_buffer(b"\2"), offsets, data], 1)
    assert values.to_pylist() == [None, b"\0\0\0\0\7x"]
    assert schema_ids(values).tolist() == [NOT_FRAMED, 7]


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
    prefix = b"\0\0\0\0\1"
    indexes, position = message_path(prefix + path + b"payload")
    assert (indexes, position - len(prefix)) == found


@pytest.mark.parametrize("path", [b"", b"\x80", b"\x02", b"\x01", b"\xff" * 12, b"\x82\x02" + b"\0" * 200])
def test_a_damaged_path_is_an_error(path: bytes) -> None:
    with pytest.raises(PathMalformed):
        message_path(b"\0\0\0\0\1" + path)
