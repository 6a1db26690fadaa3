"""Types of columns as users write them ⇄ types of Arrow, and arrays put into them.

A list of columns, such as ``carrier string, at struct<lat: double>``, names plain types and nested ones
(``topic_configs.column_types``). Tables and scans make the same Arrow types of them here.
"""

from collections.abc import Callable, Iterator
from typing import Any

from siltstone.record_columns.arrow import require_arrow
from siltstone.record_columns.row_columns import VALUE
from siltstone.topic_configs.column_types import ARRAY, MAP, STRUCT, ColumnType
from siltstone.value_formats.columns import text_field

_WIDE = {"int": "long"}


_PLAIN: dict[str, Callable[[Any], Any]] = {
    "boolean": lambda arrow: arrow.bool_(),
    "int": lambda arrow: arrow.int32(),
    "long": lambda arrow: arrow.int64(),
    "double": lambda arrow: arrow.float64(),
    "string": lambda arrow: arrow.string(),
    "date": lambda arrow: arrow.date32(),
    "timestamp": lambda arrow: arrow.timestamp("us", tz="UTC"),
}
"""Arrow's plain types by name. JSON in text is text."""


def _plain(name: str) -> Any:
    return _PLAIN["string" if name == "json" else name](require_arrow())


def field_type(of: ColumnType, *, are_wide: bool = False) -> Any:
    """Returns the pyarrow.DataType of a column. ``are_wide``: it has long for int."""
    arrow = require_arrow()
    if of.kind == STRUCT:
        return arrow.struct([(name, field_type(part, are_wide=are_wide)) for name, part in of.parts])
    if of.kind == ARRAY:
        return arrow.list_(field_type(of.item, are_wide=are_wide))
    if of.kind == MAP:
        return arrow.map_(arrow.string(), field_type(of.item, are_wide=are_wide))
    return _plain(_WIDE.get(of.kind, of.kind) if are_wide else of.kind)


def column_field(name: str, of: ColumnType) -> Any:
    """Returns the field as which a value is decoded: JSON in text is marked, at any depth."""
    arrow = require_arrow()
    if of.kind == "json":
        return text_field(name)
    if of.kind == STRUCT:
        return arrow.field(name, arrow.struct([column_field(*part) for part in of.parts]))
    if of.kind == ARRAY:
        return arrow.field(name, arrow.list_(column_field("item", of.item)))
    if of.kind == MAP:
        return arrow.field(name, arrow.map_(arrow.string(), column_field("value", of.item)))
    return arrow.field(name, field_type(of))


def plain_type(kind: Any) -> Any:
    """Returns the type with Arrow's small texts and lists instead of large ones, a difference that files do not
    have."""
    arrow, types = require_arrow(), require_arrow().types
    if types.is_large_binary(kind):
        return arrow.binary()
    if types.is_large_string(kind):
        return arrow.string()
    if types.is_list(kind) or types.is_large_list(kind):
        return arrow.list_(plain_type(kind.value_type))
    if types.is_map(kind):
        return arrow.map_(plain_type(kind.key_type), plain_type(kind.item_type))
    if types.is_struct(kind):
        return arrow.struct([arrow.field(each.name, plain_type(each.type)) for each in kind])
    return kind


def type_of_field(kind: Any) -> ColumnType | None:
    """Returns the type of a column of a table as the configurations name it; None if it is none of theirs. A text may
    be ``json``, which the table does not say."""
    arrow, types = require_arrow(), require_arrow().types
    kind = plain_type(kind)
    if types.is_struct(kind):
        parts = [(each.name, type_of_field(each.type)) for each in kind]
        found = tuple((name, part) for name, part in parts if part is not None)
        return ColumnType(STRUCT, found) if found and len(found) == len(parts) else None
    if types.is_list(kind):
        item = type_of_field(kind.value_type)
        return None if item is None else ColumnType(ARRAY, (("", item),))
    if types.is_map(kind):
        item = type_of_field(kind.item_type) if kind.key_type == arrow.string() else None
        return None if item is None else ColumnType(MAP, (("", item),))
    return next((ColumnType(name) for name in _PLAIN if _plain(name) == kind), None)


# -- arrays ----------------------------------------------------------------------------------------------------


def column_arrays(array: Any) -> Iterator[tuple[str, Any]]:
    """Yields the columns of decoded values, by name."""
    if require_arrow().types.is_struct(array.type):
        yield from zip([each.name for each in array.type], array.flatten(), strict=True)
    else:
        yield VALUE, array


def fitted(array: Any, kind: Any) -> Any:
    """Converts an array, which is not a slice of another one, to a type that is wider or has more fields: fields that
    it lacks are null. Raises pyarrow.ArrowInvalid."""
    arrow, types = require_arrow(), require_arrow().types
    if array.type.equals(kind, check_metadata=True):
        return array
    if types.is_struct(kind):
        found = dict(zip([each.name for each in array.type], array.flatten(), strict=True))
        parts = [
            fitted(found[each.name], each.type) if each.name in found else arrow.nulls(len(array), each.type)
            for each in kind
        ]
        return arrow.StructArray.from_arrays(parts, fields=list(kind), mask=array.is_null())
    if types.is_list(kind) or types.is_large_list(kind):
        whole = arrow.ListArray if types.is_list(kind) else arrow.LargeListArray
        offsets = array.offsets if types.is_list(kind) else array.offsets.cast(arrow.int64())
        values = fitted(array.values, kind.value_type)
        return whole.from_arrays(offsets, values, type=kind, mask=array.is_null())
    if types.is_map(kind):
        keys = fitted(array.keys, kind.key_type)
        return arrow.MapArray.from_arrays(
            array.offsets, keys, fitted(array.items, kind.item_type), type=kind, mask=array.is_null()
        )
    return array.cast(kind)
