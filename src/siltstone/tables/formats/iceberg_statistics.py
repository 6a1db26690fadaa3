"""Makes the statistics of a data file as an Iceberg manifest has them: counts, and bounds in the binary form of single
values [Iceberg spec, appendix D].

pyiceberg makes bounds by way of Python's values, and some legal values have none: a time before the year 1, or a text
whose sixteenth character is followed, in the order of characters, by half a surrogate pair. Here a bound that cannot be
made costs the bound, and never the commit.
"""

import logging
from collections.abc import Callable
from struct import Struct
from typing import Any

from pyiceberg.io.pyarrow import (
    MetricModeTypes,
    StatisticsCollector,
    compute_statistics_plan,
    parquet_path_to_id_mapping,
)
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    StringType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from siltstone.tables.formats.footers import (
    ColumnStatistics,
    Raw,
    column_statistics,
    cut_above,
    split_offsets,
)

log = logging.getLogger(__name__)

_INT, _LONG, _FLOAT, _DOUBLE = Struct("<i"), Struct("<q"), Struct("<f"), Struct("<d")


def file_statistics(footer: Any, schema: Any, properties: dict[str, str]) -> dict[str, Any]:
    """Returns the fields of a manifest's entry that follow from the pyarrow.parquet.FileMetaData of the file.
    ``properties`` are the table's, which say what is kept of a column."""
    ids, plan = parquet_path_to_id_mapping(schema), compute_statistics_plan(schema, properties)
    found: dict[str, Any] = {
        "record_count": footer.num_rows,
        "column_sizes": {},
        "value_counts": {},
        "null_value_counts": {},
        "nan_value_counts": {},
        "lower_bounds": {},
        "upper_bounds": {},
        "split_offsets": split_offsets(footer),
    }
    for column in column_statistics(footer):
        field_id = ids[column.path]
        _put(found, field_id, column, plan[field_id])
    return found


def _put(found: dict[str, Any], field_id: int, column: ColumnStatistics, wish: StatisticsCollector) -> None:
    found["column_sizes"][field_id] = column.size_bytes
    if wish.mode.type == MetricModeTypes.NONE:
        return
    found["value_counts"][field_id] = column.values
    if column.nulls is not None:
        found["null_value_counts"][field_id] = column.nulls
    if wish.mode.type == MetricModeTypes.COUNTS or column.bounds is None:
        return
    try:
        lower, upper = bounds_of(wish.iceberg_type, column.bounds, wish.mode.length)
    except Exception as trouble:  # a bound saves reading, and no more: a table can do without
        log.warning("column %s of a data file gets no bounds: %s", column.path, trouble)
        return
    found["lower_bounds"][field_id] = lower
    if upper is not None:
        found["upper_bounds"][field_id] = upper


def bounds_of(kind: IcebergType, bounds: tuple[Raw, Raw], length: int | None) -> tuple[bytes, bytes | None]:
    """Returns the bounds as bytes. Those of texts and bytes are cut to ``length``; an upper bound that is cut becomes
    larger, and None if nothing of that length is larger."""
    lower, upper = bounds
    if isinstance(kind, StringType):
        assert isinstance(lower, bytes) and isinstance(upper, bytes)
        end = cut_above(upper.decode(), length)
        return lower.decode()[:length].encode(), None if end is None else end.encode()
    if isinstance(kind, BinaryType):
        assert isinstance(lower, bytes) and isinstance(upper, bytes)
        return lower[:length], _cut_bytes_above(upper, length)
    write = _WRITTEN_AS[type(kind)]
    return write(lower), write(upper)


def _cut_bytes_above(data: bytes, length: int | None) -> bytes | None:
    if length is None or len(data) <= length:
        return data
    kept = data[:length].rstrip(b"\xff")
    return kept[:-1] + bytes([kept[-1] + 1]) if kept else None


def _of_decimal(unscaled: Any) -> bytes:
    """Writes the fewest bytes that hold the number and its sign."""
    number = int(unscaled)
    bits = (number if number >= 0 else ~number).bit_length() + 1
    return number.to_bytes(-(-bits // 8), "big", signed=True)


_WRITTEN_AS: dict[type[IcebergType], Callable[[Any], bytes]] = {
    BooleanType: lambda value: b"\x01" if value else b"\x00",
    IntegerType: _INT.pack,
    DateType: _INT.pack,
    LongType: _LONG.pack,
    TimeType: _LONG.pack,
    TimestampType: _LONG.pack,
    TimestamptzType: _LONG.pack,
    FloatType: _FLOAT.pack,
    DoubleType: _DOUBLE.pack,
    DecimalType: _of_decimal,
    FixedType: bytes,
    UUIDType: bytes,
}
