"""Finds what other programs have done to an Iceberg table: files of deletes, other divisions, other names of columns.

A program that merges on read writes the deleted rows of data files into other files [Iceberg spec, delete formats]. A
file of *position deletes* has paths of data files and positions in them. A file of *equality deletes* has values; rows
with these values are deleted. Each applies to data files that are not younger than it, as sequence numbers say, and
equality deletes apply only to files of their own partition value, unless their division has no columns.

Position deletes are applied to what is read. pyiceberg's plan of a scan refuses a table with equality deletes, so
manifests are read here if there are any deletes; a data file to which they apply is unreadable.
"""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import msgspec
import pyarrow.parquet as pq
from pyiceberg.manifest import DataFileContent, FileFormat, ManifestContent

from siltstone.tables.formats.features import IcebergTraits
from siltstone.tables.formats.locations import is_elsewhere
from siltstone.tables.row_deletes import DeletedRows

_REWRITE = "CALL system.rewrite_data_files(table => 'TABLE', options => map('rewrite-all', 'true'{}))"
_OF_DELETES = ", 'use-starting-sequence-number', 'false', 'remove-dangling-deletes', 'true'"
"""Without it the new files would be as old as those before, and the deletes would apply to them still."""
_HAS_EQUALITY_DELETES = (
    "it has equality deletes, which only the engine that wrote them applies, or a file of deletes that is not Parquet:"
    f" Spark's {_REWRITE.format(_OF_DELETES)} writes its rows to new files"
)
_IS_NOT_PARQUET = (
    f"it is a file of {{}}: set write.format.default to parquet; then Spark's {_REWRITE.format('')} writes its rows to"
    " other files"
)
_IS_ENCRYPTED = "it is encrypted"
_IS_DIVIDED_OTHERWISE = (
    f"it is of another division of the table: Spark's {_REWRITE.format('')} writes its rows to other files"
)
_LIES_ELSEWHERE = (
    "it lies outside the folder of the table: take write.data.path back; then Spark's"
    f" {_REWRITE.format('')} writes its rows to files inside"
)


class FileDeletes(msgspec.Struct, frozen=True):
    """What was deleted of a data file: ``rows`` as ``row_deletes`` packs them. ``are_known``: these are all."""

    rows: bytes = b""
    are_known: bool = True


def has_deletes(table: Any) -> bool:
    """Raises what the catalog and the store raise."""
    return any(each.content == ManifestContent.DELETES for each in _manifests(table))


def data_files(table: Any) -> Iterator[tuple[Any, FileDeletes]]:
    """Yields the data files of the newest snapshot, as pyiceberg has them, with their deletes. Raises what the catalog
    and the store raise."""
    if not has_deletes(table):
        # Why not the plan of a scan: it leaves out files without rows, and their footers say which keys were removed.
        for manifest in _manifests(table):
            for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True):
                yield entry.data_file, FileDeletes()
        return
    data: list[Any] = []
    deletes: list[Any] = []
    for manifest in _manifests(table):
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True):
            (data if entry.data_file.content == DataFileContent.DATA else deletes).append(entry)
    rows = _deleted_rows(table, data, deletes)
    for entry in data:
        path = entry.data_file.file_path
        are_known = not any(_applies_unread(each, entry, table.specs()) for each in deletes)
        yield entry.data_file, FileDeletes(rows[path].packed() if path in rows else b"", are_known)


def _manifests(table: Any) -> list[Any]:
    snapshot = table.current_snapshot()
    return [] if snapshot is None else list(snapshot.manifests(table.io))


def _is_read(deletes: Any) -> bool:
    file = deletes.data_file
    return bool(file.content == DataFileContent.POSITION_DELETES and file.file_format == FileFormat.PARQUET)


