"""Writes JSON: rows of a column of structs become values, each one JSON object in one line.

All fields of the struct are written, a null as ``null``, so a consumer sees every name. Times are texts as
ISO 8601 writes them, decimals are texts that lose no digit, and bytes are base64: the JSON decoder of scans and tables
reads them back. NaN and the infinities have no JSON, and a row with one is refused.
"""

from collections.abc import Iterator
from math import isfinite
from typing import Any

import msgspec

from siltstone.record_columns.arrow import require_arrow
from siltstone.value_formats.columns import rows_of
from siltstone.value_formats.failures import RowNotEncodable


class JsonEncoder:
    """Encodes columns of structs."""

    def __init__(self) -> None:
        self._encode = msgspec.json.Encoder().encode

    def encode(self, column: Any) -> Iterator[bytes | None]:
        """Yields a value for each row of a pyarrow.Array; null stays null, and is a tombstone. Raises
        RowNotEncodable."""
        has_floats = _has_floats(column.type)
        for row in rows_of(column):
            if row is None:
                yield None
                continue
            if has_floats and not _is_finite(row):
                raise RowNotEncodable("its value has NaN or an infinity, which JSON does not have")
            try:
                yield self._encode(row)
            except (TypeError, ValueError, UnicodeEncodeError, OverflowError) as cause:
                raise RowNotEncodable(f"its value cannot be written as JSON: {cause}") from cause


def _has_floats(arrow_type: Any) -> bool:
    if require_arrow().types.is_floating(arrow_type):
        return True
    return any(_has_floats(arrow_type.field(at).type) for at in range(arrow_type.num_fields))


def _is_finite(value: Any) -> bool:
    if isinstance(value, float):
        return isfinite(value)
    if isinstance(value, dict):
        return all(map(_is_finite, value.values()))
    if isinstance(value, list):
        return all(map(_is_finite, value))
    return True
