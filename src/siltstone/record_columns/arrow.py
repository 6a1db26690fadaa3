"""Records as Arrow record batches, column by column. Only this module imports pyarrow.

A column that is not wanted costs nothing: the kernels find where keys, values and headers lie, and only those of a
wanted column are copied, once, into Arrow's buffers. Rows are in offset order. A record batch of Arrow has at most
``ROWS_MAX`` rows and about ``ROW_BYTES_MAX`` bytes; Spark gains nothing from larger ones.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np

from siltstone.model.errors import InvalidRequest
from siltstone.model.limits import MIB
from siltstone.record_columns.batches import BAD_BATCH, Batches
from siltstone.record_columns.chunking import Records, chunks, unreadable
from siltstone.record_columns.kernels import columns
from siltstone.record_columns.kernels.columns import NULL, ByteColumn, Flags, Integers, read_only
from siltstone.record_columns.kernels.port import Kernels
from siltstone.record_columns.row_columns import (
    HEADERS,
    KEY,
    OFFSET,
    PARTITION,
    TIMESTAMP,
    TIMESTAMP_TYPE,
    TOPIC,
    VALUE,
)

try:
    import pyarrow as pa
except ModuleNotFoundError as missing:
    if missing.name != "pyarrow":
        raise
    pa = None

ROWS_MAX = 16_384
ROW_BYTES_MAX = 32 * MIB
_MICROSECONDS = 1_000
_MS_MAX = (2**63 - 1) // _MICROSECONDS


class ArrowMissing(InvalidRequest):
    """pyarrow, pandas or Polars is not installed."""


class TimestampNotInRange(InvalidRequest):
    """The time of a record is so far from 1970 that Arrow's microseconds cannot hold it."""


OnFarTime = Callable[[int, int, int], None]
"""(partition, offset, time in ms): is called for a record with such a time, which is then null in its row."""


def require_arrow() -> Any:
    """Returns the module pyarrow. Raises ArrowMissing."""
    if pa is None:
        raise ArrowMissing("scans need pyarrow; install it: pip install 'siltstone[arrow]'")
    return pa


def arrow_schema(names: Sequence[str]) -> Any:
    """Returns the pyarrow.Schema of the columns. Raises ArrowMissing."""
    arrow = require_arrow()
    return arrow.schema([(name, _type_of(name)) for name in names])


def _type_of(name: str) -> Any:
    if name == HEADERS:
        return pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    types = {
        KEY: pa.binary(), VALUE: pa.binary(), TOPIC: pa.string(), PARTITION: pa.int32(), OFFSET: pa.int64(),
        TIMESTAMP: pa.timestamp("us", tz="UTC"), TIMESTAMP_TYPE: pa.int32(),
    }  # fmt: skip
    return types[name]


