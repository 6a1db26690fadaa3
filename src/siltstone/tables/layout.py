"""Decides which Arrow columns a topic's configurations ask for, and puts rows together.

``table_schema`` and ``dead_letter_schema`` are the schemas that the driver wants a table to have. A task is given the
schema of the table itself, which has the format's field ids and may have more columns; ``Shaping`` puts rows into that
form.
"""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from msgspec.structs import replace

from siltstone.record_columns.arrow import arrow_schema
from siltstone.record_columns.row_columns import (
    ALL_COLUMNS,
    HEADERS,
    KEY,
    OFFSET,
    PARTITION,
    TIMESTAMP,
    VALUE,
)
from siltstone.tables.fitting import joined_type
from siltstone.tables.formats.derived import division_column, is_derived
from siltstone.tables.formats.port import plain_column
from siltstone.tables.sequences import sequence_field
from siltstone.tables.versions import version_fields
from siltstone.topic_configs.column_types import ColumnType
from siltstone.topic_configs.table_export import BUCKET, IDENTITY, KAFKA, TRUNCATE, TableConfig
from siltstone.value_formats.column_arrays import field_type, fitted, plain_type

REASON = "reason"
_IN_STRUCT = (PARTITION, OFFSET, TIMESTAMP, KEY, HEADERS)


def table_schema(config: TableConfig, columns: Mapping[str, Any] | None = None, table: Any = None) -> Any:
    """Returns the pyarrow.Schema that the configurations ask for. ``columns`` are the types of the fields that values
    with schemas have. ``table`` is the schema of the table, if there is one: a field of a struct that was taken off the
    list stays in it, as a column does."""
    record = arrow_schema(ALL_COLUMNS)
    key = key_type(config)
    if not config.has_fields:
        value = pa.binary() if config.value == "raw" else pa.string()
        plain = [_with(record.field(name), {KEY: key, VALUE: value}) for name in ALL_COLUMNS]
        return pa.schema([*plain, *_own_fields(config)])
    inside = pa.struct([_with(record.field(name), {KEY: key}) for name in _IN_STRUCT])
    there = {} if table is None else {each.name: plain_type(each.type) for each in table}
    fields = [
        pa.field(each.name, _kept(there.get(each.name), _column_type(each.type, config)))
        for each in config.columns
    ]
    fields += [pa.field(name, kind) for name, kind in (columns or {}).items()]
    fields += _own_fields(config)
    return pa.schema([*fields, pa.field(KAFKA, inside)])


def _own_fields(config: TableConfig) -> list[Any]:
    """Returns the columns that configurations add, whatever the values are."""
    versions = version_fields() if config.has_history else []
    return [*versions, *([sequence_field()] if config.sequence else [])]


def own_columns(config: TableConfig) -> tuple[str, ...]:
    """Returns the names of the columns that configurations add, whatever the values are."""
    return tuple(each.name for each in _own_fields(config))


def key_type(config: TableConfig) -> Any:
    """Returns the type of the column of keys: a struct, if fields of keys are named."""
    if config.key_columns:
        return pa.struct([(each.name, _column_type(each.type, config)) for each in config.key_columns])
    return pa.binary() if config.key == "raw" else pa.string()


def _column_type(of: ColumnType, config: TableConfig) -> Any:
    """Returns the type of a column. A Delta table has long for int from the beginning, since its columns cannot become
    wider."""
    return field_type(of, are_wide=config.table_format == "delta")


def _kept(there: Any, here: Any) -> Any:
    """Returns the type ``here`` with the fields that structs of ``there`` have and its own lack, in the order of
    ``there``."""
    types = pa.types
    if there is None:
        return here
    if types.is_struct(there) and types.is_struct(here):
        own = {each.name: each.type for each in here}
        parts = {each.name: _kept(each.type, own.get(each.name, each.type)) for each in there}
        return pa.struct(list({**parts, **{name: own[name] for name in own if name not in parts}}.items()))
    if types.is_list(there) and types.is_list(here):
        return pa.list_(_kept(there.value_type, here.value_type))
    if types.is_map(there) and types.is_map(here):
        return pa.map_(here.key_type, _kept(there.item_type, here.item_type))
    return here


def dead_letter_schema() -> Any:
    """Returns the pyarrow.Schema of a table of dead letters: the record as it is, and why it cannot be decoded."""
    return pa.schema([*arrow_schema(ALL_COLUMNS), pa.field(REASON, pa.string())])


def _with(field: Any, types: Mapping[str, Any]) -> Any:
    return field.with_type(types[field.name]) if field.name in types else field


