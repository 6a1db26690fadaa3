"""Reads the rows of data files, batch by batch, and puts them into the present schema of the table.

A column is found by the field id that Iceberg assigned, and otherwise by its name: the id also finds the column in a
file that was written before the column was renamed. A column that a file lacks is null.
"""

from collections.abc import Iterable, Iterator, Sequence
from io import SEEK_CUR, SEEK_END, SEEK_SET, RawIOBase
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from msgspec.structs import replace

from siltstone.model.limits import MIB
from siltstone.object_store.port import ObjectStore
from siltstone.offline.tasks.source_bytes import store_at
from siltstone.tables.failures import TableFileRefused
from siltstone.tables.formats.derived import with_division
from siltstone.tables.formats.locations import is_elsewhere, store_and_key
from siltstone.tables.formats.port import DataFile, PartitionValue, TableFile
from siltstone.tables.keys import column_at, key_bytes
from siltstone.tables.row_deletes import deleted_flags, live_flags
from siltstone.topic_configs.table_export import PartitionTransform

BATCH_ROWS = 65_536
BATCH_BYTES = 32 * MIB
_FIELD_ID = b"PARQUET:field_id"


class _StoredFile(RawIOBase):
    """A file in the store, read by ranges."""

    def __init__(self, store: ObjectStore, key: str, size_bytes: int) -> None:
        super().__init__()
        self._store, self._key, self._size_bytes = store, key, size_bytes
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = SEEK_SET) -> int:
        self._at = offset + {SEEK_SET: 0, SEEK_CUR: self._at, SEEK_END: self._size_bytes}[whence]
        return self._at

    def read(self, size: int | None = -1) -> bytes:
        left = self._size_bytes - self._at
        wanted = left if size is None or size < 0 else min(size, left)
        data = self._store.get_range(self._key, self._at, self._at + wanted) if wanted > 0 else b""
        self._at += len(data)
        return bytes(data)


