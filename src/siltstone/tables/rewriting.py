"""``run_rewrite`` is the task that replaces files of a table by others. It joins small files, or merges the newest
records of a bucket into its rows.

To merge, it first reads the partitions, keys and offsets of the staged files, and finds the newest offset of each
partition and key. Then it writes the old rows whose partition and key are not among the staged ones, and the newest
staged row of each key, except tombstones. In a table that keeps versions it writes all of them instead, and each ends
the version before it (``versions``); in a table with sequences these decide what is newest (``sequences``). A staged
row always has a higher offset than an old row, because the ledger never moves back. A bucket with more staged rows or
keys than fit in memory is merged in *slices*; each slice has the keys of some hashes.

The bytes that it writes follow from its input alone, as in ``task``.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from siltstone.model.limits import MIB
from siltstone.object_store.port import ObjectStore
from siltstone.offline.tasks.runner import peak_memory_bytes
from siltstone.offline.tasks.source_bytes import store_at
from siltstone.record_columns.row_columns import OFFSET, PARTITION, TIMESTAMP
from siltstone.tables.bucketing import hashes_of
from siltstone.tables.formats.port import DataFile
from siltstone.tables.keys import column_at, key_bytes
from siltstone.tables.reading import RowFile, restored
from siltstone.tables.rewrite_input import CODEC, RewriteInput, RewriteResult, RewriteResults
from siltstone.tables.sequences import REMOVED_NOTE, RemovedKeys, SequencedRecords
from siltstone.tables.versions import TIME, RowVersions
from siltstone.tables.writing import TOMBSTONE, FileWriting
from siltstone.topic_configs.table_export import SEQUENCE_COLUMN

SLICE_ROWS = 1_000_000
SLICE_KEY_BYTES = 64 * MIB
"""The most staged rows of a slice, and the most bytes of their keys: a task holds the keys of a slice in memory."""


def run_rewrite(data: bytes) -> bytes:
    """Runs the task. Raises what the stores raise."""
    given = CODEC.decode_input(data)
    store = store_at(given.each[0].location, create=True)
    return CODEC.encode_result(RewriteResults(tuple(rewrite(each, store) for each in given.each)))


def rewrite(given: RewriteInput, store: ObjectStore) -> RewriteResult:
    return _Rewriting(given, store).rewrite()


class _Rewriting:
    def __init__(self, given: RewriteInput, store: ObjectStore) -> None:
        self._given = given
        self._store = store
        self._schema = pa.ipc.read_schema(pa.py_buffer(given.schema))
        stem = f"{given.token}-{given.number:05}"
        self._files = FileWriting(store, given.folder, stem, self._schema, given.limits)

    def rewrite(self) -> RewriteResult:
        if self._given.key:
            self._merge()
        else:
            for rows in self._rows(self._given.old):
                self._write(rows)
        files = self._files.close()
        return RewriteResult(
            files=files,
            rows=sum(each.rows for each in files),
            bytes_read=sum(each.size_bytes for each in (*self._given.old, *self._given.staged)),
            bytes_written=sum(each.size_bytes for each in files),
            peak_memory_bytes=peak_memory_bytes(),
        )

    def _rows(self, files: Sequence[DataFile], columns: Sequence[str] | None = None) -> Iterator[Any]:
        for each in files:
            with RowFile(self._store, self._given.folder, each) as file:
                yield from file.batches(columns)

    def _write(self, rows: Any) -> None:
        if rows.num_rows:
            shaped = restored(rows, self._schema, self._given.division, self._given.values)
            self._files.add(shaped, self._given.values)

    # -- merging -------------------------------------------------------------------------------------------------

    def _merge(self) -> None:
        given, slices = self._given, self._slices()
        if given.has_sequence:
            removed = self._removed_keys()
            for number in range(slices):
                self._merge_by_sequence(number, slices, removed)
            if note := removed.note(given.now_ms):
                self._files.note(REMOVED_NOTE, note, given.values)
            return
        merge = self._merge_versions if given.has_history else self._merge_newest
        for number in range(slices):
            merge(number, slices)

    def _merge_newest(self, number: int, slices: int) -> None:
        """Merges one slice by offsets."""
        keys, offsets = self._newest(number, slices)
        truncates = self._given.truncates
        for rows in self._rows(() if truncates else self._given.old):
            at = pc.index_in(self._keys(rows), value_set=keys)
            self._write(rows.filter(pc.and_(at.is_null(), self._is_in(rows, number, slices))))
        for rows in self._rows(self._given.staged):
            newest = offsets.take(pc.index_in(self._keys(rows), value_set=keys))
            is_newest = pc.equal(self._column(rows, OFFSET), newest).fill_null(False)
            if truncates:
                is_newest = pc.and_(is_newest, pc.greater(newest, truncates[-1].offset).fill_null(False))
            self._write(rows.filter(pc.and_(is_newest, pc.invert(rows.column(TOMBSTONE)))))

    def _removed_keys(self) -> RemovedKeys:
        removed = RemovedKeys()
        for each in self._given.old:
            with RowFile(self._store, self._given.folder, each) as file:
                removed.read(file.note(REMOVED_NOTE))
        return removed

    def _merge_by_sequence(self, number: int, slices: int, removed: RemovedKeys) -> None:
        """Merges one slice of a table whose rows have sequences."""
        names = [self._given.key, *(f"{self._outer}{name}" for name in (PARTITION, OFFSET)), SEQUENCE_COLUMN]
        parts: list[Any] = []
        for rows in self._rows(self._given.staged, [*names, TOMBSTONE]):
            of_slice = rows.filter(self._is_in(rows, number, slices))
            columns = [self._keys(of_slice), self._column(of_slice, OFFSET)]
            columns += [of_slice.column(SEQUENCE_COLUMN), of_slice.column(TOMBSTONE)]
            parts.append(pa.table(columns, names=["key", OFFSET, SEQUENCE_COLUMN, TOMBSTONE]))
        if not parts:
            return
        new = pa.concat_tables(parts)
        newest = SequencedRecords(new["key"], new[SEQUENCE_COLUMN], new[OFFSET], new[TOMBSTONE], removed)
        for rows in self._rows(self._given.old, names):
            if (
                SEQUENCE_COLUMN in rows.schema.names
            ):  # another program may have added a file without the column
                newest.see(self._keys(rows), rows.column(SEQUENCE_COLUMN))
        newest.settle(removed, self._given.now_ms)
        for rows in self._rows(self._given.old):
            stays = pc.and_(newest.old_stay(self._keys(rows)), self._is_in(rows, number, slices))
            self._write(rows.filter(stays))
        for rows in self._rows(self._given.staged):
            self._write(rows.filter(newest.are_rows(self._keys(rows), self._column(rows, OFFSET))))

    def _merge_versions(self, number: int, slices: int) -> None:
        """Merges one slice of a table that keeps all versions of its rows."""
        names = [self._given.key, *(f"{self._outer}{name}" for name in (PARTITION, OFFSET, TIMESTAMP))]
        keys, offsets, times = [pa.array([], pa.binary())], [pa.array([], pa.int64())], [pa.nulls(0, TIME)]
        for rows in self._rows(self._given.staged, names):
            of_slice = rows.filter(self._is_in(rows, number, slices))
            keys.append(self._keys(of_slice))
            offsets.append(self._column(of_slice, OFFSET))
            times.append(self._column(of_slice, TIMESTAMP).cast(TIME))
        columns = pa.concat_arrays(keys), pa.concat_arrays(offsets), pa.concat_arrays(times)
        versions = RowVersions(*columns, self._given.truncates)
        for rows in self._rows(self._given.old):
            of_slice = rows.filter(self._is_in(rows, number, slices))
            self._write(versions.ended(of_slice, self._keys(of_slice)))
        for rows in self._rows(self._given.staged):
            is_row = pc.and_(self._is_in(rows, number, slices), pc.invert(rows.column(TOMBSTONE)))
            new = rows.filter(is_row)
            self._write(
                versions.started(
                    new, self._keys(new), self._column(new, OFFSET), self._column(new, TIMESTAMP)
                )
            )

    def _slices(self) -> int:
        rows = sum(each.rows for each in self._given.staged)
        key_bytes = 0
        for each in self._given.staged:
            with RowFile(self._store, self._given.folder, each) as file:
                key_bytes += file.column_bytes(self._given.key)
        return max(1, -(-rows // SLICE_ROWS), -(-key_bytes // SLICE_KEY_BYTES))

    def _newest(self, number: int, slices: int) -> tuple[Any, Any]:
        """Returns the partitions and keys of a slice's staged rows, joined to one text each, and their newest
        offsets."""
        names = [self._given.key, *(f"{self._outer}{name}" for name in (PARTITION, OFFSET))]
        parts = []
        for rows in self._rows(self._given.staged, names):
            of_slice = rows.filter(self._is_in(rows, number, slices))
            parts.append(
                pa.table([self._keys(of_slice), self._column(of_slice, OFFSET)], names=["key", OFFSET])
            )
        if not parts:
            return pa.array([], pa.binary()), pa.array([], pa.int64())
        found = pa.concat_tables(parts).group_by("key", use_threads=False).aggregate([(OFFSET, "max")])
        return found["key"].combine_chunks(), found[f"{OFFSET}_max"].combine_chunks()

    @property
    def _outer(self) -> str:
        """The path of the struct that has the columns of the record."""
        return self._given.key.rpartition(".")[0] and f"{self._given.key.rpartition('.')[0]}."

    def _column(self, rows: Any, name: str) -> Any:
        return column_at(rows, f"{self._outer}{name}")

    def _key(self, rows: Any) -> Any:
        return key_bytes(column_at(rows, self._given.key))

    def _keys(self, rows: Any) -> Any:
        partitions = self._column(rows, PARTITION).cast(pa.string()).cast(pa.binary())
        return pc.binary_join_element_wise(partitions, self._key(rows), pa.scalar(b":", pa.binary()))

    def _is_in(self, rows: Any, number: int, slices: int) -> Any:
        """Says which rows belong to the slice. The hash is mixed again, because the hashes of all keys of a bucket have
        one remainder."""
        if slices == 1:
            return pa.array(np.ones(rows.num_rows, dtype=np.bool_))
        mixed = (hashes_of(self._key(rows)) * np.uint32(0x9E3779B1)) >> np.uint32(8)
        return pa.array(mixed % np.uint32(slices) == number)