def mismatch(table: Any, wanted: Any, *, may_widen: bool) -> str:
    """Says why rows of the wanted schema cannot be appended to the table, even after the missing columns are added;
    empty if they can. ``may_widen``: an int column of the table may become long, and the like."""
    for field in wanted:
        at = table.get_field_index(field.name)
        if at < 0:
            if field.name == KAFKA or _is_record(table) != _is_record(wanted):
                return "it has the columns of records where fields are wanted, or the other way round"
            continue
        there, here = plain_type(table.field(at).type), plain_type(field.type)
        if there != here and not (may_widen and joined_type(there, here, may_widen=True) == here):
            return f"column {field.name} is {there}, and {here} is wanted"
    return ""


def differing_case(table: Any, wanted: Any) -> str:
    """Says which wanted column differs by case alone from a column of the table; empty if none does. Most engines do
    not tell such columns apart, and Delta has no place for both."""
    there = {name.lower(): name for name in table.names}
    for name in wanted.names:
        other = there.get(name.lower(), name)
        if name != other and name not in table.names:
            return f"column {name} differs from its column {other} by case alone"
    return ""


def other_key(table: Any, config: TableConfig) -> str:
    """Returns why the key of an upsert table is another than the configured one; empty if it is the same. More fields
    would not do either: rows that are there have no value of them."""
    fields, wanted = table, key_type(config)
    if KAFKA in table.names:
        fields = table.field(KAFKA).type
    there = plain_type(fields.field(KEY).type)
    return "" if there == plain_type(wanted) else f"its key is {there}, and {wanted} is wanted"


def misdivision(schema: Any, config: TableConfig) -> str:
    """Says why a table of the schema cannot be divided as configured; empty if it can. Only fields of values' schemas
    are checked here: the fields of JSON values are known when a topic is configured."""
    if config.table_format == "delta":
        taken = [
            each for each in config.division if is_derived(each) and division_column(each) in schema.names
        ]
        if taken:
            name = division_column(taken[0])
            plain = plain_column(taken[0].column)
            return f"{replace(taken[0], column=plain).text} would have the name of the field {name}"
    if not config.has_schemas:
        return ""
    for by in config.partition_by:
        at = schema.get_field_index(by.column)
        if config.is_field(by.column):
            if at < 0:
                return f"no schema of its values has a field {by.column}, by which the table is to be divided"
            is_fit = _FITS.get(by.kind, pa.types.is_timestamp)
            if not is_fit(schema.field(at).type):
                kind = schema.field(at).type
                return f"it cannot be divided by {by.text}, as the field is {kind}"
        if by.transform != IDENTITY and by.name in schema.names:
            return f"{by.text} would have the name of the field {by.name}"
    return ""


def _is_plain(kind: Any) -> bool:
    types = pa.types
    return any(
        is_it(kind) for is_it in (types.is_integer, types.is_boolean, types.is_string, types.is_large_string)
    )


def _is_bucketed(kind: Any) -> bool:
    types = pa.types
    is_bytes = types.is_binary(kind) or types.is_large_binary(kind)
    return (
        (_is_plain(kind) and not types.is_boolean(kind))
        or is_bytes
        or types.is_timestamp(kind)
        or types.is_date32(kind)
    )


def _is_truncated(kind: Any) -> bool:
    return _is_plain(kind) and not pa.types.is_boolean(kind)


_FITS = {IDENTITY: _is_plain, BUCKET: _is_bucketed, TRUNCATE: _is_truncated}


def _is_record(schema: Any) -> bool:
    return KAFKA not in schema.names


def added(table: Any, wanted: Any) -> list[str]:
    """Returns the names of the columns that the table lacks or that have to become wider."""
    return [
        field.name
        for field in wanted
        if field.name not in table.names or plain_type(table.field(field.name).type) != plain_type(field.type)
    ]


class Shaping:
    """Puts decoded columns and the columns of the record into the schema of a table."""

    def __init__(self, schema: Any) -> None:
        self._schema = schema

    def rows(self, columns: Mapping[str, Any], count: int) -> Any:
        """Returns a pyarrow.RecordBatch. A column of the table that is not among ``columns`` is null."""
        arrays = [_array(field, columns, count) for field in self._schema]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)


def _array(field: Any, columns: Mapping[str, Any], count: int) -> Any:
    if field.name in columns:
        found = columns[field.name]
        return fitted(found, field.type)
    if field.name == KAFKA and pa.types.is_struct(field.type):
        inside = [_array(each, _outer(columns), count) for each in field.type]
        return pa.StructArray.from_arrays(inside, fields=list(field.type))
    return pa.nulls(count, field.type)


def _outer(columns: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the columns of the record, without the prefix that distinguishes their names from those of fields."""
    return {
        name.removeprefix(f"{KAFKA}."): array
        for name, array in columns.items()
        if name.startswith(f"{KAFKA}.")
    }