class RowFile:
    """A data file that is open, in a folder of the store. The rows that other programs have deleted of it are not read
    (rule 16). Raises TableFileRefused if these are not known."""

    def __init__(
        self, store: ObjectStore, folder: str, file: DataFile, *, batch_bytes: int = BATCH_BYTES
    ) -> None:
        self._batch_bytes = batch_bytes
        self._deleted = deleted_flags(b"")
        if isinstance(file, TableFile):
            if file.unreadable:
                raise TableFileRefused(
                    folder.strip("/").replace("/", "."), file.path, "read", file.unreadable
                )
            self._deleted = deleted_flags(file.deleted)
        self._file = pq.ParquetFile(
            _StoredFile(store, f"{folder}{file.path}", file.size_bytes), coerce_int96_timestamp_unit="us"
        )

    def __enter__(self) -> "RowFile":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[Any]:
        """Yields the rows of the file as pyarrow.RecordBatches, none with rows of two row groups: a group that an
        export has written takes a limited number of bytes in memory, however large its rows are. ``columns`` are paths;
        None: all columns."""
        at = 0
        for group in range(self._file.num_row_groups):
            for rows in self._file.iter_batches(
                self._batch_rows(group), row_groups=[group], columns=columns, use_threads=False
            ):
                live = live_flags(self._deleted, at, rows.num_rows)
                at += rows.num_rows
                usual = _in_usual_types(rows)
                yield usual if live is None else usual.filter(pa.array(live))

    def note(self, key: bytes) -> bytes:
        """Returns a note of the footer; nothing if the file has none of this key."""
        return bytes((self._file.metadata.metadata or {}).get(key, b""))

    def _batch_rows(self, group: int) -> int:
        """Returns how many rows of the file take a limited number of bytes, also in a file of another program."""
        metadata = self._file.metadata.row_group(group)
        row_bytes = max(1, metadata.total_byte_size // max(1, metadata.num_rows))
        return int(max(1, min(BATCH_ROWS, self._batch_bytes // row_bytes)))

    def column_bytes(self, path: str) -> int:
        """Returns the bytes of a column before compression, of a struct those of its fields."""
        metadata = self._file.metadata
        paths = {at: f"{metadata.schema.column(at).path}." for at in range(metadata.num_columns)}
        return sum(
            metadata.row_group(group).column(at).total_uncompressed_size
            for group in range(metadata.num_row_groups)
            for at, each in paths.items()
            if each.startswith(f"{path}.")
        )


def _in_usual_types(rows: Any) -> Any:
    """Returns the rows without types for which Arrow lacks functions. Programs that write with Arrow note its types in
    the file: deltalake texts as views, others as dictionaries."""
    schema = pa.schema([_in_usual_type(each) for each in rows.schema], rows.schema.metadata)
    return rows if schema.equals(rows.schema) else rows.cast(schema)


def _in_usual_type(field: Any) -> Any:
    return field.with_type(_usual_type(field.type))


_OF_VIEWS = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}


def _usual_type(kind: Any) -> Any:
    types = pa.types
    if kind in _OF_VIEWS:
        return _OF_VIEWS[kind]
    if types.is_dictionary(kind) or types.is_run_end_encoded(kind):
        return _usual_type(kind.value_type)
    if types.is_list(kind) or types.is_list_view(kind) or types.is_fixed_size_list(kind):
        return pa.list_(_in_usual_type(kind.value_field))
    if types.is_large_list(kind) or types.is_large_list_view(kind):
        return pa.large_list(_in_usual_type(kind.value_field))
    if types.is_map(kind):
        return pa.map_(_in_usual_type(kind.key_field), _in_usual_type(kind.item_field))
    return pa.struct([_in_usual_type(each) for each in kind]) if types.is_struct(kind) else kind


def opened_file(location: str, folder: str, file: TableFile) -> RowFile:
    """Opens a data file of a table below ``tables.location``, also one that lies elsewhere."""
    if not is_elsewhere(file.path):
        return RowFile(store_at(location), folder, file)
    place, key = store_and_key(file.path, location)
    return RowFile(store_at(place), "", replace(file, path=key))


def restored(
    rows: Any, schema: Any, division: tuple[PartitionTransform, ...], values: tuple[PartitionValue, ...]
) -> Any:
    """Puts rows of a data file of one partition value into the schema of the table. ``division`` has the transforms of
    a Delta table, whose columns may not be in the file."""
    lacking = set(schema.names).difference(rows.schema.names) if division else ()
    return with_division(realigned(rows, schema), division, values, lacking)


def realigned(rows: Any, schema: Any) -> Any:
    """Puts a pyarrow.RecordBatch into the schema."""
    if rows.schema.equals(schema, check_metadata=True):
        return rows
    there = list(zip(rows.schema, rows.columns, strict=True))
    return pa.RecordBatch.from_arrays([_found(each, there, rows.num_rows) for each in schema], schema=schema)


def _found(field: Any, there: Sequence[tuple[Any, Any]], count: int) -> Any:
    field_id = _id_of(field)
    by_id = [array for each, array in there if field_id is not None and _id_of(each) == field_id]
    by_name = [array for each, array in there if each.name == field.name and None in (field_id, _id_of(each))]
    array = next(iter(by_id or by_name), None)
    return pa.nulls(count, field.type) if array is None else _of_type(array, field.type)


def _id_of(field: Any) -> bytes | None:
    return (field.metadata or {}).get(_FIELD_ID)


def _of_type(array: Any, kind: Any) -> Any:
    if array.type.equals(kind, check_metadata=True):
        return array
    if array.offset:
        array = array.take(pa.array(range(len(array)), pa.int64()))
    if pa.types.is_struct(kind):
        there = list(zip(array.type, array.flatten(), strict=True))
        parts = [_found(each, there, len(array)) for each in kind]
        return pa.StructArray.from_arrays(parts, fields=list(kind), mask=array.is_null())
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        whole = pa.ListArray if pa.types.is_list(kind) else pa.LargeListArray
        offsets = array.offsets.cast(pa.int32() if pa.types.is_list(kind) else pa.int64())
        return whole.from_arrays(
            offsets, _of_type(array.values, kind.value_type), type=kind, mask=array.is_null()
        )
    if pa.types.is_map(kind):
        keys, items = _of_type(array.keys, kind.key_type), _of_type(array.items, kind.item_type)
        return pa.MapArray.from_arrays(array.offsets, keys, items, type=kind, mask=array.is_null())
    return array.cast(kind)


def repeated_keys(location: str, folder: str, files: Iterable[TableFile], key: str) -> int:
    """Counts how many more rows than keys an upsert table has, because some keys have records in several partitions.
    ``key`` is the path of the key's column. The keys of one bucket are in memory at a time. Raises TableFileRefused."""
    buckets: dict[tuple[Any, ...], list[TableFile]] = {}
    for each in files:
        buckets.setdefault(each.partition, []).append(each)
    found = 0
    for of_bucket in buckets.values():
        keys: list[Any] = []
        for each in of_bucket:
            with opened_file(location, folder, each) as file:
                keys.extend(key_bytes(column_at(rows, key)) for rows in file.batches([key]))
        whole = pa.chunked_array(keys)
        found += len(whole) - len(whole.unique())
    return found