class RecordRows:
    """Makes Arrow record batches from the batches of one partition. ``names`` are the wanted columns."""

    def __init__(
        self,
        topic: str,
        partition: int,
        names: Sequence[str],
        kernels: Kernels,
        times: tuple[int | None, int | None] = (None, None),
        on_far_time: OnFarTime | None = None,
        *,
        rows_max: int = ROWS_MAX,
        row_bytes_max: int = ROW_BYTES_MAX,
    ) -> None:
        """``times``: records from the first on, and before the second, in ms; None is no bound. Without
        ``on_far_time``, a time that microseconds cannot hold is an error. ``rows_max`` and
        ``row_bytes_max``: of one Arrow record batch. Raises ArrowMissing."""
        self._rows_max = rows_max
        self._row_bytes_max = row_bytes_max
        self._topic_name = topic
        self._partition_number = partition
        self._names = tuple(names)
        self._kernels = kernels
        self._schema = arrow_schema(names)
        self._from_ms, self._until_ms = times
        self._on_far_time = on_far_time

    def rows(
        self, batches: Batches, start_offset: int, end_offset: int, left_out: Flags | None = None
    ) -> Iterator[Any]:
        """Yields the records of the batches with offsets in [start, end), as pyarrow.RecordBatch. Control batches, the
        batches that key compaction has emptied, and those marked in ``left_out`` give no rows. Raises UnreadableBatch,
        TimestampNotInRange."""
        opened: Flags = ~batches.are_control
        if left_out is not None:
            opened &= ~left_out
        opened &= (batches.end_offsets > start_offset) & (batches.base_offsets < end_offset)
        opened &= (batches.record_counts > 0) | (batches.sizes > columns.FRAME_AND_HEADER_BYTES)
        if not opened.any():
            return
        for chunk in chunks(batches, opened, self._kernels):
            records = chunk.records
            is_wanted = (records.offsets >= start_offset) & (records.offsets < end_offset)
            if self._from_ms is not None or self._until_ms is not None:
                is_wanted &= self._in_time(batches, records)
            wanted = np.flatnonzero(is_wanted)
            for first, end in self._portions(records, wanted):
                yield self._record_batch(batches, records, wanted[first:end])

    def _portions(self, records: Records, wanted: Integers) -> Iterator[tuple[int, int]]:
        """Yields the ranges of the wanted records that become one Arrow record batch each."""
        sizes = np.zeros(len(wanted), dtype=np.int64)
        for name, length in ((KEY, columns.KEY_BYTES), (VALUE, columns.VALUE_BYTES)):
            if name in self._names:
                sizes += np.maximum(records.columns[length][wanted], 0)
        ends = np.cumsum(sizes)
        first = 0
        while first < len(wanted):
            before = int(ends[first - 1]) if first else 0
            fits = int(np.searchsorted(ends, before + self._row_bytes_max, side="right"))
            end = min(max(fits, first + 1), first + self._rows_max, len(wanted))
            yield first, end
            first = end

    def _record_batch(self, batches: Batches, records: Records, wanted: Integers) -> Any:
        arrays = [self._column(name, batches, records, wanted) for name in self._names]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _column(self, name: str, batches: Batches, records: Records, wanted: Integers) -> Any:
        column: Callable[[Batches, Records, Integers], Any] = getattr(self, f"_{name}")
        return column(batches, records, wanted)

    def _key(self, _: Batches, records: Records, wanted: Integers) -> Any:
        found = records.columns
        return self._bytes(records, found[columns.KEY_AT][wanted], found[columns.KEY_BYTES][wanted])

    def _value(self, _: Batches, records: Records, wanted: Integers) -> Any:
        found = records.columns
        return self._bytes(records, found[columns.VALUE_AT][wanted], found[columns.VALUE_BYTES][wanted])

    def _topic(self, _: Batches, __: Records, wanted: Integers) -> Any:
        return pa.repeat(pa.scalar(self._topic_name, pa.string()), len(wanted))

    def _partition(self, _: Batches, __: Records, wanted: Integers) -> Any:
        return pa.array(np.full(len(wanted), self._partition_number, dtype=np.int32))

    def _offset(self, _: Batches, records: Records, wanted: Integers) -> Any:
        return pa.array(records.offsets[wanted])

    def _timestampType(self, batches: Batches, records: Records, wanted: Integers) -> Any:  # noqa: N802
        return pa.array(batches.have_log_append_time[records.batch[wanted]].astype(np.int32))

    def _in_time(self, batches: Batches, records: Records) -> Flags:
        times = _times_ms(batches, records, np.arange(len(records)))
        found: Flags = np.ones(len(times), dtype=np.bool_)
        if self._from_ms is not None:
            found &= times >= self._from_ms
        if self._until_ms is not None:
            found &= times < self._until_ms
        return found

    def _timestamp(self, batches: Batches, records: Records, wanted: Integers) -> Any:
        times = _times_ms(batches, records, wanted)
        is_out = (times > _MS_MAX) | (times < -_MS_MAX)
        if not is_out.any():
            return pa.array(times * _MICROSECONDS).view(pa.timestamp("us", tz="UTC"))
        for at in np.flatnonzero(is_out).tolist():
            offset, time_ms = int(records.offsets[wanted[at]]), int(times[at])
            if self._on_far_time is None:
                raise TimestampNotInRange(
                    f"the record at offset {offset} of {self._topic_name}-{self._partition_number} has the time"
                    f" {time_ms} ms, which Arrow's microseconds cannot hold; leave the column timestamp out"
                )
            self._on_far_time(self._partition_number, offset, time_ms)
        held = np.where(is_out, 0, times) * _MICROSECONDS
        return pa.array(held, mask=is_out).view(pa.timestamp("us", tz="UTC"))

    def _bytes(self, records: Records, starts: Integers, lengths: Integers) -> Any:
        """Returns the byte ranges as a binary array, null where the length is -1."""
        positive = np.maximum(lengths, 0)
        data = self._kernels.gather(records.data, starts, starts + positive)
        offsets = np.zeros(len(lengths) + 1, dtype=np.int32)
        np.cumsum(positive, out=offsets[1:])
        validity, nulls = _validity(lengths >= 0)
        buffers = [validity, pa.py_buffer(offsets), pa.py_buffer(data)]
        return pa.Array.from_buffers(pa.binary(), len(lengths), buffers, nulls)

    def _headers(self, batches: Batches, records: Records, wanted: Integers) -> Any:
        found = records.columns
        value_end = found[columns.VALUE_AT][wanted] + np.maximum(found[columns.VALUE_BYTES][wanted], 0)
        record_end = np.ascontiguousarray(found[columns.RECORD_END][wanted])
        try:
            counts = self._kernels.count_headers(records.data, value_end, record_end)
        except BAD_BATCH as cause:
            raise unreadable(batches, int(records.offsets[wanted[0]]), cause) from cause
        headers = self._kernels.decode_headers(records.data, value_end, record_end, counts)
        names = self._bytes(records, headers[columns.NAME_AT], headers[columns.NAME_BYTES])
        contents = self._bytes(records, headers[columns.CONTENT_AT], headers[columns.CONTENT_BYTES])
        pairs = pa.StructArray.from_arrays([_as_text(names), contents], names=["key", "value"])
        offsets = np.zeros(len(counts) + 1, dtype=np.int32)
        np.cumsum(counts, out=offsets[1:])
        validity, nulls = _validity(counts > 0)
        buffers = [validity, pa.py_buffer(offsets)]
        return pa.Array.from_buffers(_type_of(HEADERS), len(counts), buffers, nulls, children=[pairs])


