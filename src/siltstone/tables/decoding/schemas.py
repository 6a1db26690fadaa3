"""Decodes Avro and Protobuf values: each is read with the schema that it was written with, and becomes a row of the
table.

Values of one schema are decoded together, by the decoders that scans use. Then their columns are put into the types of
the table: a field that a schema does not have is null, not the default of a newer schema, because a later change of the
schema would otherwise change the rows of earlier records. A value that cannot be decoded is a dead letter, and so is a
value that names a schema which the driver has refused.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from siltstone.tables.decoding.avro_changes import effects_of
from siltstone.tables.decoding.port import REASON_CHARACTERS_MAX, DecodedColumns, bad_rows
from siltstone.tables.sequences import sequence_field, whole_numbers
from siltstone.tables.task_input import ValueSchemas
from siltstone.topic_configs.table_export import KAFKA, SEQUENCE_COLUMN, SEQUENCE_OF_RECORDS, TableConfig
from siltstone.value_formats.column_arrays import column_arrays, fitted
from siltstone.value_formats.decoders.writers import NO_SCHEMA
from siltstone.value_formats.decoding import ValueDecoder
from siltstone.value_formats.opening import open_decoder
from siltstone.value_formats.schemas.port import HeldSchemas
from siltstone.value_formats.settling import settle_format
from siltstone.value_formats.value_format import FormatKind, Schema
from siltstone.value_formats.wire import NOT_FRAMED, SchemaName, in_order, nulls_of, schema_codes

Rows = npt.NDArray[np.int64]


class SchemaDecoder:
    """Decodes values with schemas into the columns of a table."""

    def __init__(
        self, config: TableConfig, schemas: ValueSchemas, table: Any, *, may_truncate: bool = False
    ) -> None:
        """``table`` is the pyarrow.Schema of the table. ``may_truncate``: a change event may remove all rows."""
        self._may_truncate = may_truncate
        self._config = config
        self._schemas = schemas
        self._fields = [each for each in table if each.name != KAFKA]
        self._sequence = "" if config.sequence == SEQUENCE_OF_RECORDS else config.sequence
        self._decoders: dict[SchemaName, ValueDecoder] = {}

    def decode(self, values: Any) -> DecodedColumns:
        are_null = nulls_of(values)
        codes, names = np.full(len(values), NOT_FRAMED, dtype=np.int64), dict[int, SchemaName]()
        if self._config.is_framed:
            codes, names = schema_codes(values)
        known = {*self._schemas.by_name, *self._schemas.refused}
        if needed := set(names.values()) - known:
            return DecodedColumns({}, {}, tuple(in_order(needed)))
        bad: dict[int, str] = {}
        deletes, skipped, truncates = are_null.copy(), set[int](), set[int]()
        parts: list[tuple[Rows, dict[str, Any]]] = []
        sequences: list[tuple[Rows, dict[str, Any]]] = []
        for code in np.unique(codes[~are_null]).tolist():
            name = names.get(code, NOT_FRAMED)
            rows = np.flatnonzero((codes == code) & ~are_null)
            schema = self._schemas.by_name.get(name)
            if schema is None:
                reason = self._schemas.refused.get(name, NO_SCHEMA)
                bad |= dict.fromkeys(rows.tolist(), reason[:REASON_CHARACTERS_MAX])
                continue
            whole = len(rows) == len(values)
            found = self._decoder(name, schema).decode(values if whole else values.take(pa.array(rows)))
            column = found.column
            if self._config.change:
                effects = effects_of(column, self._sequence, may_truncate=self._may_truncate)
                column = effects.rows
                deletes[rows] = effects.are_deletes
                numbers = None if effects.sequences is None else whole_numbers(effects.sequences)
                if numbers is not None:
                    sequences.append((rows, {SEQUENCE_COLUMN: numbers}))
                skipped |= {int(rows[row]) for row in effects.skipped}
                truncates |= {int(rows[row]) for row in effects.truncates}
                bad |= {int(rows[row]): reason for row, reason in effects.bad.items()}
            bad |= {int(rows[row]): reason for row, reason in bad_rows(found.bad).items()}
            parts.append((rows, dict(column_arrays(column))))
        columns = {each.name: _column(each, parts, len(values)) for each in self._fields}
        bad = dict(sorted(bad.items()))
        if not self._config.change:
            return DecodedColumns(columns, bad)
        return DecodedColumns(
            columns,
            bad,
            deletes=pa.array(deletes),
            skipped=frozenset(skipped - bad.keys()),
            truncates=frozenset(truncates - bad.keys()),
            sequences=_column(sequence_field(), sequences, len(values)) if self._sequence else None,
        )

    def _decoder(self, name: SchemaName, schema: Schema) -> ValueDecoder:
        if name not in self._decoders:
            kind, held = FormatKind(self._config.value), HeldSchemas({name: schema})
            settled = settle_format(kind, schema=schema, message=self._config.message)
            self._decoders[name] = open_decoder(settled, held if self._config.is_framed else None)
        return self._decoders[name]


def _column(field: Any, parts: list[tuple[Rows, dict[str, Any]]], count: int) -> Any:
    """Returns one column of all rows; rows in none of the parts are null."""
    arrays = []
    at = np.full(count, -1, dtype=np.int64)
    length = 0
    for rows, columns in parts:
        if field.name in columns:
            arrays.append(fitted(columns[field.name], field.type))
            at[rows] = np.arange(length, length + len(rows))
            length += len(rows)
    if len(arrays) == 1 and length == count:
        return arrays[0]
    if not arrays:
        return pa.nulls(count, field.type)
    return pa.concat_arrays(arrays).take(pa.array(at, mask=at < 0))
