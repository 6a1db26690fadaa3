"""``siltstone.spark.read_table`` reads the table of a topic as a DataFrame.

No connector of Iceberg or Delta works with Spark 4.3. So the table is opened in this process, and Spark reads the list
of its data files as Parquet. If the files do not have the rows and the columns of the table, because other programs
have deleted rows, renamed columns or left columns out, Python tasks read them instead (rule 16).
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from siltstone.offline.context import MaintenanceContext
from siltstone.offline.settings import TableSettings
from siltstone.spark.frames import session
from siltstone.spark.opening import open_store
from siltstone.tables.formats.locations import unquoted
from siltstone.tables.formats.port import TableUse
from siltstone.tables.inspecting import opened_table, url_of
from siltstone.tables.table_scan import file_inputs, rows_of_files
from siltstone.value_formats.column_arrays import plain_type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def read_table(
    topic: str, *, store: Any, spark: "SparkSession | None" = None, dead_letters: bool = False
) -> "DataFrame":
    """Reads the table of a topic as it is now, or the table of its dead letters. ``store`` is the folder of the store,
    or a store that ``siltstone.open_store`` has opened with other settings of tables.

    A later export does not change the DataFrame. Files that were replaced since can be read for a day. Executors need
    access to ``tables.location``; for ``s3://`` Spark needs hadoop-aws. Raises what ``session`` raises, TableNotThere,
    TablesMissing, CatalogFailed, LedgerLost, TableHasUnknownFeatures, and TableFileRefused if other programs have
    deleted rows in a way that cannot be applied."""
    spark = spark or session()
    if isinstance(store, str | Path):
        with open_store(store) as opened:
            return _read(opened.context, opened.kind_settings.tables, topic, spark, dead_letters=dead_letters)
    return _read(store.context, store.kind_settings.tables, topic, spark, dead_letters=dead_letters)


def _read(
    context: MaintenanceContext,
    settings: TableSettings,
    topic: str,
    spark: "SparkSession",
    *,
    dead_letters: bool,
) -> "DataFrame":
    with opened_table(context, settings, topic, dead_letters=dead_letters) as table:
        table.refuse_unknown_features(TableUse.READ)
        plain, files = _plain(table.file_schema), list(table.files())
        is_of_files = table.has_names_of_files and not any(each.other_rows for each in files)
        urls = [url_of(table, each, settings) for each in files]
        inputs = [] if is_of_files else file_inputs(table, files, settings)
    schema = _spark_schema(plain)
    if not files:
        return spark.createDataFrame([], schema)
    if is_of_files:
        return spark.read.schema(schema).parquet(*[_of_hadoop(each) for each in urls])
    frame = spark.createDataFrame([(each,) for each in inputs], "input binary").repartition(len(inputs))
    return frame.mapInArrow(rows_of_files, schema)


def _plain(schema: Any) -> Any:
    from pyarrow import schema as arrow_schema  # noqa: PLC0415  takes a while, and is an extra

    return arrow_schema([each.with_type(plain_type(each.type)) for each in schema])


def _spark_schema(schema: Any) -> Any:
    """Returns the columns of the table in Spark's types. Spark needs the schema of the table, because older files lack
    the newer columns."""
    from pyspark.sql.pandas.types import from_arrow_schema  # noqa: PLC0415

    return from_arrow_schema(schema)


def _of_hadoop(url: str) -> str:
    """Returns a URL as Hadoop's file systems write it."""
    return f"s3a://{url.removeprefix('s3://')}" if url.startswith("s3://") else unquoted(url)
