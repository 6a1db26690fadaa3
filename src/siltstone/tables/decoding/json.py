"""JSON values [RFC 8259]: as text that is known to be JSON, or as columns of chosen fields.

msgspec reads each record by itself. A reader of whole blocks would be faster, but one line break inside a value shifts
all rows that follow, and readers differ in what they accept: NaN, numbers beyond 64 bits, a field name that occurs
twice. A value that msgspec accepts becomes a row. Every other value is bad: one that is not an object, has a field of
another type, a number that does not fit its column, or a timestamp without a time zone. A field that is missing is
null; a field that is not wanted is ignored. The same holds inside of structs, arrays and maps, at any depth. The name
of a schema before the JSON text is skipped, as scans skip it.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import date, datetime
from operator import attrgetter
from typing import Annotated, Any, Optional

import msgspec
import pyarrow as pa
from msgspec.structs import astuple

from siltstone.record_columns.row_columns import VALUE
from siltstone.tables.decoding.port import DecodedColumns, each_decoded, text_of
from siltstone.tables.layout import field_type
from siltstone.topic_configs.column_types import ARRAY, MAP, STRUCT, ColumnType
from siltstone.topic_configs.table_export import TableColumn
from siltstone.value_formats.columns import Getter, Path, column_of
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
        self._struct = _row_type((each.name, each.type) for each in self._columns)
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
        of = column.type
        if (texts := _text_reader(of)) is not None:
            values = [texts(each) for each in values]
        if not of.parts:
            return pa.array(values, field_type(of))
        getters = dict(_getters(of))
        return column_of(values, field_type(of), lambda path, _: getters[path])


_MISSING = msgspec.Raw(b"")
_NULLS = (b"", b"null")


def _row_type(fields: Iterable[tuple[str, ColumnType]]) -> Any:
    """Returns the type of an object with these fields, which have numbers as names, because a field may have any."""
    named = dict(fields)
    described = [(f"field_{at}", *_field(of)) for at, of in enumerate(named.values())]
    names = {f"field_{at}": name for at, name in enumerate(named)}
    return msgspec.defstruct("JsonFields", described, rename=names, gc=False)


def _field(of: ColumnType) -> tuple[Any, Any]:
    """Returns the type and the default of a field, which may be missing or null. Raw JSON is not declared nullable,
    because msgspec would then accept nothing but null for it."""
    return (msgspec.Raw, _MISSING) if of.kind == "json" else (_value_type(of), None)


def _value_type(of: ColumnType) -> Any:
    """Returns the type as which msgspec decodes a value of an array or a map, which may be null."""
    if of.kind == "json":
        return msgspec.Raw
    if of.kind == STRUCT:
        found = _row_type(of.parts)
    elif of.kind == ARRAY:
        found = list[_value_type(of.item)]  # type: ignore[misc]
    elif of.kind == MAP:
        found = dict[str, _value_type(of.item)]  # type: ignore[misc]
    else:
        found = _TYPES[of.kind]
    return Optional[found]  # noqa: UP045


# -- values inside of nested ones ------------------------------------------------------------------------------


def _getters(of: ColumnType, path: Path = ()) -> Iterator[tuple[Path, Getter]]:
    """Yields how the fields of all structs in a type are read, by their paths."""
    for number, (name, part) in enumerate(of.parts):
        inside = (*path, number) if name else path
        if name:
            yield inside, _getter(number, part)
        yield from _getters(part, inside)


def _getter(number: int, of: ColumnType) -> Getter:
    read, texts = attrgetter(f"field_{number}"), _text_reader(of)
    return read if texts is None else lambda row: texts(read(row))


def _text_reader(of: ColumnType) -> Callable[[Any], Any] | None:
    """Returns the function that makes texts of the JSON in a value; None if the type has no JSON outside of structs,
    whose fields are read one by one."""
    if of.kind == "json":
        return _text
    inner = _text_reader(of.item) if of.kind in (ARRAY, MAP) else None
    if inner is None:
        return None
    if of.kind == ARRAY:
        return lambda value: None if value is None else [inner(each) for each in value]
    return lambda value: None if value is None else {name: inner(each) for name, each in value.items()}


def _text(raw: Any) -> str | None:
    return None if raw is None or bytes(raw) in _NULLS else bytes(raw).decode()
