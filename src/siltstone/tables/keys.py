"""The keys of an upsert table as bytes, by which rows are compared: equal bytes mean one key.

A key of fields is the text of each field after its length, so that no two keys have the same bytes.
"""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc


def column_at(rows: Any, path: str) -> Any:
    """Returns the column of a pyarrow.RecordBatch at a path such as ``kafka.key.id``."""
    first, *names = path.split(".")
    column = rows.column(first)
    for name in names:
        column = _field(column, name)
    return column


def key_bytes(column: Any) -> Any:
    """Returns a pyarrow.BinaryArray of the keys, null for a null."""
    if not pa.types.is_struct(column.type):
        return column.cast(pa.binary())
    parts: list[Any] = []
    for each in column.type:
        text = _plain(_field(column, each.name)).cast(pa.string()).cast(pa.binary())
        size = pc.binary_length(text).cast(pa.string()).cast(pa.binary())
        parts += [size.fill_null(b""), text.fill_null(b"")]
    joined = pc.binary_join_element_wise(*parts, pa.scalar(b":", pa.binary()))
    return pc.if_else(column.is_valid(), joined, pa.scalar(None, pa.binary()))


def _plain(column: Any) -> Any:
    """Returns times and dates as numbers: their texts depend on the version of Arrow, and not all of them have one."""
    if pa.types.is_date32(column.type):
        return column.cast(pa.int32())
    return column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column


def _field(column: Any, name: str) -> Any:
    """Returns a field of a struct column, null where the struct is."""
    return pc.struct_field(column, name)
