"""Avro on writing: rows of a column of structs → values, each with the id of its schema before it if the schema is a
registry's.

A row has to have exactly the fields of the schema; one that has a default may be missing. fastavro checks that and the
types, record by record, so a row that does not fit is found before anything is written.
"""

from collections.abc import Iterator
from io import BytesIO
from typing import Any

from siltstone.value_formats.columns import rows_of
from siltstone.value_formats.decoders.avro import parsed
from siltstone.value_formats.decoding import reason_of
from siltstone.value_formats.failures import FormatExtraMissing, RowNotEncodable
from siltstone.value_formats.value_format import ValueEncoding
from siltstone.value_formats.wire import MAGIC, NOT_FRAMED

try:
    import fastavro
except ModuleNotFoundError as missing:
    if missing.name != "fastavro":
        raise
    fastavro = None


class AvroEncoder:
    """Encodes columns of structs."""

    def __init__(self, encoding: ValueEncoding) -> None:
        """Raises FormatExtraMissing, SchemaMalformed."""
        if fastavro is None:
            raise FormatExtraMissing("fastavro", "avro")
        self._schema = parsed(encoding.schema)
        self._prefix = b""
        if encoding.schema_id != NOT_FRAMED:
            self._prefix = bytes([MAGIC]) + encoding.schema_id.to_bytes(4, "big")

    def encode(self, column: Any) -> Iterator[bytes | None]:
        """Yields a value for each row of a pyarrow.Array; null stays null, and is a tombstone. Raises
        RowNotEncodable."""
        for row in rows_of(column):
            yield None if row is None else self._value(row)

    def _value(self, row: Any) -> bytes:
        out = BytesIO()
        out.write(self._prefix)
        try:
            fastavro.schemaless_writer(out, self._schema, row, strict_allow_default=True)
        except Exception as cause:  # fastavro raises errors of many kinds
            raise RowNotEncodable(f"its value does not fit the Avro schema: {reason_of(cause)}") from cause
        return out.getvalue()