def _times_ms(batches: Batches, records: Records, wanted: Integers) -> Integers:
    """Returns the times of the records: with LogAppendTime that of the batch."""
    batch = records.batch[wanted]
    created = batches.column(columns.BASE_MS)[batch] + records.columns[columns.TIME_DELTA][wanted]
    return np.where(batches.have_log_append_time[batch], batches.column(columns.MAX_MS)[batch], created)


def _validity(are_valid: Flags) -> tuple[Any, int]:
    """Arrow's bitmap of the values that are not null, None when all are; and the number of nulls."""
    nulls = int(len(are_valid) - are_valid.sum())
    return (pa.py_buffer(np.packbits(are_valid, bitorder="little")) if nulls else None), nulls


def _as_text(names: Any) -> Any:
    """Header names as strings. Bytes that are not UTF-8 become U+FFFD, as in Java's clients."""
    try:
        return names.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([name.decode("utf-8", "replace") for name in names.to_pylist()], pa.string())


def table_of(batches: Iterable[Any], schema: Any) -> Any:
    """Returns the record batches as one pyarrow.Table of the schema. Raises ArrowMissing."""
    return require_arrow().Table.from_batches(batches, schema=schema)


def parquet_bytes(table: Any) -> bytes:
    """Returns a pyarrow.Table as the bytes of a Parquet file."""
    import pyarrow.parquet  # noqa: PLC0415  takes long to load

    out = pyarrow.BufferOutputStream()
    pyarrow.parquet.write_table(table, out)
    return bytes(out.getvalue())


def pandas_frame(table: Any) -> Any:
    """Returns the table as a pandas.DataFrame. Raises ArrowMissing."""
    if find_spec("pandas") is None:
        raise ArrowMissing("to_pandas needs pandas; install it: pip install 'siltstone[pandas]'")
    return table.to_pandas()


def polars_frame(table: Any) -> Any:
    """Returns the table as a polars.DataFrame. Raises ArrowMissing."""
    if find_spec("polars") is None:
        raise ArrowMissing("to_polars needs Polars; install it: pip install 'siltstone[polars]'")
    import polars  # noqa: PLC0415  an optional dependency, which takes long to import

    return polars.from_arrow(table)


# -- the other way


def byte_column(column: object) -> ByteColumn:
    """Returns the values of a pyarrow.Array of binary or string, not copied. Raises ArrowMissing."""
    arrow = require_arrow()
    array = column.cast(arrow.large_binary())  # type: ignore[attr-defined]
    count = len(array)
    _, offsets_buffer, data_buffer = array.buffers()
    offsets = np.zeros(1, dtype=np.int64)
    if offsets_buffer is not None:
        offsets = np.frombuffer(offsets_buffer, dtype=np.int64)[array.offset : array.offset + count + 1]
    data = np.zeros(0, dtype=np.uint8)
    if data_buffer is not None:
        data = np.frombuffer(data_buffer, dtype=np.uint8)[: int(offsets[-1])]
    first = int(offsets[0]) if count else 0
    data.flags.writeable = False
    lengths = np.diff(offsets)
    lengths[array.is_null().to_numpy(zero_copy_only=False)] = NULL
    return ByteColumn(data[first:], offsets[:-1] - first, lengths)


def nulls(count: int) -> ByteColumn:
    """Returns so many nulls."""
    empty = np.zeros(count, dtype=np.int64)
    return ByteColumn(read_only(b""), empty, empty + NULL)
