"""Decoded rows → an Arrow column, field by field.

A list of rows becomes one list for each field, recursively, and each list of plain values one Arrow array: several
times as fast as giving pyarrow a list of dicts. How a field of a row is read depends on the library that decoded the
row, so the caller passes a function for it.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from siltstone.record_columns.arrow import require_arrow
from siltstone.value_formats.decoding import BadValue, DecodedValues, reason_of
from siltstone.value_formats.failures import RowNotEncodable
from siltstone.value_formats.wire import NOT_FRAMED, SchemaName

Path = tuple[int, ...]
"""The numbers of the fields from the outermost struct to a field; lists and maps between them have no number."""

Getter = Callable[[Any], Any]
"""Reads one field of a row."""

GetterOf = Callable[[Path, Any], Getter]
"""(path to the field, the pyarrow.Field) → the function that reads the field."""

JSON_TEXT = {b"siltstone": b"json"}
"""Metadata of a field whose values are JSON in text, because their type differs from row to row, or refers to
itself."""


def column_of(rows: Sequence[Any], arrow_type: Any, getter_of: GetterOf, path: Path = ()) -> Any:
    """Returns the rows, None for null, as a pyarrow.Array of the type. Raises pyarrow.ArrowInvalid,
    pyarrow.ArrowTypeError and OverflowError for a value that does not fit."""
    arrow = require_arrow()
    types = arrow.types
    if types.is_struct(arrow_type):
        return _struct(rows, arrow_type, getter_of, path)
    if types.is_map(arrow_type):
        return _map(rows, arrow_type, getter_of, path)
    if types.is_list(arrow_type):
        inner = [each for row in rows if row is not None for each in row]
        values = column_of(inner, arrow_type.value_type, getter_of, path)
        return arrow.ListArray.from_arrays(_offsets(rows), values, type=arrow_type, mask=_mask(rows))
    return arrow.array(rows, arrow_type)


def decoded_column(
    rows: list[Any],
    arrow_type: Any,
    getter_of: GetterOf,
    bad: list[BadValue],
    name_of: Callable[[int], SchemaName] = lambda _: NOT_FRAMED,
) -> DecodedValues:
    """Returns the rows, None for null and for a value that is ``bad`` already, as a column. Whether Arrow's type can
    hold a value is found only here. A value that it cannot hold is bad, too, and its row becomes None; ``name_of``
    gives the schema of a row."""
    misfits: list[BadValue] = []

    def made(first: int, end: int) -> Any:
        try:
            return column_of(rows[first:end], arrow_type, getter_of)
        except MemoryError:
            raise
        except Exception as cause:  # of Arrow, of Protobuf's fields: one value never stops its column
            if end - first == 1:
                misfits.append(BadValue(first, reason_of(cause), name_of(first)))
                rows[first] = None
            else:
                middle = (first + end) // 2
                made(first, middle)
                made(middle, end)
        return None

    column = made(0, len(rows)) if rows else column_of(rows, arrow_type, getter_of)
    if column is None:
        column = column_of(rows, arrow_type, getter_of)
    return DecodedValues(column, tuple(sorted((*bad, *misfits), key=lambda each: each.row)))


def _struct(rows: Sequence[Any], arrow_type: Any, getter_of: GetterOf, path: Path) -> Any:
    arrow = require_arrow()
    fields = list(arrow_type)
    if not fields:  # Arrow takes the length of a struct from its first child
        return arrow.array([None if row is None else {} for row in rows], arrow_type)
    children = []
    mask = _mask(rows)
    for number, field in enumerate(fields):
        inside = (*path, number)
        read = getter_of(inside, field)
        values = (
            [None if row is None else read(row) for row in rows]
            if mask is not None
            else list(map(read, rows))
        )
        children.append(column_of(values, field.type, getter_of, inside))
    return arrow.StructArray.from_arrays(children, fields=fields, mask=mask)


def _map(rows: Sequence[Any], arrow_type: Any, getter_of: GetterOf, path: Path) -> Any:
    arrow = require_arrow()
    pairs = [pair for row in rows if row is not None for pair in row.items()]
    keys = arrow.array([key for key, _ in pairs], arrow_type.key_type)
    items = column_of([item for _, item in pairs], arrow_type.item_type, getter_of, path)
    return arrow.MapArray.from_arrays(_offsets(rows), keys, items, type=arrow_type, mask=_mask(rows))


def _offsets(rows: Sequence[Any]) -> Any:
    lengths = [0 if row is None else len(row) for row in rows]
    offsets = np.zeros(len(rows) + 1, dtype=np.int32)
    np.cumsum(np.array(lengths, dtype=np.int64), out=offsets[1:])
    return require_arrow().array(offsets)


def _mask(rows: Sequence[Any]) -> Any:
    """Returns which rows are null; None if none is."""
    are_null = [row is None for row in rows]
    return require_arrow().array(are_null) if True in are_null else None


def rows_of(column: Any) -> list[Any]:
    """Returns the rows of a pyarrow.Array as Python's values. Raises RowNotEncodable for a value that Python does not
    have, such as a time of the year 10000."""
    try:
        rows: list[Any] = column.to_pylist(maps_as_pydicts="strict")
    except (OverflowError, ValueError) as cause:
        raise RowNotEncodable(f"a value of the column cannot be written: {reason_of(cause)}") from cause
    return rows


def text_field(name: str) -> Any:
    """Returns a pyarrow.Field that holds JSON in text."""
    arrow = require_arrow()
    return arrow.field(name, arrow.string(), metadata=JSON_TEXT)


def is_json_text(field: Any) -> bool:
    """Returns whether the pyarrow.Field is one of ``text_field``."""
    return bool(field.metadata) and JSON_TEXT.items() <= field.metadata.items()