def _deleted_rows(table: Any, data: list[Any], deletes: list[Any]) -> dict[str, DeletedRows]:
    """Reads the position deletes, one batch after another: in memory is a bit for each row of the files that have
    any."""
    found: dict[str, DeletedRows] = {}
    entries = {each.data_file.file_path: each for each in data}
    for each in filter(_is_read, deletes):
        with table.io.new_input(each.data_file.file_path).open() as stream:
            for batch in pq.ParquetFile(stream).iter_batches(columns=["file_path", "pos"]):
                for path, positions in _by_path(batch):
                    entry = entries.get(path)
                    if entry is not None and entry.sequence_number <= each.sequence_number:
                        of_file = found.setdefault(path, DeletedRows(entry.data_file.record_count))
                        of_file.add(positions)
    return found


def _by_path(batch: Any) -> Iterator[tuple[str, Any]]:
    paths = batch.column("file_path").dictionary_encode()
    numbers, positions = paths.indices.to_numpy(), batch.column("pos").to_numpy()
    for number, path in enumerate(paths.dictionary.to_pylist()):
        yield path, positions[numbers == number]


def _applies_unread(deletes: Any, data: Any, specs: Any) -> bool:
    """Returns whether a file of deletes that is not read here may apply to a data file. Equality deletes apply to older
    files alone, position deletes also to files of the same commit."""
    if _is_read(deletes):
        return False
    file = deletes.data_file
    if file.content != DataFileContent.EQUALITY_DELETES:
        return bool(data.sequence_number <= deletes.sequence_number)
    if data.sequence_number >= deletes.sequence_number:
        return False
    is_global = not specs[file.spec_id].fields
    return is_global or (file.spec_id, file.partition) == (data.data_file.spec_id, data.data_file.partition)


def why_unreadable(file: Any, deletes: FileDeletes) -> str:
    """Returns why a data file cannot be read as the table means it; nothing if it can."""
    if not deletes.are_known:
        return _HAS_EQUALITY_DELETES
    if file.file_format != FileFormat.PARQUET:
        return _IS_NOT_PARQUET.format(file.file_format.value)
    return _IS_ENCRYPTED if file.key_metadata else ""


def why_kept(file: Any, path: str, spec_id: int) -> str:
    """Returns why a data file cannot be replaced, besides that it is unreadable; nothing if it can. ``path`` is below
    the folder of the table, ``spec_id`` is the present division."""
    if file.spec_id != spec_id:
        return _IS_DIVIDED_OTHERWISE
    return _LIES_ELSEWHERE if is_elsewhere(path) else ""


def names_are_kept(metadata: Any) -> bool:
    """Returns whether no column was renamed, and none was dropped whose name another column has now. Programs may have
    removed older schemas; then it is not known."""
    known = {each.schema_id for each in metadata.schemas}
    if not known.issuperset(range(max(known))):
        return False
    ids: dict[str, set[int]] = defaultdict(set)
    names: dict[int, set[str]] = defaultdict(set)
    for schema in metadata.schemas:
        for name, field_id in _named(schema):
            ids[name].add(field_id)
            names[field_id].add(name)
    (current,) = (each for each in metadata.schemas if each.schema_id == metadata.current_schema_id)
    return all(len(ids[name]) == len(names[field_id]) == 1 for name, field_id in _named(current))


def _named(schema: Any) -> Iterator[tuple[str, int]]:
    for field_id in schema.field_ids:
        yield schema.find_column_name(field_id), field_id


def traits_of(metadata: Any) -> IcebergTraits:
    """Returns what decides about features."""
    fields = [schema.find_field(field_id) for schema in metadata.schemas for field_id in schema.field_ids]
    order = next(
        (each for each in metadata.sort_orders if each.order_id == metadata.default_sort_order_id), None
    )
    return IcebergTraits(
        version=metadata.format_version,
        properties=metadata.properties,
        has_keys=bool(getattr(metadata, "encryption_keys", None)),
        default_columns=tuple(each.name for each in fields if each.initial_default is not None),
        has_row_ids=getattr(metadata, "next_row_id", None) is not None,
        sort_fields=0 if order is None else len(order.fields),
        statistics=len(metadata.statistics) + len(metadata.partition_statistics),
        refs=frozenset(metadata.refs),
    )
