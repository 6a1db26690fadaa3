"""Finds which columns JSON values have. Pure.

A value has a type: a whole number is ``long``, one with a fraction ``double``, an object a struct of its fields. The
types of several values are *joined*: long and double to double, other plain values to string, and whatever has nothing
in common to ``json``, which is the JSON as text. A value that says nothing about its type (null, an empty object or
list) leaves it open.

Joining is for fields that are no column yet. The type of a column never changes, since there are files that have it;
what a column cannot take is rescued (``decoding.rescuing``). Only structs get more fields, where the format allows it.
"""

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import lru_cache
from typing import Any

from siltstone.topic_configs.column_types import (
    ARRAY,
    DEPTH_MAX,
    MAP,
    NAME,
    NAME_CHARACTERS_MAX,
    STRUCT,
    ColumnType,
    canonical,
)
from siltstone.topic_configs.table_export import COLUMNS_MAX, KAFKA, RESCUED, TableColumn

STRUCT_FIELDS_MAX = 200
"""An object with more fields is taken to have data as names, like the counts of each user, and becomes JSON in text."""

LONG_MAX = 2**63 - 1
_OF_FORMATS = (
    "_file _pos _deleted _spec_id _partition _row_id _last_updated_sequence_number"
    " _change_type _change_ordinal _commit_snapshot_id _commit_version _commit_timestamp"
)
"""Columns that readers of Iceberg, or of changes of Iceberg and Delta tables, add by themselves. Delta gives a table
with such a column no change data feed."""

RESERVED = frozenset({KAFKA, RESCUED, *_OF_FORMATS.split()})

_LONG, _DOUBLE, _STRING, _JSON = (ColumnType(kind) for kind in ("long", "double", "string", "json"))
_BOOLEAN = ColumnType("boolean")
_PYTHON: dict[type, ColumnType] = {bool: _BOOLEAN, int: _LONG, float: _DOUBLE, str: _STRING}
_PLAIN = (_BOOLEAN, _LONG, _DOUBLE, _STRING)

Columns = tuple[TableColumn, ...]


def type_of(value: Any, depth: int = 1) -> ColumnType | None:
    """Returns the type of a JSON value, as Python has it; None if the value says nothing about it."""
    plain = _PYTHON.get(type(value))
    if plain is not None:
        return _JSON if plain is _LONG and not -LONG_MAX <= value <= LONG_MAX else plain
    if isinstance(value, list | dict) and depth == DEPTH_MAX:
        return _JSON
    if isinstance(value, dict):
        return _struct((name, type_of(each, depth + 1)) for name, each in value.items())
    if isinstance(value, list):
        item: ColumnType | None = None
        for each in value:
            item = joined(item, type_of(each, depth + 1))
        return None if item is None else ColumnType(ARRAY, (("", item),))
    return None


def fields_of(value: Any) -> dict[str, ColumnType]:
    """Returns the types of the fields of a JSON object by name, as far as they are known; none of any other value."""
    if not isinstance(value, dict):
        return {}
    return joined_fields({}, {name: type_of(each) for name, each in value.items() if can_be_column(name)})


def can_be_column(name: str) -> bool:
    """Returns whether a field of this name can be a column of a table, or a part of one."""
    return len(name) <= NAME_CHARACTERS_MAX and _has_its_characters(name)


@lru_cache(maxsize=4_096)
def _has_its_characters(name: str) -> bool:
    return NAME.fullmatch(name) is not None


def _struct(parts: Iterable[tuple[str, ColumnType | None]]) -> ColumnType | None:
    """Returns the struct of the fields with a known type; a name that no column can have is left out."""
    found: dict[str, tuple[str, ColumnType]] = {}
    for name, part in parts:
        if part is not None and can_be_column(name):
            found.setdefault(name.lower(), (name, part))
    if len(found) > STRUCT_FIELDS_MAX:
        return _JSON
    return ColumnType(STRUCT, tuple(found.values())) if found else None


def joined(one: ColumnType | None, other: ColumnType | None) -> ColumnType | None:
    """Returns the type that takes the values of both."""
    if one is None or one == other:
        return other
    if other is None:
        return one
    if one in _PLAIN and other in _PLAIN:
        return _DOUBLE if {one, other} == {_LONG, _DOUBLE} else _STRING
    if one.kind == other.kind == STRUCT:
        parts: dict[str, ColumnType | None] = dict(one.parts)
        for name, part in other.parts:
            parts[name] = joined(parts.get(name), part)
        return _struct(parts.items())
    if one.kind == other.kind and one.kind in (ARRAY, MAP):
        item = joined(one.item, other.item)
        return None if item is None else ColumnType(one.kind, (("", item),))
    return _JSON


