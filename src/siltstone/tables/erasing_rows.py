"""``run_row_erasure`` is the task that looks for rows of erased keys in one file of a table, and writes the file again
without them. A file without such rows is left as it is.

The look reads all rows that are in the file, also rows that other programs have deleted (rule 16): they are gone from
the table, and not from the file. The new file has the rows that are left in the table.

The bytes that it writes follow from its input alone, as in ``task``.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from siltstone.object_store.port import ObjectStore
from siltstone.offline.erased_keys import NOT_ERASED, ErasedKeys
from siltstone.offline.erasures import StreamErasure
from siltstone.offline.tasks.runner import TaskCodec, TaskFailure, peak_memory_bytes
from siltstone.offline.tasks.source_bytes import store_at
from siltstone.record_columns.kernels.choosing import best_kernels
from siltstone.record_columns.kernels.columns import read_only
from siltstone.record_columns.row_columns import KEY, OFFSET, PARTITION
from siltstone.tables.formats.port import DataFile, PartitionValue, TableFile
from siltstone.tables.keys import column_at, key_bytes
from siltstone.tables.reading import RowFile, opened_file, realigned, restored
from siltstone.tables.sequences import REMOVED_NOTE
from siltstone.tables.task_input import FileLimits
from siltstone.tables.writing import FileWriting
from siltstone.topic_configs.table_export import PartitionTransform


class RowErasureInput(msgspec.Struct, frozen=True, kw_only=True):
    """``erasures`` has the erasures of each partition of the topic, by number. ``outer``: the path of the struct that
    has the columns of the record, with a dot; empty if there is none. ``has_names``: columns have their present names
    in the file, so the three that are compared can be read alone. The other fields are as in ``RewriteInput``."""

    name: str
    file: TableFile
    erasures: dict[int, tuple[StreamErasure, ...]]
    outer: str
    has_names: bool
    schema: bytes
    division: tuple[PartitionTransform, ...] = ()
    location: str
    folder: str
    token: str
    number: int
    limits: FileLimits = FileLimits()


class RowErasureResult(msgspec.Struct, frozen=True, kw_only=True):
    """``erased`` counts the rows that were found. There are no new ``files`` when no row is left, or none was found."""

    erased: int = 0
    files: tuple[DataFile, ...] = ()
    peak_memory_bytes: int = 0
    failure: TaskFailure | None = None


CODEC = TaskCodec(RowErasureInput, RowErasureResult)


def run_row_erasure(data: bytes) -> bytes:
    """Runs the task. Raises what the stores raise, and TableFileRefused."""
    given = CODEC.decode_input(data)
    return CODEC.encode_result(erase_rows(given, store_at(given.location, create=True)))


def erase_rows(given: RowErasureInput, store: ObjectStore) -> RowErasureResult:
    schema = pa.ipc.read_schema(pa.py_buffer(given.schema))
    compared = _Compared(given, schema)
    with opened_file(given.location, given.folder, _with_deleted_rows(given.file)) as file:
        erased = sum(int(compared.erased(rows).sum()) for rows in compared.rows_of(file))
    if not erased:
        return RowErasureResult(peak_memory_bytes=peak_memory_bytes())
    stem = f"{given.token}-{given.number:05}"
    writing = FileWriting(store, given.folder, stem, schema, given.limits)
    values: tuple[PartitionValue, ...] = given.file.partition
    if not given.file.kept:  # otherwise the driver refuses it by name
        with opened_file(given.location, given.folder, given.file) as file:
            removed = file.note(REMOVED_NOTE)
            for rows in file.batches():
                left = rows.filter(pa.array(~compared.erased(rows)))
                if left.num_rows:
                    writing.add(restored(left, schema, given.division, values), values)
            if removed:
                writing.note(REMOVED_NOTE, removed, values)
    return RowErasureResult(erased=erased, files=writing.close(), peak_memory_bytes=peak_memory_bytes())


def _with_deleted_rows(file: TableFile) -> TableFile:
    return msgspec.structs.replace(file, deleted=b"", deleted_rows=0)


class _Compared:
    """The columns by which rows are compared with the erased keys."""

    def __init__(self, given: RowErasureInput, schema: Any) -> None:
        self._outer = given.outer
        self._schema = None if given.has_names else schema
        self._keys: Mapping[int, ErasedKeys] = {
            number: ErasedKeys(erasures) for number, erasures in given.erasures.items()
        }
        self._kernels = best_kernels()

    def rows_of(self, file: RowFile) -> Iterator[Any]:
        names = [f"{self._outer}{name}" for name in (KEY, PARTITION, OFFSET)]
        yield from file.batches(names if self._schema is None else None)

    def erased(self, rows: Any) -> Any:
        """Returns for each row whether it is of an erased key. A row without a partition or an offset is no record of
        the topic."""
        if self._schema is not None:
            rows = realigned(rows, self._schema)
        keys = key_bytes(column_at(rows, f"{self._outer}{KEY}"))
        partitions = self._numbers(rows, PARTITION)
        offsets = self._numbers(rows, OFFSET)
        found = np.zeros(rows.num_rows, dtype=np.bool_)
        usable = np.asarray(keys.is_valid()) & (offsets >= 0)
        for number, erased in self._keys.items():
            (at,) = (usable & (partitions == number)).nonzero()
            if len(at):
                of_partition = keys.take(pa.array(at))
                hits = erased.found_among(*_bytes_of(of_partition), offsets[at], self._kernels)
                found[at[hits != NOT_ERASED]] = True
        return found

    def _numbers(self, rows: Any, name: str) -> Any:
        column = column_at(rows, f"{self._outer}{name}").cast(pa.int64())
        return column.fill_null(-1).to_numpy(zero_copy_only=False)


def _bytes_of(keys: Any) -> tuple[Any, Any, Any]:
    """Returns the bytes of a pyarrow.BinaryArray without nulls, and where each key begins and how long it is."""
    _, places, data = keys.buffers()
    ends = np.frombuffer(places, dtype=np.int32)[keys.offset : keys.offset + len(keys) + 1].astype(np.int64)
    return read_only(b"" if data is None else data), ends[:-1], ends[1:] - ends[:-1]
