"""Has the functions for programs that use Spark: ``session`` and ``read``, public as ``siltstone.spark.session`` and
``.read``.

Both work where no Java is installed: the first Java that is found is used, and if there is none, the JRE in the wheel
of ``siltstone[java]``.
"""

import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from siltstone.metadata.commands import PinScan
from siltstone.offline.context import check_metadata_is_newest
from siltstone.offline.topic_streams import PartitionName
from siltstone.record_columns.row_columns import OFFSET
from siltstone.runtime.clock import SystemClock
from siltstone.runtime.randomness import random_token, system_randomness
from siltstone.scanning.arguments import scan_request
from siltstone.scanning.counting import count_records
from siltstone.scanning.failures import ScanRefused
from siltstone.scanning.naming import scan_name
from siltstone.scanning.planning import wanted_partitions
from siltstone.scanning.renewal import PinRenewal
from siltstone.scanning.request import Bound, BoundKind, Bounds, ScanRequest
from siltstone.scanning.source import open_source
from siltstone.spark.kafka_connector import kafka_connector_jars
from siltstone.spark.naming import format_named, show_in_notebooks
from siltstone.spark.starting import SparkAlreadyRunning, active_context, start_session
from siltstone.topic_configs.table_export import RESCUED, VARIANT
from siltstone.value_formats.value_format import FormatKind

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger(__name__)

LOCAL = "local[*]"
_SUBMITTED = ("PYSPARK_GATEWAY_PORT", "SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED")
"""One of these variables is set where Spark was started before the program: by spark-submit, by a notebook server, or
by Spark Connect."""


def session(
    master: str | None = None, settings: Mapping[str, str] | None = None, *, kafka: bool = False
) -> "SparkSession":
    """Returns a SparkSession that reads ``format("siltstone")``: the session of this process, or a new one on a master
    such as ``local[*]``, the default, or ``spark://host:7077``. ``settings`` are Spark's. With ``kafka`` it also has
    Spark's own Kafka connector, ``format("kafka")``, whose jars are fetched from Maven Central once and kept.

    A program that spark-submit started gets the session of its cluster. Raises SparkMissing, JavaNotFound,
    SparkNotStarted, JarsUnavailable, and SparkAlreadyRunning if a Spark runs already and a master, settings or the
    connector are asked for."""
    if kafka:
        settings = _with_jars(settings or {})
    chooses = master is not None or bool(settings)
    if not chooses and (active_context() is not None or any(name in os.environ for name in _SUBMITTED)):
        from pyspark.sql import SparkSession  # noqa: PLC0415  takes a second, and is an extra

        return SparkSession.builder.getOrCreate()
    return start_session(master or LOCAL, settings=settings)


def _with_jars(settings: Mapping[str, str]) -> dict[str, str]:
    if active_context() is not None:
        raise SparkAlreadyRunning(
            "this process runs a Spark already, which cannot get the Kafka connector any more"
        )
    jars = [*filter(None, settings.get("spark.jars", "").split(",")), *map(str, kafka_connector_jars())]
    return {**settings, "spark.jars": ",".join(jars)}


def read(
    topics: str | Sequence[str],
    *,
    store: Path | str,
    spark: "SparkSession | None" = None,
    schema: Any = None,
    options: Mapping[str, Any] | None = None,
    **words: Any,
) -> "DataFrame":
    """Returns a topic, or several, as a DataFrame: the same as ``spark.read.format("siltstone")``, with the arguments
    of ``siltstone.scan``. ``schema`` may be a StructType or its DDL for JSON values. ``options`` are more options of
    the format, such as ``minPartitions``. Spark's pages show the scan with its topics, objects and bytes, and a
    notebook shows the columns.

    Spark asks a source written in Python for all columns and all rows, whatever the query drops. So what is left out
    here is not read, and what ``select``, ``where`` and ``limit`` leave out is: name ``columns``, ``partitions``,
    ``start``, ``end``, ``timestamp_from`` and ``limit``. With ``value="json"`` and ``columns="variant"`` values are
    VARIANT, which Spark 4 has.

    The DataFrame shows the topics as they are at the time of the call. The pin that keeps its objects is renewed for as
    long as the program refers to the DataFrame. After that the pin lasts until the end of its lease, for DataFrames
    that were derived from this one. Raises what ``session`` raises, and what planning a scan raises."""
    spark = spark or session()
    if words.get("columns") == VARIANT:
        return _variants(topics, store, schema, spark, options or {}, words)
    return _frame(
        store, scan_request(topics, schema=_schema(schema, words.get("value")), **words), spark, options or {}
    )


