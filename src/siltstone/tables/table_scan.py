"""Reads the rows of a table from its data files, where the files do not have them as they are.

``file_inputs`` makes an input for each file, in the driver. ``rows_of_files`` is the function that Spark's tasks run.
It reads one file after another, batch by batch, without the rows that other programs have deleted. It finds columns by
the ids that Iceberg gave them, and fills the columns by which a Delta table is divided.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec
import pyarrow as pa

from siltstone.offline.settings import TableSettings
from siltstone.tables.failures import TableFileRefused
from siltstone.tables.formats.port import LoadedTable, TableFile, folder_of
from siltstone.tables.reading import opened_file, realigned, restored
from siltstone.topic_configs.table_export import PartitionTransform
from siltstone.value_formats.column_arrays import plain_type


class FileInput(msgspec.Struct, frozen=True, kw_only=True):
    """A data file, and the schema of the table in Arrow's IPC form. ``division``: the transforms of a Delta table."""

    location: str
    folder: str
    file: TableFile
    schema: bytes
    division: tuple[PartitionTransform, ...] = ()


def file_inputs(table: LoadedTable, files: Sequence[TableFile], settings: TableSettings) -> list[bytes]:
    """Returns the input of each file. Raises TableFileRefused if a file cannot be read as the table means it."""
    schema = table.file_schema.serialize().to_pybytes()
    for each in files:
        if each.unreadable:
            raise TableFileRefused(table.name, each.path, "read", each.unreadable)
    return [
        msgspec.msgpack.encode(
            FileInput(
                location=settings.location,
                folder=folder_of(table.name),
                file=each,
                schema=schema,
                division=table.columns_of_division,
            )
        )
        for each in files
    ]


def rows_of_files(batches: Iterable[Any]) -> Iterator[Any]:
    """Yields the rows of the files whose inputs are in the only column of the batches. Raises what the store raises."""
    for batch in batches:
        for encoded in batch.column(0).to_pylist():
            yield from _rows_of(msgspec.msgpack.decode(encoded, type=FileInput))


def _rows_of(given: FileInput) -> Iterator[Any]:
    schema = pa.ipc.read_schema(pa.py_buffer(given.schema))
    plain = pa.schema([pa.field(each.name, plain_type(each.type)) for each in schema])
    with opened_file(given.location, given.folder, given.file) as file:
        for rows in file.batches():
            yield realigned(restored(rows, schema, given.division, given.file.partition), plain)
