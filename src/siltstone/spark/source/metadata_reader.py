"""The tables of the metadata as DataFrames: ``option("table", "objects")`` of the format ``siltstone``.

The driver reads the metadata, because executors on other machines do not reach a file of SQLite, and gives each task
one batch of rows as Arrow's bytes, compressed. A DataFrame keeps them, so it shows one moment as long as it lives.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from siltstone.scanning.failures import ScanRefused
from siltstone.spark.option_names import is_of_client, password_in, unknown_option
from siltstone.spark.source.options import BUCKET_OPTION, time_option_ms

if TYPE_CHECKING:
    from siltstone.metadata_tables.catalog import TableOfMoment

TABLE_OPTION = "table"
METADATA_OPTIONS = ("store", "metadata", TABLE_OPTION, "metadataVersion", "asOf")
"""Every option of a read of the metadata except ``bucket.N``."""


class MetadataRequest(msgspec.Struct, frozen=True):
    """``store`` is the folder of a store or the URL of its metadata; or ``metadata`` and ``buckets`` are URLs."""

    store: str | None
    metadata: str | None
    buckets: dict[int, str]
    table: str
    version: int | None = None
    as_of_ms: int | None = None


def metadata_request(given: Mapping[str, str]) -> MetadataRequest | None:
    """Returns what the options ask for; None if they name no table. Raises ScanRefused."""
    lowered = {name.lower(): value for name, value in given.items()}
    if TABLE_OPTION not in lowered:
        return None
    known = {name.lower() for name in METADATA_OPTIONS}
    buckets = {}
    for raw, value in given.items():
        if bucket := BUCKET_OPTION.fullmatch(raw.lower()):
            buckets[int(bucket[1])] = value
        elif raw.lower() not in known and not is_of_client(raw.lower()):
            raise ScanRefused(unknown_option(raw, METADATA_OPTIONS))
    if refusal := password_in(given):
        raise ScanRefused(refusal)
    store, metadata = lowered.get("store"), lowered.get("metadata")
    if (store is None) == (metadata is None):
        raise ScanRefused(
            "option store (a folder) or the options metadata and bucket.N (URLs) name the store: give one"
        )
    version = lowered.get("metadataversion")
    if version is not None and not (version.isascii() and version.isdigit()):
        raise ScanRefused(f"option metadataVersion={version!r}: write a number")
    as_of = lowered.get("asof")
    return MetadataRequest(
        store,
        metadata,
        buckets,
        lowered[TABLE_OPTION],
        None if version is None else int(version),
        None if as_of is None else time_option_ms("asOf", as_of),
    )


def read_metadata_table(request: MetadataRequest) -> "TableOfMoment":
    """Reads the metadata, on the driver. Raises ScanRefused, MetadataTableUnknown, and what reading the metadata
    raises."""
    from siltstone.metadata_tables.reading import read_tables  # noqa: PLC0415  only a driver needs it
    from siltstone.scanning.source import open_source, source_settings  # noqa: PLC0415

    place: dict[str, Any] = {"metadata": request.metadata, "buckets": request.buckets}
    return read_tables(
        source_settings(request.store, **place),
        partial(open_source, request.store, **place),
        version=request.version,
        as_of_ms=request.as_of_ms,
    ).table(request.table)


def metadata_schema(request: MetadataRequest) -> StructType:
    """Returns the columns of the table, without reading anything. Raises MetadataTableUnknown."""
    from siltstone.metadata_tables.catalog import metadata_table  # noqa: PLC0415
    from siltstone.metadata_tables.columns import schema_of  # noqa: PLC0415

    return from_arrow_schema(schema_of(metadata_table(request.table)))


class RowsPartition(InputPartition):  # type: ignore[misc]
    """One batch of rows, in Arrow's format for streams."""

    def __init__(self, rows: bytes) -> None:
        super().__init__(rows)


class MetadataReader(DataSourceReader):  # type: ignore[misc]
    """Reads the metadata on the driver. Its pickled copy in a task has no request, which could name a place."""

    def __init__(self, request: MetadataRequest, columns: Sequence[str]) -> None:
        self._request: MetadataRequest | None = request
        self._columns = list(columns)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_request": None}

    def partitions(self) -> list[InputPartition]:
        assert self._request is not None
        table = read_metadata_table(self._request)
        return [RowsPartition(encode_rows(batch)) for batch in table.batches(self._columns)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yields the rows. Spark reads an empty table by one empty partition."""
        if partition is not None and partition.value is not None:
            yield from decode_rows(partition.value)


def encode_rows(batch: Any) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def decode_rows(encoded: bytes) -> Iterator[Any]:
    with pa.ipc.open_stream(encoded) as reader:
        yield from reader
