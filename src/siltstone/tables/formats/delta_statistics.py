"""Makes the statistics of a data file as Delta's log has them: its rows, and for columns the count of nulls and the
least and the largest value, in JSON [Delta protocol, Per-file Statistics].

Readers pass over a file by them, so a bound may be wider than the values, and never narrower. A bound that cannot be
made costs the bound, and never the commit.
"""

import logging
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import msgspec
import pyarrow as pa

from siltstone.tables.formats.derived import time_text
from siltstone.tables.formats.footers import (
    Raw,
    column_statistics,
    cut_above,
    leaves,
    paths_with_nan,
)
from siltstone.topic_configs.table_export import KAFKA

log = logging.getLogger(__name__)

INDEXED_COLUMNS = 32
"""As Delta's default: so many columns, the first of the table, have statistics; each field of a struct counts."""
TEXT_LENGTH = 32
"""Characters of a text in a bound [Delta: spark.databricks.io.skipping.stringPrefixLength]."""
_COUNT_PROPERTY = "delta.dataSkippingNumIndexedCols"
_NAMES_PROPERTY = "delta.dataSkippingStatsColumns"
_OF_RECORD = ("partition", "offset", "timestamp")
"""Columns of the record that have statistics wherever they are: exports find their own files by them."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Path = tuple[str, ...]
Bounds = tuple[Any, Any]
"""The least and the largest value as JSON has them; None: not known."""


def statistics_text(
    footer: Any, schema: Any, properties: Mapping[str, str], divided_by: Sequence[str]
) -> str:
    """Returns the statistics by the pyarrow.parquet.FileMetaData of the file. ``schema`` is the table's pyarrow.Schema;
    ``properties`` are the table's, which say what is kept; ``divided_by`` has the columns of its division, whose values
    are elsewhere in the log."""
    kinds = {".".join(path): (path, kind) for path, kind in _indexed(schema, properties, divided_by)}
    with_nan = paths_with_nan(footer)
    least: dict[str, Any] = {}
    most: dict[str, Any] = {}
    nulls: dict[str, Any] = {}
    for column in column_statistics(footer):
        if column.path not in kinds:
            continue
        path, kind = kinds[column.path]
        if column.nulls is not None:
            _put(nulls, path, column.nulls)
        if column.bounds is None:
            continue
        lower, upper = _bounds_of(column.path, kind, column.bounds)
        if pa.types.is_floating(kind) and (with_nan is None or column.path in with_nan):
            upper = None
        if lower is not None:
            _put(least, path, lower)
        if upper is not None:
            _put(most, path, upper)
    found = {"numRecords": footer.num_rows, "minValues": least, "maxValues": most, "nullCount": nulls}
    return msgspec.json.encode(found).decode()


def _indexed(
    schema: Any, properties: Mapping[str, str], divided_by: Sequence[str]
) -> Iterator[tuple[Path, Any]]:
    """Yields the columns that get statistics."""
    names = [
        each.strip().replace("`", "")
        for each in properties.get(_NAMES_PROPERTY, "").split(",")
        if each.strip()
    ]
    try:
        count = int(properties.get(_COUNT_PROPERTY, INDEXED_COLUMNS))
    except ValueError:
        count = INDEXED_COLUMNS
    at = 0
    for path, kind in leaves(schema):
        if path[0] in divided_by:
            continue
        name = ".".join(path)
        is_wanted = (
            any(name == each or name.startswith(f"{each}.") for each in names)
            if names
            else (count < 0 or at < count)
        )
        at += 1
        is_of_record = path[-1] in _OF_RECORD and path[:-1] in ((), (KAFKA,))
        if (is_wanted or is_of_record) and not pa.types.is_nested(kind):
            yield path, kind


def _bounds_of(name: str, kind: Any, bounds: tuple[Raw, Raw]) -> Bounds:
    write = next((write for holds, write in _WRITTEN_AS if holds(kind)), None)
    if write is None:
        return None, None
    try:
        return write(kind, *bounds)
    except Exception as trouble:  # a bound saves reading, and no more: a table can do without
        log.warning("column %s of a data file gets no bounds: %s", name, trouble)
        return None, None


def _of_text(_: Any, least: Any, most: Any) -> Bounds:
    return least.decode()[:TEXT_LENGTH], cut_above(most.decode(), TEXT_LENGTH)


def _of_float(_: Any, least: Any, most: Any) -> Bounds:
    """JSON has no infinite numbers."""
    return least if math.isfinite(least) else None, most if math.isfinite(most) else None


def _of_decimal(kind: Any, least: Any, most: Any) -> Bounds:
    lower, upper = (_decimal(int(each), kind.scale) for each in (least, most))
    return lower, upper


def _decimal(unscaled: int, scale: int) -> msgspec.Raw:
    """Writes all digits: a number of binary fractions could be narrower than the values."""
    sign, digits = int(unscaled < 0), tuple(map(int, str(abs(unscaled))))
    return msgspec.Raw(format(Decimal((sign, digits, -scale)), "f").encode())


def _of_time(kind: Any, least: Any, most: Any) -> Bounds:
    lower, upper = time_text(least), time_text(most, is_upper=True)
    if kind.tz is None:
        return lower and lower.removesuffix("Z"), upper and upper.removesuffix("Z")
    return lower, upper


def _of_date(_: Any, least: Any, most: Any) -> Bounds:
    return _date(least), _date(most)


def _date(days: int) -> str | None:
    """Returns None for a day outside the years 1 to 9999, which the log cannot have."""
    try:
        return (_EPOCH + timedelta(days=days)).date().isoformat()
    except OverflowError:
        return None


def _as_it_is(_: Any, least: Any, most: Any) -> Bounds:
    return least, most


def _is_text(kind: Any) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


_WRITTEN_AS: tuple[tuple[Callable[[Any], bool], Callable[[Any, Any, Any], Bounds]], ...] = (
    (pa.types.is_integer, _as_it_is),
    (pa.types.is_floating, _of_float),
    (_is_text, _of_text),
    (pa.types.is_timestamp, _of_time),
    (pa.types.is_date, _of_date),
    (pa.types.is_decimal, _of_decimal),
)
"""Columns of other types, booleans and bytes, have a count of nulls alone, as Delta's own writer gives them."""


def _put(into: dict[str, Any], path: Path, value: Any) -> None:
    for name in path[:-1]:
        into = into.setdefault(name, {})
    into[path[-1]] = value
