"""JSON values [RFC 8259]: as text that is known to be JSON, or as columns of chosen fields.

msgspec reads each record by itself. A reader of whole blocks would be faster, but one line break inside a value shifts
all rows that follow, and readers differ in what they accept: NaN, numbers beyond 64 bits, a field name that occurs
twice. A value that msgspec accepts becomes a row. Every other value is bad: one that is not an object, has a field of
another type, a number that does not fit its column, or a timestamp without a time zone. A field that is missing is
null; a field that is not wanted is ignored. The name of a schema before the JSON text is skipped, as scans skip it.
"""

from collections.abc import Sequence
from datetime import date, datetime
from typing import Annotated, Any, Optional

import msgspec
import pyarrow as pa
from msgspec.structs import astuple

from siltstone.record_columns.row_columns import VALUE
from siltstone.tables.decoding.port import DecodedColumns, each_decoded, text_of
from siltstone.tables.layout import field_type
from siltstone.topic_configs.table_export import TableColumn
from siltstone.value_formats.wire import payloads

_BAD = (msgspec.DecodeError, UnicodeDecodeError, RecursionError, OverflowError)
_INT = 2**31
_LONG = 2**63

_TYPES: dict[str, Any] = {
    "boolean": bool,
    "int": Annotated[int, msgspec.Meta(ge=-_INT, le=_INT - 1)],
    "long": Annotated[int, msgspec.Meta(ge=-_LONG, le=_LONG - 1)],
    "double": float,
    "string": str,
    "date": date,
    "timestamp": Annotated[datetime, msgspec.Meta(tz=True)],
}


class JsonTextDecoder:
    """Values as text, each of which is a JSON value. ``column`` is the name of the column."""

    def __init__(self, column: str = VALUE) -> None:
        self._column = column

    def decode(self, values: Any) -> DecodedColumns:
        values = payloads(values)
        texts, bad = text_of(values)
        _, not_json = each_decoded(values, msgspec.json.decode, _BAD)
        return DecodedColumns({self._column: texts}, {**not_json, **bad})


class JsonFieldsDecoder:
    """The wanted fields of JSON objects as columns."""

    def __init__(self, columns: Sequence[TableColumn]) -> None:
        self._columns = tuple(columns)
        fields = [(f"field_{at}", *_field(each.kind)) for at, each in enumerate(self._columns)]
        names = {f"field_{at}": each.name for at, each in enumerate(self._columns)}
        self._struct = msgspec.defstruct("JsonFields", fields, rename=names, gc=False)
        self._decoder = msgspec.json.Decoder(self._struct)
        self._nothing = self._struct()

    def decode(self, values: Any) -> DecodedColumns:
        """msgspec skips unwanted fields, and nested JSON, without checking their text. So this method checks that the
        whole value is UTF-8."""
        values = payloads(values)
        _, not_text = text_of(values)
        objects, not_fitting = each_decoded(values, self._decoder.decode, _BAD)
        for row in not_text:
            objects[row] = None
        rows = [astuple(self._nothing if each is None else each) for each in objects]
        by_column = list(zip(*rows, strict=True)) if rows else [()] * len(self._columns)
        found = {
            column.name: self._array(column, list(fields))
            for column, fields in zip(self._columns, by_column, strict=True)
        }
        return DecodedColumns(found, {**not_fitting, **not_text})

    def _array(self, column: TableColumn, values: list[Any]) -> Any:
        if column.kind == "json":
            values = [
                None if each is None or bytes(each) in _NULLS else bytes(each).decode() for each in values
            ]
        return pa.array(values, field_type(column.kind))


_MISSING = msgspec.Raw(b"")
_NULLS = (b"", b"null")


def _field(kind: str) -> tuple[Any, Any]:
    """Returns the type and the default of a field, which may be missing or null. Raw JSON is not declared nullable,
    because msgspec would then accept nothing but null for it."""
    return (msgspec.Raw, _MISSING) if kind == "json" else (Optional[_TYPES[kind]], None)  # noqa: UP045
