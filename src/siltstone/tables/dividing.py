"""Divides rows by the partition values of a table [as Iceberg's transforms], and says which rows a table cannot hold
because it has no partition value for them.

A time is any 64-bit number of microseconds, so all arithmetic here is of integers: neither Python's calendar nor
Arrow's has the years before 1, or after 9999 or 32767.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from siltstone.tables.bucketing import bucket_of, truncated
from siltstone.tables.formats.port import PartitionValue
from siltstone.tables.keys import column_at
from siltstone.topic_configs.table_export import (
    BUCKET,
    IDENTITY,
    TIME_TRANSFORMS,
    TRUNCATE,
    PartitionTransform,
    TableConfig,
)

Values = tuple[PartitionValue, ...]
Integers = npt.NDArray[np.int64]

_DAY_US = 86_400_000_000
_HOUR_US = 3_600_000_000
_INT_MIN, _INT_MAX = -(2**31), 2**31 - 1
_YEAR_1_DAY, _YEAR_10000_DAY = -719_162, 2_932_897
"""The days of 0001-01-01 and of 10000-01-01, counted from 1970."""
_CALENDAR = {
    "day": (_YEAR_1_DAY, _YEAR_10000_DAY - 1),
    "month": (-1969 * 12, 8030 * 12 - 1),
    "hour": (_YEAR_1_DAY * 24, _YEAR_10000_DAY * 24 - 1),
}


def divided(
    rows: Any, by: tuple[PartitionTransform, ...], config: TableConfig
) -> Iterator[tuple[Values, Any]]:
    """Cuts a pyarrow.RecordBatch into one for each combination of partition values, in the order of their first
    rows; the order of the rows is kept."""
    if not by:
        yield (), rows
        return
    columns = [_values(column_at(rows, config.source_of(each.column)), each) for each in by]
    codes = np.zeros(rows.num_rows, dtype=np.int64)
    dictionaries = []
    for column in columns:
        encoded = column.dictionary_encode(null_encoding="encode")
        dictionaries.append(encoded.dictionary.to_pylist())
        codes = codes * len(dictionaries[-1]) + encoded.indices.to_numpy(zero_copy_only=False)
    _, firsts = np.unique(codes, return_index=True)
    for first in sorted(firsts.tolist()):
        chosen = np.flatnonzero(codes == codes[first])
        values = []
        code = int(codes[first])
        for dictionary in reversed(dictionaries):
            code, at = divmod(code, len(dictionary))
            values.append(dictionary[at])
        part = rows if len(chosen) == rows.num_rows else rows.take(pa.array(chosen))
        yield tuple(reversed(values)), part


def without_place(rows: Any, by: tuple[PartitionTransform, ...], config: TableConfig) -> dict[int, str]:
    """Returns the rows that the division of the table has no value for, each with the reason."""
    found: dict[int, str] = {}
    for each in by:
        column = column_at(rows, config.source_of(each.column))
        is_out = _is_outside(column, each, config.table_format)
        for row in np.flatnonzero(is_out & column.is_valid().to_numpy(zero_copy_only=False)).tolist():
            reason = f"a {config.table_format} table that is divided by {each.text} has no part for it"
            value = column.view(pa.int64()) if pa.types.is_timestamp(column.type) else column
            found.setdefault(row, f"{reason}: {each.column} is {value[row].as_py()}{_unit(column)}")
    return found


def _unit(column: Any) -> str:
    return " microseconds since 1970" if pa.types.is_timestamp(column.type) else ""


def _is_outside(column: Any, by: PartitionTransform, table_format: str) -> npt.NDArray[np.bool_]:
    if by.kind == TRUNCATE and pa.types.is_integer(column.type):
        numbers = column.fill_null(0).to_numpy(zero_copy_only=False)
        lowest = -(-int(np.iinfo(numbers.dtype).min) // by.width) * by.width
        is_below: npt.NDArray[np.bool_] = numbers < lowest  # rounded down, it would be below the least number
        return is_below
    if by.transform in TIME_TRANSFORMS and table_format != "parquet":
        least, most = (_INT_MIN, _INT_MAX)
        if table_format == "delta":
            least, most = _CALENDAR.get(by.transform, (least, most))
        units = _UNITS[by.transform](_micros(column))
        return (units < least) | (units > most)
    return np.zeros(len(column), dtype=np.bool_)


def _values(column: Any, by: PartitionTransform) -> Any:
    """Returns the partition values of a column: for times the number of units since 1970, rounded down."""
    if by.transform == IDENTITY:
        return column
    if by.kind == BUCKET:
        return bucket_of(column, by.width)
    if by.kind == TRUNCATE:
        return truncated(column, by.width)
    units = pa.array(_UNITS[by.transform](_micros(column)), pa.int64())
    return pc.if_else(column.is_valid(), units, pa.scalar(None, pa.int64()))


def _micros(column: Any) -> Integers:
    found: Integers = column.view(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    return found


def _months(times: Integers) -> Integers:
    """Counts in numpy's calendar of days: its microseconds have a number that means "no time"."""
    days = np.floor_divide(times, _DAY_US).astype("datetime64[D]")
    found: Integers = days.astype("datetime64[M]").astype(np.int64)
    return found


_UNITS: dict[str, Callable[[Integers], Integers]] = {
    "year": lambda times: np.floor_divide(_months(times), 12),
    "month": _months,
    "day": lambda times: np.floor_divide(times, _DAY_US),
    "hour": lambda times: np.floor_divide(times, _HOUR_US),
}
