"""Writes rows to Parquet files, one open file for each partition value, within a limit of memory.

The bytes of the files follow from the rows and their order, so a task that runs twice writes the same files. A file is
written to the store in one request, when it is closed.
"""

from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from siltstone.object_store.port import ObjectStore
from siltstone.tables.dividing import Values
from siltstone.tables.formats.footers import NAN_NOTE, leaves
from siltstone.tables.formats.port import DataFile
from siltstone.tables.task_input import FileLimits

DATA = "data/"
TOMBSTONE = "is tombstone"
"""A column that only staged files have: whether the record is a tombstone. No field of a value can have this name."""

_LASTING: dict[str, Any] = {"compression": "zstd", "write_page_index": True}
_STAGED: dict[str, Any] = {"compression": "lz4", "use_dictionary": False, "write_statistics": False}
"""A staged file is read once, as a whole, in the same round: written so, it takes a third of the CPU, and half as many
bytes again."""


class _OpenFile:
    """A file under construction, in memory."""

    def __init__(self, schema: Any) -> None:
        self._sink = pa.BufferOutputStream()
        options = _STAGED if TOMBSTONE in schema.names else _LASTING
        self._writer = pq.ParquetWriter(self._sink, schema, store_schema=False, **options)
        self._schema = schema
        self._floats = [path for path, kind in leaves(schema) if pa.types.is_floating(kind)]
        self._with_nan: set[str] = set()
        self._pending: list[Any] = []
        self.notes: dict[bytes, bytes] = {}
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
            self._with_nan |= {".".join(path) for path in self._floats if _has_nan(table, path)}
            self._pending, self.pending_bytes = [], 0

    @property
    def written_bytes(self) -> int:
        return int(self._sink.tell())

    @property
    def held_bytes(self) -> int:
        return self.pending_bytes + self.written_bytes

    def closed(self) -> memoryview:
        self.write_group()
        if self._floats:
            self.notes[NAN_NOTE] = msgspec.json.encode(sorted(self._with_nan))
        if self.notes:
            self._writer.add_key_value_metadata(self.notes)
        self._writer.close()
        return memoryview(self._sink.getvalue())


def _has_nan(table: Any, path: tuple[str, ...]) -> bool:
    column = table[path[0]]
    for name in path[1:]:
        column = pc.struct_field(column, name)
    return bool(pc.any(pc.is_nan(column)).as_py())


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

    def note(self, key: bytes, note: bytes, values: Values = ()) -> None:
        """Adds a note to the footer of the file that is open for these partition values. If none is open, the note
        gets a file without rows."""
        if values not in self._open:
            file = self._open[values] = _OpenFile(self._schema)
            self.held_bytes += file.held_bytes
        self._open[values].notes[key] = note

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
