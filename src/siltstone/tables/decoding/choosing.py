"""Chooses the decoder of a topic's values by its configurations, and holds the plain ones: bytes, and text. A
new encoding is a module of its own, and one more row here."""

from collections.abc import Callable
from typing import Any

from siltstone.record_columns.row_columns import VALUE
from siltstone.tables.decoding.changes import ChangedRowsDecoder
from siltstone.tables.decoding.json import FoundFieldsDecoder, JsonFieldsDecoder, JsonTextDecoder
from siltstone.tables.decoding.port import ColumnDecoder, DecodedColumns, text_of
from siltstone.tables.decoding.schemas import SchemaDecoder
from siltstone.tables.task_input import NOTHING_FOUND, FoundColumns, ValueSchemas
from siltstone.topic_configs.table_export import SEQUENCE_OF_RECORDS, TableConfig


class RawDecoder:
    """Values as bytes. No value is bad."""

    def decode(self, values: Any) -> DecodedColumns:
        return DecodedColumns({VALUE: values})


class TextColumnDecoder:
    """Values as text. A value that is not UTF-8 is bad. ``column`` is the name of the column."""

    def __init__(self, column: str = VALUE) -> None:
        self._column = column

    def decode(self, values: Any) -> DecodedColumns:
        texts, bad = text_of(values)
        return DecodedColumns({self._column: texts}, bad)


def _json(config: TableConfig, _: ValueSchemas, __: Any, found: FoundColumns) -> ColumnDecoder:
    if config.infers:
        return FoundFieldsDecoder(found.columns)
    return JsonFieldsDecoder(config.columns) if config.has_fields else JsonTextDecoder()


_VALUES: dict[str, Callable[[TableConfig, ValueSchemas, Any, FoundColumns], ColumnDecoder]] = {
    "raw": lambda *_: RawDecoder(),
    "string": lambda *_: TextColumnDecoder(),
    "json": _json,
}


def value_decoder(
    config: TableConfig,
    schemas: ValueSchemas,
    table: Any,
    found: FoundColumns = NOTHING_FOUND,
    *,
    may_truncate: bool = False,
) -> ColumnDecoder:
    """Returns the decoder of values. ``table`` is the pyarrow.Schema of the table. The decoder makes its columns, but
    not the columns of the record itself (offset, time, …). ``may_truncate``: a change event may remove all rows."""
    if config.has_schemas:
        return SchemaDecoder(config, schemas, table, may_truncate=may_truncate)
    decoder = _VALUES[config.value](config, schemas, table, found)
    if not config.change:
        return decoder
    sequence = "" if config.sequence == SEQUENCE_OF_RECORDS else config.sequence
    return ChangedRowsDecoder(decoder, sequence, may_truncate=may_truncate)
