"""The classes that Spark calls: the data source, its reader, and a partition of Spark's, which is one scan unit.

Spark plans when a DataFrame is loaded and keeps the partitions with it, so a DataFrame shows one moment for as long as
it lives. It calls the methods in processes of its own: what they share travels in the options and in the units.

No class here defines ``pushFilters``: in Spark 4.3 a pushed filter stays with the plan, and the next action on the same
DataFrame misses rows [Spark: SPARK-58551].
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

import msgspec
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_type
from pyspark.sql.types import StructType

from siltstone.offline.context import MaintenanceContext
from siltstone.record_columns.row_columns import HEADERS, VALUE, chosen_columns
from siltstone.scanning.failures import ScanRefused
from siltstone.scanning.rows import unit_rows
from siltstone.scanning.scan import plan_scan, settle_values
from siltstone.scanning.unit import decode_unit, encode_unit
from siltstone.scanning.values import rows_schema
from siltstone.spark.client_options import BY_ENVIRONMENT, take_client_options
from siltstone.spark.sink.options import SinkPlace, parse_sink_options
from siltstone.spark.sink.writers import TopicStreamWriter, TopicWriter
from siltstone.spark.source.metadata_reader import MetadataReader, metadata_request, metadata_schema
from siltstone.spark.source.options import SourceRequest, parse_options
from siltstone.spark.source.stream_options import parse_stream_options, without_stream_options
from siltstone.spark.task_attempt import freeze_heap
from siltstone.value_formats.value_format import FormatKind, ValueFormat, encode_type

if TYPE_CHECKING:
    from siltstone.spark.source.stream_reader import TopicStreamReader

FORMAT = "siltstone"

STREAMS_REFUSED = (
    "this Spark gives a source in Python no limits of micro-batches (pyspark.sql.streaming.datasource): streams need"
    " Spark 4.2 or newer; spark.read works"
)


class UnitPartition(InputPartition):  # type: ignore[misc]
    """One scan unit, encoded."""

    def __init__(self, unit: bytes) -> None:
        super().__init__(unit)


class TopicDataSource(DataSource):  # type: ignore[misc]
    """The format ``siltstone``: topics of a store, read straight from its buckets, written by its brokers, and the
    tables of its metadata. Spark finds it as ``pyspark_siltstone.DefaultSource``. ``settled`` is the value format that
    ``schema`` has settled: Spark sends the object to the process that makes the reader."""

    settled: ValueFormat | None = None

    def __init__(self, options: dict[str, str]) -> None:
        """Spark keeps what it is given here, so what says how to connect is taken out first."""
        self.client, rest = take_client_options(options)
        super().__init__(rest)

    @contextmanager
    def open_with_client(self, options: SourceRequest | SinkPlace) -> Iterator[MaintenanceContext]:
        """Opens the store, whose brokers are connected to as the options say. Raises what ``ClientChoice.found``
        does, although nothing is connected to yet."""
        self.client.found()
        with self.open_source(options) as opened:
            yield msgspec.structs.replace(opened, client=self.client.found)

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def open_source(self, options: SourceRequest | SinkPlace) -> AbstractContextManager[MaintenanceContext]:
        from siltstone.scanning.source import open_source  # noqa: PLC0415  only a driver needs it, and workers import this

        return open_source(options.store, metadata=options.metadata, buckets=options.buckets)

    def schema(self) -> StructType:
        """Returns the schema of the options. With decoded values it follows from a schema registry, or from the first
        values, which are read for it."""
        self.settled = None
        if (of_metadata := metadata_request(self.options)) is not None:
            return metadata_schema(of_metadata)
        options = parse_options(without_stream_options(self.options))
        if options.request.values is not None:
            with self.open_with_client(options) as opened:
                self.settled = settle_values(opened, options.request)
        return spark_schema(options.request.columns, self.settled)

    def reader(self, schema: StructType) -> "TopicReader | MetadataReader":
        """Makes the reader. A schema that the user gives chooses the columns and their order, as the option ``columns``
        does, and the fields of JSON values."""
        if (of_metadata := metadata_request(self.options)) is not None:
            return MetadataReader(of_metadata, schema.names)
        return TopicReader(self, self._with_columns(schema, parse_options(self.options)))

    def streamReader(self, schema: StructType) -> "TopicStreamReader":  # noqa: N802  Spark's name
        try:
            from siltstone.spark.source.stream_reader import TopicStreamReader  # noqa: PLC0415  not with Spark 4.1
        except ModuleNotFoundError as missing:
            raise ScanRefused(STREAMS_REFUSED) from missing
        options = parse_stream_options(self.options)
        wish = options.source.request.values
        if wish is not None and wish.infers and not wish.location:
            raise ScanRefused(
                "columns=infer in a stream needs the option schemaLocation, where the columns are kept, so that the"
                " query has the same ones when it is started again: name a folder or a bucket of the query's own, such"
                " as that of its checkpoint"
            )
        source = self._with_columns(schema, options.source)
        stream = msgspec.structs.replace(options.stream, scan=source.request)
        return TopicStreamReader(
            self.open_with_client,
            msgspec.structs.replace(options, source=source, stream=stream),
            self.client,
        )

    def _with_columns(self, schema: StructType, options: SourceRequest) -> SourceRequest:
        request = options.request
        if request.values is not None and request.values.infers:
            return self._with_found_columns(schema, options)
        columns = chosen_columns(schema.names, with_headers=HEADERS in schema.names)
        settled = self.settled
        if settled is None and request.values is not None and VALUE in columns:
            settled = self._settled_by(schema, options)
        refuse_other_types(schema, spark_schema(columns, settled))
        request = msgspec.structs.replace(request, columns=columns, value_format=settled)
        return msgspec.structs.replace(options, request=request)

    def _with_found_columns(self, schema: StructType, options: SourceRequest) -> SourceRequest:
        """Returns the request with the columns that ``schema`` has found. Raises ScanRefused for a schema of the
        user's own: the columns whose types are known are listed."""
        ours = None if self.settled is None else spark_schema(options.request.columns, self.settled)
        if ours is None or ours.names != schema.names:
            raise ScanRefused(
                "columns=infer finds the columns, and a schema is given as well: leave the schema out, and list columns"
                " with their types in the option, as in 'infer, at timestamp'"
            )
        refuse_other_types(schema, ours)
        request = msgspec.structs.replace(options.request, value_format=self.settled)
        return msgspec.structs.replace(options, request=request)

    def _settled_by(self, schema: StructType, options: SourceRequest) -> ValueFormat | None:
        """Returns the value format of a read with the user's own schema, which tells the fields of JSON values."""
        wish = options.request.values
        assert wish is not None
        if wish.kind is FormatKind.JSON and wish.reader is None and not wish.type_ipc:
            type_ipc = encode_type(to_arrow_type(schema[VALUE].dataType, timezone="UTC"))
            wish = msgspec.structs.replace(wish, type_ipc=type_ipc)
        with self.open_with_client(options) as opened:
            return settle_values(opened, msgspec.structs.replace(options.request, values=wish))

    def writer(self, schema: StructType, overwrite: bool) -> TopicWriter:
        request = parse_sink_options(self.options, overwrite=overwrite, is_stream=False)
        return TopicWriter(self.open_with_client, request, schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> TopicStreamWriter:  # noqa: N802
        request = parse_sink_options(self.options, overwrite=overwrite, is_stream=True)
        return TopicStreamWriter(self.open_with_client, request, schema)


class TopicReader(DataSourceReader):  # type: ignore[misc]
    """Plans on the driver. Its pickled copy in a task has no options: only how to connect, if a unit has a tail."""

    def __init__(self, source: TopicDataSource, options: SourceRequest) -> None:
        self._source: TopicDataSource | None = source
        self._options: SourceRequest | None = options
        self._client = source.client

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_source": None, "_options": None}

    def partitions(self) -> list[InputPartition]:
        assert self._source is not None and self._options is not None
        with self._source.open_with_client(self._options) as opened:
            plan = plan_scan(opened, self._options.request)
        if not any(unit.tail_pieces for unit in plan.units):
            self._client = BY_ENVIRONMENT
        return [UnitPartition(encode_unit(unit)) for unit in plan.units]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        if (
            partition is not None and partition.value is not None
        ):  # Spark reads an empty plan by one empty partition
            unit = decode_unit(partition.value)
            yield from unit_rows(unit, security=self._client.security() if unit.tail_pieces else None)
        freeze_heap()


def spark_schema(columns: tuple[str, ...], value_format: ValueFormat | None = None) -> StructType:
    return from_arrow_schema(rows_schema(columns, value_format))


def refuse_other_types(wanted: StructType, ours: StructType) -> None:
    """Raises ScanRefused if a column of the user's schema has another type than the scan gives it."""
    for field, own in zip(wanted.fields, ours.fields, strict=True):
        if field.dataType != own.dataType:
            raise ScanRefused(
                f"column {field.name} is {own.dataType.simpleString()}, and the given schema has"
                f" {field.dataType.simpleString()}: give its own type, and cast the column afterwards"
            )
