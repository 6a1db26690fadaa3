"""Many rows of one topic as columns of numpy: what the encoder needs to know of all of them, found at once.

Rows with headers are not put into columns, nor are rows if the topic would refuse one of them: one by one they get an
error that names the fault."""

from typing import Any

import msgspec
import numpy as np

from siltstone.record_columns.arrow import byte_column, nulls
from siltstone.record_columns.kernels.choosing import best_kernels
from siltstone.record_columns.kernels.columns import NULL, ByteColumn, Integers
from siltstone.sinking.plan import TopicPlace

RECORD_OVERHEAD_BYTES = 24
"""An upper bound of what a record has besides key, value and headers."""

ANY_PARTITION = -1
"""The partition of a row that has no key and names none."""


class RowColumns(msgspec.Struct, frozen=True):
    """``sizes`` are upper bounds of the encoded rows; ``wanted`` has the partitions that rows name, ANY_PARTITION where
    one names none."""

    keys: ByteColumn
    values: ByteColumn
    times: Integers
    sizes: Integers
    wanted: Integers

    def in_order(self, order: Integers) -> "RowColumns":
        """Returns the rows in this order: row numbers, as of ``numpy.argsort``."""
        return RowColumns(
            _taken(self.keys, order),
            _taken(self.values, order),
            self.times[order],
            self.sizes[order],
            self.wanted[order],
        )


def columns_of(rows: Any, place: TopicPlace, now_ms: int) -> RowColumns | None:
    """Returns the columns of a pyarrow.RecordBatch; None if the rows have to go one by one. ``now_ms`` is the time of
    rows that have none."""
    names, count = rows.schema.names, rows.num_rows
    if "headers" in names and rows.column("headers").null_count < count:
        return None
    keys = byte_column(rows.column("key")) if "key" in names else nulls(count)
    if place.needs_keys and (keys.lengths == NULL).any():
        return None
    times = np.full(count, now_ms, dtype=np.int64)
    if "timestamp" in names:
        given, are_given = _numbers(rows.column("timestamp").cast("int64"))
        times = np.where(are_given, given // 1000, times)
        if place.has_own_times and not _are_in_time(place, times[are_given], now_ms):
            return None
    wanted = np.full(count, ANY_PARTITION, dtype=np.int64)
    if "partition" in names:
        given, are_given = _numbers(rows.column("partition"))
        if ((given < 0) | (given >= len(place.stream_ids))).any():
            return None
        wanted = np.where(are_given, given, wanted)
    values = byte_column(rows.column("value"))
    sizes = RECORD_OVERHEAD_BYTES + np.maximum(keys.lengths, 0) + np.maximum(values.lengths, 0)
    return RowColumns(keys, values, times, sizes, wanted)


def partitions_of(given: RowColumns, place: TopicPlace) -> Integers:
    """Returns the partition of each row: the one that it names, otherwise the one of its key, otherwise
    ANY_PARTITION."""
    count, keys = len(place.stream_ids), given.keys
    hashes = best_kernels().key_hashes(keys)
    numbers = (hashes & np.uint32(0x7FFF_FFFF)).astype(np.int64) % count
    numbers[keys.lengths == NULL] = ANY_PARTITION
    return np.where(given.wanted == ANY_PARTITION, numbers, given.wanted)


def _numbers(column: Any) -> tuple[Any, Any]:
    """Returns the numbers of a pyarrow.Array, 0 for a null, and which are not null."""
    are_given = column.is_valid().to_numpy(zero_copy_only=False)
    return column.fill_null(0).to_numpy(zero_copy_only=False), are_given


def _are_in_time(place: TopicPlace, times: Integers, now_ms: int) -> bool:
    are_late = times - now_ms > place.timestamp_after_max_ms
    are_early = now_ms - times > place.timestamp_before_max_ms
    return not (are_late | are_early).any()


def _taken(column: ByteColumn, rows: Integers) -> ByteColumn:
    return ByteColumn(column.data, column.starts[rows], column.lengths[rows])
