"""Fits several schemas into one table: finds the type that a column has to have for all of them.

A number may become wider, and a struct may get more fields. A column never gets a type that older data files do not
fit. So two types that have nothing in common are a *conflict*, and values of the second schema become dead letters.
"""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from siltstone.record_columns.row_columns import VALUE
from siltstone.topic_configs.table_export import KAFKA
from siltstone.value_formats.column_arrays import plain_type

_WIDER = {pa.int32(): pa.int64(), pa.float32(): pa.float64()}


def columns_of_type(kind: Any, *, may_widen: bool, has_times: bool = True) -> dict[str, Any]:
    """Returns the columns that values of a type become, by name. Where a column cannot be widened later, numbers are
    wide from the beginning. Where there is no type for a time of day, it is a number of microseconds."""
    parts = {each.name: each.type for each in kind} if pa.types.is_struct(kind) else {VALUE: kind}
    numbers = {} if may_widen else _WIDER
    if not has_times:
        numbers = {**numbers, pa.time64("us"): pa.int64()}
    found = {name: _stored(plain_type(part), numbers) for name, part in parts.items()}
    return {name: part for name, part in found.items() if part is not None}


def _stored(kind: Any, numbers: Mapping[Any, Any]) -> Any:
    """Returns the type as files store it; None for a type that files cannot have, because it has no content: an empty
    struct, or only null."""
    if pa.types.is_struct(kind):
        parts = [(each.name, _stored(each.type, numbers)) for each in kind]
        kept = [(name, part) for name, part in parts if part is not None]
        return pa.struct(kept) if kept else None
    if pa.types.is_list(kind):
        inner = _stored(kind.value_type, numbers)
        return None if inner is None else pa.list_(inner)
    if pa.types.is_map(kind):
        inner = _stored(kind.item_type, numbers)
        return None if inner is None else pa.map_(kind.key_type, inner)
    if pa.types.is_null(kind):
        return None
    return numbers.get(kind, kind)


def joined_type(there: Any, here: Any, *, may_widen: bool) -> Any:
    """Returns the type for a column that has the type ``there`` and is to hold values of the type ``here``; None for a
    conflict. ``may_widen``: the column may become wider, and its structs may get fields."""
    types = pa.types
    if there == here or _is_wider(there, here):
        return there
    if _is_wider(here, there):
        return here if may_widen else None
    if types.is_struct(there) and types.is_struct(here):
        return _joined_structs(there, here, may_widen=may_widen)
    inner = None
    if types.is_list(there) and types.is_list(here):
        inner = joined_type(there.value_type, here.value_type, may_widen=may_widen)
    elif types.is_map(there) and types.is_map(here) and there.key_type == here.key_type:
        inner = joined_type(there.item_type, here.item_type, may_widen=may_widen)
        return None if inner is None else pa.map_(there.key_type, inner)
    return None if inner is None else pa.list_(inner)


def _is_wider(wide: Any, narrow: Any) -> bool:
    if pa.types.is_decimal(wide) and pa.types.is_decimal(narrow):
        return bool(wide.scale == narrow.scale and wide.precision > narrow.precision)
    return bool(_WIDER.get(narrow) == wide)


def _joined_structs(there: Any, here: Any, *, may_widen: bool) -> Any:
    parts = {each.name: each.type for each in there}
    for each in here:
        if each.name not in parts:
            if not may_widen:
                return None
            parts[each.name] = each.type
            continue
        part = joined_type(parts[each.name], each.type, may_widen=may_widen)
        if part is None:
            return None
        parts[each.name] = part
    return pa.struct(list(parts.items()))


def joined_columns(table: dict[str, Any], found: dict[str, Any], *, may_widen: bool) -> dict[str, Any] | str:
    """Returns the columns of a table that is to hold the found columns, too, or the conflict."""
    columns = dict(table)
    by_small_name = {name.lower(): name for name in table}
    for name, here in found.items():
        there = columns.get(name)
        if name.lower() == KAFKA or by_small_name.setdefault(name.lower(), name) != name:
            return f"the name of its field {name} is taken by another column of the table"
        joined = here if there is None else joined_type(there, here, may_widen=may_widen)
        if joined is None:
            return f"its field {name} is {here}, and the column of the table is {there}"
        columns[name] = joined
    return columns
