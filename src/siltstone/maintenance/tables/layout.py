"""The columns of tables: which Arrow columns a topic's configurations ask for, and how rows are put together.

``table_schema`` and ``dead_letter_schema`` are what the driver wants of a table. A task is given the schema of the
table itself, which has the format's field ids and may have more columns; ``Shaping`` puts rows into that form.
"""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

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
from siltstone.topic_configs.table_export import KAFKA, TableConfig

REASON = "reason"
_IN_STRUCT = (PARTITION, OFFSET, TIMESTAMP, KEY, HEADERS)

_TYPES = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "double": pa.float64(),
    "string": pa.string(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "json": pa.string(),
}


def field_type(kind: str) -> Any:
    """The Arrow type of a field of one of the types of ``siltstone.table.columns``."""
    return _TYPES[kind]


def table_schema(config: TableConfig) -> Any:
    """The pyarrow.Schema that the configurations ask for."""
    record = arrow_schema(ALL_COLUMNS)
    key = pa.string() if config.key == "string" else pa.binary()
    if not config.has_fields:
        value = pa.binary() if config.value == "raw" else pa.string()
        return pa.schema([_with(record.field(name), {KEY: key, VALUE: value}) for name in ALL_COLUMNS])
    inside = pa.struct([_with(record.field(name), {KEY: key}) for name in _IN_STRUCT])
    fields = [pa.field(each.name, field_type(each.kind)) for each in config.columns]
    return pa.schema([*fields, pa.field(KAFKA, inside)])


def dead_letter_schema() -> Any:
    """The pyarrow.Schema of a table of dead letters: the record as it is, and why it cannot be decoded."""
    return pa.schema([*arrow_schema(ALL_COLUMNS), pa.field(REASON, pa.string())])


def _with(field: Any, types: Mapping[str, Any]) -> Any:
    return field.with_type(types[field.name]) if field.name in types else field


def mismatch(table: Any, wanted: Any, *, may_widen: bool) -> str:
    """Why rows of the wanted schema cannot be appended to the table, even after the missing columns are added; empty if
    they can. ``may_widen``: an int column of the table may become long."""
    for field in wanted:
        at = table.get_field_index(field.name)
        if at < 0:
            if field.name == KAFKA or _is_record(table) != _is_record(wanted):
                return "it has the columns of records where fields are wanted, or the other way round"
            continue
        there, here = plain_type(table.field(at).type), plain_type(field.type)
        if there != here and not (may_widen and (there, here) == (pa.int32(), pa.int64())):
            return f"column {field.name} is {there}, and {here} is wanted"
    return ""


def _is_record(schema: Any) -> bool:
    return KAFKA not in schema.names


def added(table: Any, wanted: Any) -> list[str]:
    """The names of the columns that the table lacks or that have to become wider."""
    return [
        field.name
        for field in wanted
        if field.name not in table.names or plain_type(table.field(field.name).type) != plain_type(field.type)
    ]


def plain_type(kind: Any) -> Any:
    """The type without the difference between Arrow's small and large texts and lists, which files do not have."""
    if pa.types.is_large_binary(kind):
        return pa.binary()
    if pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(plain_type(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(each.name, plain_type(each.type)) for each in kind])
    return kind


class Shaping:
    """Puts decoded columns and the columns of the record into the schema of a table."""

    def __init__(self, schema: Any) -> None:
        self._schema = schema

    def rows(self, columns: Mapping[str, Any], count: int) -> Any:
        """A pyarrow.RecordBatch. A column of the table that is not among ``columns`` is null."""
        arrays = [_array(field, columns, count) for field in self._schema]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)


def _array(field: Any, columns: Mapping[str, Any], count: int) -> Any:
    if field.name in columns:
        found = columns[field.name]
        return found if found.type.equals(field.type) else found.cast(field.type)
    if field.name == KAFKA and pa.types.is_struct(field.type):
        inside = [_array(each, _outer(columns), count) for each in field.type]
        return pa.StructArray.from_arrays(inside, fields=list(field.type))
    return pa.nulls(count, field.type)


def _outer(columns: Mapping[str, Any]) -> Mapping[str, Any]:
    """The columns of the record, without the prefix that keeps their names apart from the fields' names."""
    return {
        name.removeprefix(f"{KAFKA}."): array
        for name, array in columns.items()
        if name.startswith(f"{KAFKA}.")
    }
