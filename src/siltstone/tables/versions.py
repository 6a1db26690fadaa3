"""Versions of rows: a table with ``siltstone.table.history=scd2`` keeps each row that a key has had, and for how long
(a slowly changing dimension of type 2).

A version begins at the time of its record and ends at the time of the next record of its key, which is a newer version
or a tombstone. A version that has no end is the current one. Versions come in the order of the offsets of a partition:
if the times of two records are the other way round, a version may end before it begins.
"""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

VALID_FROM = "_valid_from"
VALID_TO = "_valid_to"
IS_CURRENT = "_is_current"
VERSION_COLUMNS = (VALID_FROM, VALID_TO, IS_CURRENT)

TIME = pa.timestamp("us", tz="UTC")


def version_fields() -> list[Any]:
    """Returns the columns of versions as pyarrow.Fields."""
    return [pa.field(VALID_FROM, TIME), pa.field(VALID_TO, TIME), pa.field(IS_CURRENT, pa.bool_())]


def has_versions(schema: Any) -> bool:
    """Returns whether a table of this schema keeps versions. One of the names alone may be a field of its values."""
    return all(name in schema.names for name in VERSION_COLUMNS)


class RowVersions:
    """What the new records of some keys do to the versions of their rows."""

    def __init__(self, keys: Any, offsets: Any, times: Any) -> None:
        """The arguments are pyarrow Arrays with one item for each record, in any order. ``keys`` are binary and differ
        for different partitions."""
        rows = pa.table([keys, offsets, times.cast(TIME)], names=["key", "offset", "time"])
        rows = rows.sort_by([("key", "ascending"), ("offset", "ascending")]).combine_chunks()
        key, offset, time = (_whole(rows[name]) for name in ("key", "offset", "time"))
        count = len(key)
        is_new_key = pa.array([], pa.bool_())
        ends = pa.nulls(0, TIME)
        if count:
            is_same = pc.equal(key.slice(1), key.slice(0, count - 1))
            is_new_key = pa.concat_arrays([pa.array([True]), pc.invert(is_same)])
            later = pc.if_else(is_same, time.slice(1), pa.scalar(None, TIME))
            ends = pa.concat_arrays([_whole(later), pa.nulls(1, TIME)])
            is_last = pa.concat_arrays([pc.invert(is_same), pa.array([True])])
        else:
            is_last = is_new_key
        self._places, self._ends, self._is_last = _places(key, offset), ends, is_last
        self._keys, self._first_times = key.filter(is_new_key), time.filter(is_new_key)

    def ended(self, rows: Any, keys: Any) -> Any:
        """Returns older rows of the table, where the current version of each key that has a new record ends."""
        at = pc.index_in(keys, value_set=self._keys)
        ends = pc.and_(at.is_valid(), rows.column(IS_CURRENT).fill_null(True))
        found = self._first_times.take(at)
        valid_to = pc.if_else(ends, found, rows.column(VALID_TO).cast(TIME))
        is_current = pc.and_(pc.invert(ends), rows.column(IS_CURRENT))
        return _with(rows, {VALID_TO: valid_to, IS_CURRENT: is_current})

    def started(self, rows: Any, keys: Any, offsets: Any, times: Any) -> Any:
        """Returns new rows with the time for which each is valid."""
        at = pc.index_in(_places(keys, offsets), value_set=self._places)
        columns = {
            VALID_FROM: times.cast(TIME),
            VALID_TO: self._ends.take(at),
            IS_CURRENT: self._is_last.take(at),
        }
        return _with(rows, columns)


def _places(keys: Any, offsets: Any) -> Any:
    return pc.binary_join_element_wise(
        keys, offsets.cast(pa.string()).cast(pa.binary()), pa.scalar(b"@", pa.binary())
    )


def _whole(array: Any) -> Any:
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


def _with(rows: Any, columns: dict[str, Any]) -> Any:
    names: Sequence[str] = rows.schema.names
    arrays = [columns.get(name, rows.column(at)) for at, name in enumerate(names)]
    cast = [each.cast(field.type) for each, field in zip(arrays, rows.schema, strict=True)]
    return pa.RecordBatch.from_arrays(cast, schema=rows.schema)
