"""Writes rows to Parquet files, one open file for each partition value, within a limit of memory.

The bytes of the files follow from the rows and their order, so a task that runs twice writes the same files. A file is
written to the store in one request, when it is closed.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from siltstone.maintenance.tables.bucketing import bucket_of, truncated
from siltstone.maintenance.tables.formats.port import DataFile, PartitionValue
from siltstone.maintenance.tables.keys import column_at
from siltstone.maintenance.tables.task_input import FileLimits
from siltstone.object_store.port import ObjectStore
from siltstone.topic_configs.table_export import (
    BUCKET,
    IDENTITY,
    WITH_WIDTH,
    PartitionTransform,
    TableConfig,
)

DATA = "data/"
TOMBSTONE = "__tombstone"
"""A column that only staged files have: whether the record is a tombstone. The columns of fields do not show it."""
_UNITS_US = {"day": 86_400_000_000, "hour": 3_600_000_000}

Values = tuple[PartitionValue, ...]


class _OpenFile:
    """A file under construction, in memory."""

    def __init__(self, schema: Any) -> None:
        self._sink = pa.BufferOutputStream()
        self._writer = pq.ParquetWriter(
            self._sink, schema, compression="zstd", store_schema=False, write_page_index=True
        )
        self._schema = schema
        self._pending: list[Any] = []
        self.pending_bytes = 0
        self.rows = 0

    def add(self, rows: Any) -> None:
        self._pending.append(rows)
        self.pending_bytes += rows.nbytes
        self.rows += rows.num_rows

    def write_group(self) -> None:
        if self._pending:
            table = pa.Table.from_batches(self._pending, schema=self._schema)
            self._writer.write_table(table, row_group_size=table.num_rows)
            self._pending, self.pending_bytes = [], 0

    @property
    def written_bytes(self) -> int:
        return int(self._sink.tell())

    @property
    def held_bytes(self) -> int:
        return self.pending_bytes + self.written_bytes

    def closed(self) -> memoryview:
        self.write_group()
        self._writer.close()
        return memoryview(self._sink.getvalue())


class FileWriting:
    """Writes the files of one task for one table. ``held_bytes`` never exceeds the limit by more than one batch."""

    def __init__(self, store: ObjectStore, folder: str, stem: str, schema: Any, limits: FileLimits) -> None:
        self._store = store
        self._folder = folder
        self._stem = stem
        self._schema = schema
        self._limits = limits
        self._open: dict[Values, _OpenFile] = {}
        self.files: list[DataFile] = []
        self.held_bytes = 0

    def add(self, rows: Any, values: Values = ()) -> None:
        """Adds a pyarrow.RecordBatch whose rows all have these partition values. Raises what the store raises."""
        file = self._open.get(values)
        before = 0 if file is None else file.held_bytes
        if file is None:
            file = self._open[values] = _OpenFile(self._schema)
        file.add(rows)
        if file.pending_bytes >= self._limits.group_bytes:
            file.write_group()
        self.held_bytes += file.held_bytes - before
        if file.written_bytes >= self._limits.file_bytes:
            self._close(values)
        while self.held_bytes > self._limits.memory_bytes:
            self._close(max(self._open, key=lambda each: self._open[each].held_bytes))

    def close(self) -> tuple[DataFile, ...]:
        """Writes the files that are still open. Returns all files of the task."""
        for values in list(self._open):
            self._close(values)
        return tuple(self.files)

    def _close(self, values: Values) -> None:
        file = self._open.pop(values)
        self.held_bytes -= file.held_bytes
        data = file.closed()
        path = f"{DATA}{self._stem}-{len(self.files):04}.parquet"
        self._store.put(f"{self._folder}{path}", [data])
        self.files.append(DataFile(path, file.rows, len(data), values))


def staged_schema(schema: Any) -> Any:
    """Returns the pyarrow.Schema of staged files of a table: records that are not merged yet."""
    return pa.schema([*schema, pa.field(TOMBSTONE, pa.bool_())])


def divided(
    rows: Any, by: tuple[PartitionTransform, ...], config: TableConfig
) -> Iterator[tuple[Values, Any]]:
    """Cuts a pyarrow.RecordBatch into one for each combination of partition values, in the order of their first
    rows; the order of the rows is kept."""
    if not by:
        yield (), rows
        return
    columns = [_values(rows, each, config) for each in by]
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


def _values(rows: Any, by: PartitionTransform, config: TableConfig) -> Any:
    """Returns the partition values of the rows [as Iceberg's transforms]: for times the number of units since 1970,
    rounded down."""
    column = column_at(rows, config.source_of(by.column))
    if by.transform == IDENTITY:
        return column
    if by.kind in WITH_WIDTH:
        return bucket_of(column, by.width) if by.kind == BUCKET else truncated(column, by.width)
    if by.transform in _UNITS_US:
        times = column.view(pa.int64())
        floored = np.floor_divide(times.fill_null(0).to_numpy(zero_copy_only=False), _UNITS_US[by.transform])
        units = pa.array(floored, pa.int64())
    else:
        units = pc.subtract(pc.cast(pc.year(column), pa.int64()), 1970)
        if by.transform == "month":
            units = pc.add(pc.multiply(units, 12), pc.subtract(pc.month(column), 1))
    return pc.if_else(column.is_valid(), units, pa.scalar(None, pa.int64()))
