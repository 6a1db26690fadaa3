"""Handles the columns that only a Delta table has: those by which it is divided.

Delta divides a table by values of columns, not by transforms of them. So a table that is divided by ``day(timestamp)``
has a column ``timestamp_day``, and one that is divided by a column inside the struct ``kafka`` has a copy of it,
``kafka_partition``. Data files have these columns, too, because some readers take the values of a division from the
files.
"""

from collections.abc import Container
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pyarrow as pa

from siltstone.tables.formats.port import PartitionValue, plain_column
from siltstone.topic_configs.table_export import BUCKET, IDENTITY, PartitionTransform

_TYPES = {
    "year": pa.int32(),
    "month": pa.date32(),
    "day": pa.date32(),
    "hour": pa.timestamp("us", tz="UTC"),
}
_START = date(1970, 1, 1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def division_column(by: PartitionTransform) -> str:
    """Returns the column of a Delta table that has the partition value. ``by`` has its column as a path in the
    schema."""
    plain = plain_column(by.column)
    if by.transform == IDENTITY:
        return by.column.replace(".", "_")
    return PartitionTransform(by.transform, plain).name


def is_derived(by: PartitionTransform) -> bool:
    """Returns whether the table has a column only for the partition value."""
    return division_column(by) != by.column


def derived_field(by: PartitionTransform, schema: Any) -> Any:
    """Returns the pyarrow.Field of a derived column."""
    kind = pa.int32() if by.kind == BUCKET else _TYPES.get(by.transform)
    if kind is None:
        field = schema
        for name in by.column.split("."):
            field = schema.field(name) if field is schema else field.type.field(name)
        kind = field.type
    return pa.field(division_column(by), kind)


def column_value(by: PartitionTransform, value: PartitionValue) -> Any:
    """Returns the value that the column of a division has in the rows of a partition value, which counts times from
    1970."""
    if value is None or by.transform not in _TYPES:
        return value
    assert isinstance(value, int), "times are counted"
    match by.transform:
        case "year":
            return 1970 + value
        case "month":
            return date(1970 + value // 12, value % 12 + 1, 1)
        case "day":
            return _START + timedelta(days=value)
    return _EPOCH + timedelta(hours=value)


def partition_value(by: PartitionTransform, found: Any) -> PartitionValue:
    """Returns the partition value for a value of the column of a division."""
    if found is None or by.transform not in _TYPES:
        return found  # type: ignore[no-any-return]
    match by.transform:
        case "year":
            return int(found) - 1970
        case "month":
            return int(found.year - 1970) * 12 + int(found.month) - 1
        case "day":
            return int((found - _START).days)
    return int(found.timestamp()) // 3600


def log_text(value: Any) -> str | None:
    """Returns the value of a division as Delta's log writes it [Delta protocol, partition value serialization]. An
    empty text means null there."""
    if value is None or value == "":
        return None
    if isinstance(value, bool):
        return str(value).lower()
    return value.strftime(f"{value.date()} %H:%M:%S") if isinstance(value, datetime) else str(value)


def time_text(micros: int, *, is_upper: bool = False) -> str | None:
    """Returns a time as a bound in Delta's log, which has milliseconds; an upper bound is rounded up. None for a time
    outside the years 1 to 9999, which the log cannot have."""
    whole_ms = -(-micros // 1_000) if is_upper else micros // 1_000
    try:
        moment = _EPOCH + timedelta(milliseconds=whole_ms)
    except OverflowError:
        return None
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def with_division(
    rows: Any,
    by: tuple[PartitionTransform, ...],
    values: tuple[PartitionValue, ...],
    lacking: Container[str] = (),
) -> Any:
    """Returns a pyarrow.RecordBatch of one partition value with its derived columns filled, and with other columns of
    the division that the file was ``lacking``: other programs leave all of them out of data files. ``by`` has its
    columns as paths in the schema."""
    for each, value in zip(by, values, strict=False):
        if is_derived(each) or each.column in lacking:
            at = rows.schema.get_field_index(division_column(each))
            field = rows.schema.field(at)
            filled = pa.array([column_value(each, value)], field.type).take(
                pa.array([0] * rows.num_rows, pa.int32())
            )
            rows = rows.set_column(at, field, filled)
    return rows
