"""Versions of rows: a table with ``siltstone.table.history=scd2`` keeps each row that a key has had, and for how long
(a slowly changing dimension of type 2).

A version begins at the time of its record and ends at the time of the next record of its key, which is a newer version
or a tombstone, or of a truncate before that. A version that has no end is the current one. Versions come in the order
of the offsets of a partition: if the times of two records are the other way round, a version may end before it begins.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from siltstone.tables.task_input import Truncate

VALID_FROM = "_valid_from"
VALID_TO = "_valid_to"
IS_CURRENT = "_is_current"
VERSION_COLUMNS = (VALID_FROM, VALID_TO, IS_CURRENT)

TIME = pa.timestamp("us", tz="UTC")
_NEVER = 2**63 - 1
"""An offset that comes after every record."""


def version_fields() -> list[Any]:
    """Returns the columns of versions as pyarrow.Fields."""
    return [pa.field(VALID_FROM, TIME), pa.field(VALID_TO, TIME), pa.field(IS_CURRENT, pa.bool_())]


def has_versions(schema: Any) -> bool:
    """Returns whether a table of this schema keeps versions. One of the names alone may be a field of its values."""
    return all(name in schema.names for name in VERSION_COLUMNS)


class RowVersions:
    """What the new records of some keys do to the versions of their rows."""

    def __init__(self, keys: Any, offsets: Any, times: Any, truncates: Sequence[Truncate] = ()) -> None:
        """The arguments are pyarrow Arrays with one item for each record, in any order. ``keys`` are binary and differ
        for different partitions. ``truncates`` are in the order of their offsets, and only where there is one
        partition."""
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
            ends, is_last = _ended_by(truncates, offset, ends, is_last)
        else:
            is_last = is_new_key
        self._places, self._ends, self._is_last = _places(key, offset), ends, is_last
        self._keys, self._first_times = key.filter(is_new_key), time.filter(is_new_key)
        self._first_offsets, self._truncate = offset.filter(is_new_key), next(iter(truncates), None)

    def ended(self, rows: Any, keys: Any) -> Any:
        """Returns older rows of the table, where the current version of each key that has a new record ends."""
        at = pc.index_in(keys, value_set=self._keys)
        found = self._first_times.take(at)
        is_ended = at.is_valid()
        if self._truncate is not None:
            comes_first = pc.less(self._first_offsets.take(at), self._truncate.offset).fill_null(False)
            found = pc.if_else(comes_first, found, pa.scalar(self._truncate.time_us, TIME))
            is_ended = pa.array([True] * len(keys), pa.bool_())
        ends = pc.and_(is_ended, rows.column(IS_CURRENT).fill_null(True))
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


def _ended_by(truncates: Sequence[Truncate], offsets: Any, ends: Any, is_last: Any) -> tuple[Any, Any]:
    """Returns when the records of sorted keys end, and which of them have no end, after the truncates, too."""
    if not truncates:
        return ends, is_last
    at = np.searchsorted([each.offset for each in truncates], offsets.to_numpy(), side="right")
    # The truncate of each record, and the next record of its key; one that is lacking comes after everything.
    comes = np.array([*(each.offset for each in truncates), _NEVER])[at]
    following = pc.if_else(
        is_last, _NEVER, pa.concat_arrays([offsets.slice(1), pa.array([_NEVER])])
    ).to_numpy()
    is_truncated = pa.array(comes < following)
    times = pa.array([*(each.time_us for each in truncates), None], pa.int64()).cast(TIME)
    return pc.if_else(is_truncated, times.take(pa.array(at)), ends), pc.and_(is_last, pc.invert(is_truncated))


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
