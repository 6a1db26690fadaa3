"""Keys: as bytes, as text, or as structs of chosen fields.

The fields and their types are configured, for keys with schemas, too: by them an upsert table is divided, and its rows
are found again, so they must not change when a schema does. A key whose field has another type is bad. So is a key of
an upsert table that lacks a field: two such keys would be one. In a table that has every record the field is null.
"""

from typing import Any

import pyarrow as pa
from msgspec.structs import replace

from siltstone.record_columns.row_columns import KEY
from siltstone.tables.decoding.changes import ChangedKeysDecoder
from siltstone.tables.decoding.choosing import TextColumnDecoder
from siltstone.tables.decoding.json import JsonFieldsDecoder, JsonTextDecoder
from siltstone.tables.decoding.port import ColumnDecoder, DecodedColumns
from siltstone.tables.decoding.schemas import SchemaDecoder
from siltstone.tables.layout import key_type
from siltstone.tables.task_input import ValueSchemas
from siltstone.topic_configs.table_export import REGISTRY, TableConfig
from siltstone.value_formats.wire import nulls_of


class KeyFieldsDecoder:
    """Keys as one column of structs."""

    def __init__(self, fields: ColumnDecoder, kind: Any, *, are_needed: bool) -> None:
        """``fields`` makes a column of each field. ``kind`` is the pyarrow.StructType of the column. ``are_needed``: a
        key that lacks a field is bad."""
        self._fields = fields
        self._kind = kind
        self._are_needed = are_needed

    def decode(self, values: Any) -> DecodedColumns:
        found = self._fields.decode(values)
        if found.needed:
            return found
        names = [each.name for each in self._kind]
        columns = [found.columns[name].cast(self._kind.field(name).type) for name in names]
        bad, are_null = dict(found.bad), nulls_of(values)
        if self._are_needed:
            for name, column in zip(names, columns, strict=True):
                for row in (nulls_of(column) & ~are_null).nonzero()[0].tolist():
                    bad.setdefault(row, f"it has no field {name}")
        keys = pa.StructArray.from_arrays(columns, fields=list(self._kind), mask=pa.array(are_null))
        return DecodedColumns({KEY: keys}, dict(sorted(bad.items())))


def key_decoder(config: TableConfig, schemas: ValueSchemas) -> ColumnDecoder | None:
    """Returns the decoder of keys, which makes the column ``key``; None if keys stay bytes."""
    if config.key == "raw":
        return None
    if config.key_columns:
        kind = key_type(config)
        fields: ColumnDecoder = JsonFieldsDecoder(config.key_columns)
        if config.has_key_schemas:
            fields = SchemaDecoder(of_keys(config), schemas, pa.schema(list(kind)))
        elif config.change:
            fields = ChangedKeysDecoder(fields)
        return KeyFieldsDecoder(fields, kind, are_needed=config.is_upsert)
    return JsonTextDecoder(KEY) if config.key == "json" else TextColumnDecoder(KEY)


def of_keys(config: TableConfig) -> TableConfig:
    """Returns the configurations with which keys are read as values are: each names its schema."""
    return replace(config, value=config.key, schema=REGISTRY, message="", columns=(), change="")