def _variants(
    topics: str | Sequence[str],
    store: Path | str,
    schema: Any,
    spark: "SparkSession",
    options: Mapping[str, Any],
    words: Mapping[str, Any],
) -> "DataFrame":
    """Returns the records with JSON values as VARIANT, which Spark parses itself: a value that is no JSON is null, and
    ``_rescued_data`` has its bytes. Raises ScanRefused."""
    if words.get("value") != FormatKind.JSON.value or schema is not None:
        raise ScanRefused("columns='variant' makes VARIANT of JSON values: give value='json', and no schema")
    from pyspark.sql import functions  # noqa: PLC0415  takes a second, and is an extra

    if not hasattr(functions, "try_parse_json"):
        raise ScanRefused("this Spark has no VARIANT: use Spark 4, or columns='infer'")
    rest = {name: each for name, each in words.items() if name not in ("columns", "value", "bad_values")}
    frame = _frame(store, scan_request(topics, **rest), spark, options)
    parsed = functions.try_parse_json(functions.col("value").cast("string"))
    return frame.withColumns(
        {
            "value": parsed,
            RESCUED: functions.when(parsed.isNull(), functions.col("value")),
        }
    )


def _frame(
    store: Path | str, request: ScanRequest, spark: "SparkSession", options: Mapping[str, Any]
) -> "DataFrame":
    from siltstone.spark.source.data_source import TopicDataSource  # noqa: PLC0415  imports pyspark

    if request.lease_ms:
        request = msgspec.structs.replace(request, pin_token=random_token(system_randomness()))
    renewal, name = _pinned_and_named(Path(store) if "://" not in str(store) else store, request)
    reader = spark.read.format(format_named(spark, name, TopicDataSource)).options(
        **_options(store, request, options)
    )
    frame = reader.load()
    if request.rows_max:
        frame = frame.limit(request.rows_max)
    show_in_notebooks(frame, name)
    if renewal is not None:
        renewal.keep_for(frame, leaves_pin=True)  # frames that are derived from it do not refer to it
    return frame


def count(
    topics: str | Sequence[str],
    *,
    store: Path | str,
    spark: "SparkSession | None" = None,
    **words: Any,
) -> int:
    """Returns how many records the scan with these arguments of ``siltstone.scan`` has, as ``read(…).count()`` does,
    and always exactly. It reads only what it has to, and logs what that was: nothing where the metadata says that
    every offset is a record, which needs no Spark; the indexes of objects where key compaction was; and the records,
    by Spark, where there are times, or transactions. Raises what ``read`` raises."""
    request = scan_request(topics, **words)
    with open_source(Path(store) if "://" not in str(store) else store) as source:
        found = count_records(source, request)
    log.info("counted %s: %s", ", ".join(request.topics), found)
    if not found.to_read:
        return found.records
    rest = msgspec.structs.replace(
        request,
        topics=(),
        assigned=_assigned(found.to_read),
        partitions=None,
        columns=(OFFSET,),
        values=None,
        start=_offsets(found.to_read, 0),
        end=_offsets(found.to_read, 1),
    )
    read: int = _frame(store, rest, spark or session(), {}).count()
    return found.records + read


def _assigned(ranges: Mapping[PartitionName, tuple[int, int]]) -> dict[str, tuple[int, ...]]:
    topics = {topic for topic, _ in ranges}
    return {topic: tuple(number for name, number in ranges if name == topic) for topic in sorted(topics)}


def _offsets(ranges: Mapping[PartitionName, tuple[int, int]], end: int) -> Bounds:
    return Bounds(None, {each: Bound(BoundKind.OFFSET, offsets[end]) for each, offsets in ranges.items()})


def _options(store: Path | str, request: ScanRequest, options: Mapping[str, Any]) -> dict[str, Any]:
    from siltstone.spark.source.options import encode_request  # noqa: PLC0415  imports pyspark

    return {"store": str(store), "scanRequest": encode_request(request), **options}


def _pinned_and_named(store: Path | str, request: ScanRequest) -> tuple[PinRenewal | None, str]:
    """Puts the pin of the scan before Spark plans the scan, so that the pin is renewed from now on, and names the
    scan."""
    with open_source(store) as source:
        image = source.metadata.image
        partitions = wanted_partitions(image, request)  # before the pin: a mistyped name costs none
        if request.lease_ms:
            check_metadata_is_newest(source)
            holder = f"siltstone.spark.read: {', '.join(request.topics or request.assigned or ())}"
            source.metadata.execute(PinScan(request.pin_token, request.lease_ms, holder))
        name = scan_name(image, request, partitions)
    if not request.lease_ms:
        return None, name
    return PinRenewal(lambda: open_source(store), request.pin_token, request.lease_ms, SystemClock()), name


def _schema(schema: Any, kind: str | None) -> Any:
    """Returns a schema of Spark as one of Arrow; other schemas as they are."""
    if schema is None or kind != "json":
        return schema
    from pyspark.sql.pandas.types import to_arrow_type  # noqa: PLC0415
    from pyspark.sql.types import DataType  # noqa: PLC0415

    is_ddl = isinstance(schema, str) and not schema.lstrip().startswith("{") and not schema.endswith(".json")
    if is_ddl:
        schema = DataType.fromDDL(schema)
    return to_arrow_type(schema, timezone="UTC") if isinstance(schema, DataType) else schema
