"""The schema id of a header is put before the value of its record, and no other value is changed."""

from typing import Any

import pyarrow as pa
import pytest

from siltstone.record_columns.arrow import arrow_schema
from siltstone.value_formats.headers import KEY_SCHEMA, VALUE_SCHEMA, framed
from siltstone.value_formats.value_format import FormatKind

GUID = b"\1" + bytes(range(16))
ID = b"\0\0\0\0\7"
Headers = list[tuple[str, bytes | None]] | None


def found(values: list[bytes | None], headers: list[Headers], kind: FormatKind = FormatKind.AVRO) -> Any:
    """Given and cut out of longer columns: the result is the same."""
    columns = []
    for more in (0, 2):
        rows = [None if each is None else [{"key": k, "value": v} for k, v in each] for each in headers]
        around: list[Any] = [[{"key": VALUE_SCHEMA, "value": b"around"}]] * more
        column = pa.array(around + rows + around, arrow_schema(["headers"]).field(0).type)
        given = pa.array([b"x"] * more + values + [b"y"] * more, pa.binary())
        count = len(values)
        columns.append(
            framed(given.slice(more, count), column.slice(more, count), VALUE_SCHEMA, kind).to_pylist()
        )
    assert columns[0] == columns[1]
    return columns[0]


def test_a_header_goes_before_its_own_value_alone() -> None:
    values: list[bytes | None] = [b"a", b"b", None, b"", ID + b"c", b"d"]
    headers: list[Headers] = [
        None,
        [("other", b"x"), (VALUE_SCHEMA, GUID)],
        [(VALUE_SCHEMA, GUID)],
        [(VALUE_SCHEMA, ID)],
        [],
        [(KEY_SCHEMA, GUID)],
    ]
    assert found(values, headers) == [b"a", GUID + b"b", None, ID, ID + b"c", b"d"]


def test_a_header_wins_over_the_value_and_the_last_over_the_others() -> None:
    headers: list[Headers] = [[(VALUE_SCHEMA, ID), ("x", None), (VALUE_SCHEMA, GUID)]]
    assert found([ID + b"a"], headers) == [GUID + ID + b"a"]


@pytest.mark.parametrize(
    "header", [None, b"", b"\0", ID[:4], ID + b"\0", GUID[:16], GUID + b"\0", b"\2" + bytes(16), b"7"]
)
def test_a_malformed_header_names_no_schema_and_takes_no_byte_of_the_value(header: bytes | None) -> None:
    values: list[bytes | None] = [ID + b"payload", None, b"z"]
    assert found(values, [[(VALUE_SCHEMA, header)], [(VALUE_SCHEMA, header)], None]) == [b"", None, b"z"]


@pytest.mark.parametrize(
    ("path", "is_good"), [(b"\0", True), (b"\2\4", True), (b"", False), (b"\0\0", False)]
)
def test_a_header_of_protobuf_ends_with_the_path_to_the_message(path: bytes, is_good: bool) -> None:
    for start in (ID, GUID):
        assert found([b"p"], [[(VALUE_SCHEMA, start + path)]], FormatKind.PROTOBUF) == [
            start + path + b"p" if is_good else b""
        ]


def test_columns_without_such_headers_are_not_copied() -> None:
    values = pa.array([b"a", None], pa.binary())
    kind = arrow_schema(["headers"]).field(0).type
    for rows in ([None, None], [[{"key": "x", "value": b"y"}], None]):
        assert framed(values, pa.array(rows, kind), VALUE_SCHEMA, FormatKind.AVRO) is values