def joined_fields(
    one: Mapping[str, ColumnType], other: Mapping[str, ColumnType | None]
) -> dict[str, ColumnType]:
    """Returns the types of the fields that the values of two samples have, by name; at most COLUMNS_MAX."""
    found = dict(one)
    for name, part in other.items():
        if found.get(name) == part:
            continue
        kind = joined(found.get(name), part)
        if kind is not None and (name in found or len(found) < COLUMNS_MAX):
            found[name] = kind
    return found


def extended(
    columns: Sequence[TableColumn],
    found: Mapping[str, ColumnType],
    *,
    nests: bool,
    reserved: AbstractSet[str] = frozenset(),
) -> Columns:
    """Returns the columns with what the found fields add to them. A field is left out if its name is taken, also
    in another case, or cannot be the name of a column, or if the table would have more than COLUMNS_MAX columns and
    fields. ``nests``: structs of the table can get more fields. ``reserved`` are names in lower case that are taken."""
    there = {each.name.lower(): each for each in columns}
    room = COLUMNS_MAX - sum(1 + _fields(each.type) for each in columns)
    for name, kind in found.items():
        small = name.lower()
        if small in reserved or small in RESERVED or not can_be_column(name):
            continue
        before = there.get(small)
        if before is None:
            cost, column = 1 + _fields(kind), TableColumn(name, canonical(kind))
        elif nests and before.name == name:
            wider = _with_fields(before.type, kind)
            cost, column = _fields(wider) - _fields(before.type), TableColumn(name, canonical(wider))
        else:
            continue
        if cost <= room:
            room -= cost
            there[small] = column
    return tuple(there.values())


def agreed(columns: Sequence[TableColumn], listed: int, of_table: TableColumn, *, nests: bool) -> Columns:
    """Returns the columns, with the name and the type that the table has for one of them; the first ``listed`` stay as
    they are. With ``nests`` a struct keeps the fields that the table has not got yet. A text of the table may be known
    as JSON."""
    small = of_table.name.lower()
    return tuple(
        TableColumn(of_table.name, canonical(_agreed(of_table.type, each.type, nests=nests)))
        if at >= listed and each.name.lower() == small
        else each
        for at, each in enumerate(columns)
    )


def _agreed(there: ColumnType, known: ColumnType, *, nests: bool) -> ColumnType:
    if there == _STRING and known == _JSON:
        return known
    if there.kind != known.kind or there.kind not in (STRUCT, ARRAY, MAP):
        return there
    own = dict(known.parts)
    parts = {name: _agreed(part, own.get(name, part), nests=nests) for name, part in there.parts}
    if there.kind == STRUCT and nests:
        parts = dict(_with_fields(ColumnType(STRUCT, tuple(parts.items())), known).parts)
    return ColumnType(there.kind, tuple(parts.items()))


def _fields(of: ColumnType) -> int:
    return sum(1 for _ in of.fields())


def _with_fields(there: ColumnType, found: ColumnType) -> ColumnType:
    """Returns the type of a column with the fields of structs that it lacks; anything else stays as it is."""
    if there.kind == found.kind == STRUCT:
        parts = dict(there.parts)
        small_names = {name.lower(): name for name in parts}
        for name, part in found.parts:
            if name in parts:
                parts[name] = _with_fields(parts[name], part)
            elif can_be_column(name) and name.lower() not in small_names and len(parts) < STRUCT_FIELDS_MAX:
                parts[name] = part
                small_names[name.lower()] = name
        return ColumnType(STRUCT, tuple(parts.items()))
    if there.kind == found.kind and there.kind in (ARRAY, MAP):
        return ColumnType(there.kind, (("", _with_fields(there.item, found.item)),))
    return there


def news(before: Sequence[TableColumn], after: Sequence[TableColumn]) -> list[str]:
    """Says which columns are new, or have more fields: ``new field x: long``."""
    known = {each.name: each for each in before}
    found = []
    for each in after:
        if each.name not in known:
            found.append(f"new field {each.name}: {each.kind}")
        elif each != known[each.name]:
            found.append(f"new fields in {each.name}: {each.kind}")
    return found
