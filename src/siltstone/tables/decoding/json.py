"""JSON values [RFC 8259]: as text that is known to be JSON, or as columns of chosen fields.

The decoder of scans reads the fields, so the same values are bad in a scan and in a table: one that is not an object,
has a field of another type, a number that does not fit its column, or a timestamp without a time zone. A field that is
missing is null; a field that is not wanted is ignored. The name of a schema before the JSON text is skipped.

msgspec reads each record by itself. A reader of whole blocks would be faster, but one line break inside a value shifts
all rows that follow, and readers differ in what they accept: NaN, numbers beyond 64 bits, a field name that occurs
twice.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import pyarrow as pa

from siltstone.record_columns.row_columns import VALUE
from siltstone.tables.decoding.port import DecodedColumns, bad_rows, text_of
from siltstone.topic_configs.table_export import RESCUED, TableColumn
from siltstone.value_formats.column_arrays import column_arrays, column_field, field_type, fitted
from siltstone.value_formats.decoders.json import JsonDecoder
from siltstone.value_formats.decoders.rescuing import RescuedValues, RescuingDecoder
from siltstone.value_formats.decoding import BadValue, DecodedValues, reason_of
from siltstone.value_formats.settling import settle_format
from siltstone.value_formats.value_format import FormatKind
from siltstone.value_formats.wire import payloads


class JsonTextDecoder:
    """Values as text; each is a JSON value. ``column`` is the name of the column."""

    def __init__(self, column: str = VALUE) -> None:
        self._column = column

    def decode(self, values: Any) -> DecodedColumns:
        values = payloads(values)
        texts, bad = text_of(values)
        return DecodedColumns({self._column: texts}, {**bad_rows(_not_json(values)), **bad})


def _not_json(values: Any) -> Iterator[BadValue]:
    for row, value in enumerate(values.to_pylist()):
        try:
            if value is not None:
                msgspec.json.decode(value)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as failure:
            yield BadValue(row, reason_of(failure))


class JsonFieldsDecoder:
    """The wanted fields of JSON objects as columns. ``json`` reads the objects."""

    def __init__(self, columns: Sequence[TableColumn]) -> None:
        self._types = {each.name: field_type(each.type) for each in columns}
        kind = pa.struct([column_field(each.name, each.type) for each in columns])
        self.json = JsonDecoder(settle_format(FormatKind.JSON, schema=kind))

    def decode(self, values: Any) -> DecodedColumns:
        return self.columns_of(self.json.decode(values))

    def columns_of(self, found: DecodedValues) -> DecodedColumns:
        arrays = dict(column_arrays(found.column))
        columns = {name: fitted(arrays[name], kind) for name, kind in self._types.items()}
        return DecodedColumns(columns, bad_rows(found.bad))


class FoundFieldsDecoder:
    """JSON objects as the columns that were found, and what was rescued. A value that is no object is bad. ``json``
    reads objects that have nothing to rescue."""

    def __init__(self, columns: Sequence[TableColumn]) -> None:
        """``columns`` are all known ones, with the listed ones."""
        self._decoder = RescuingDecoder(columns)
        self.json = self._decoder.json

    def decode(self, values: Any) -> DecodedColumns:
        return _with_rescued(self._decoder.decode(values))

    def columns_of(self, found: DecodedValues) -> DecodedColumns:
        return _with_rescued(self._decoder.columns_of(found))


def _with_rescued(found: RescuedValues) -> DecodedColumns:
    return DecodedColumns(
        {**found.columns, RESCUED: found.rescued}, bad_rows(found.bad), found=found.new_fields
    )
