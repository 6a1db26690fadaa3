"""The tables ``tables`` and ``sinks``: what Spark makes of topics, and what it writes into them. Pure."""

from collections.abc import Iterator

from siltstone.metadata.sinks import SinkBatch, sinks_of
from siltstone.metadata_tables.columns import (
    MetadataTable,
    MetadataType,
    computed,
    field,
    time,
    whole,
)
from siltstone.metadata_tables.moment import Moment
from siltstone.tables.inspecting import TableRow, table_rows


def _tables(moment: Moment, topic: str | None) -> Iterator[TableRow]:
    rows = sorted(table_rows(moment.image), key=lambda each: each.topic)
    return (each for each in rows if topic in (None, each.topic))


TABLES = MetadataTable(
    "tables",
    "The topics that are kept as tables, and how far their export is.",
    (
        field("topic", MetadataType.TEXT, "The topic."),
        field("table", MetadataType.TEXT, "The table."),
        field("format", MetadataType.TEXT, "`iceberg`, `delta` or `parquet`.", "table_format"),
        whole("rows", "The rows of the table."),
        whole("dead_letters", "Records that are in its table of dead letters instead."),
        whole("lost_offsets", "Offsets that were removed before they were exported.", "lost"),
        whole("behind_offsets", "Offsets that are in objects and not in the table.", "lag_offsets"),
        whole("behind_bytes", "Their bytes.", "lag_bytes"),
        time("exported_at", "When the last export was; null before the first.", "exported_ms"),
        field(
            "trouble",
            MetadataType.TEXT,
            "Why the last export failed, or why there can be none; otherwise empty.",
        ),
    ),
    _tables,
)


def _sinks(moment: Moment, topic: str | None) -> Iterator[tuple[str, SinkBatch]]:
    wanted = None if topic is None else set(moment.stream_ids_of(topic))
    for sink_id, batch in sinks_of(moment.image).items():
        if wanted is None or any(each.stream_id in wanted for each in batch.targets):
            yield sink_id, batch


def _topics_of(moment: Moment, row: tuple[str, SinkBatch]) -> str:
    names = {moment.name_of(each.stream_id).topic for each in row[1].targets}
    return ",".join(sorted(name for name in names if name))


SINKS = MetadataTable(
    "sinks",
    "The sinks that write batches of Spark into topics, with the newest batch of each.",
    (
        computed("sink", MetadataType.TEXT, "The id of the sink.", lambda _, row: row[0]),
        computed(
            "mode",
            MetadataType.TEXT,
            "`relay` through brokers, `objects` without one, or `transaction`.",
            lambda _, row: row[1].mode,
        ),
        computed("query_id", MetadataType.TEXT, "The query of Spark.", lambda _, row: row[1].query_id),
        computed("batch", MetadataType.WHOLE, "The number of the batch.", lambda _, row: row[1].batch_id),
        computed(
            "state", MetadataType.TEXT, "`INTENT`, `DONE` or `ABANDONED`.", lambda _, row: row[1].state.name
        ),
        computed("begun_at", MetadataType.TIME, "When the batch began.", lambda _, row: row[1].begun_ms),
        computed(
            "topics", MetadataType.TEXT, "The topics of its partitions, with commas between them.", _topics_of
        ),
        computed(
            "partitions",
            MetadataType.WHOLE,
            "How many partitions the batch writes to.",
            lambda _, row: len(row[1].targets),
        ),
        computed("schema", MetadataType.TEXT, "The schema of its rows.", lambda _, row: row[1].schema),
    ),
    _sinks,
)
