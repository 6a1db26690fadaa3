"""``siltstone tables explain TOPIC``: why the topic is, or is not, exported now, and how much of it is in its table."""

from collections.abc import Iterator

import click
from rich.markup import escape

from siltstone.carrying.pipeline.kind import Scope
from siltstone.cli.output import facts, print_json, results
from siltstone.cli.store_options import StoreChoice, json_option, store_options
from siltstone.foundation.quantity_words import counted, duration_words, size_words
from siltstone.maintenance.overview import KindOverview, overview
from siltstone.offline.context import MaintenanceContext
from siltstone.offline.settings import TableSettings
from siltstone.offline.topic_streams import topic_defaults
from siltstone.tables.failures import TableNotThere
from siltstone.tables.inspecting import export_of, keys_in_several_partitions, opened_table
from siltstone.tables.kind import TableExport
from siltstone.tables.planning import TopicExport
from siltstone.topic_configs.table import TopicConfig, stored_topic_config
from siltstone.topic_configs.table_export import RESCUED


@click.command()
@click.argument("topic", metavar="TOPIC")
@json_option
@store_options
def explain(choice: StoreChoice, topic: str, as_json: bool) -> None:
    """Show why a topic is, or is not, exported to its table now, and how much of the topic is in the table."""
    with choice.open() as store:
        image = store.metadata.refresh()
        export = export_of(image, topic)
        config = stored_topic_config(export.topic.configs, topic_defaults(image))
        scope = Scope(topics=frozenset([topic]))
        (planned,) = overview(store.context, [TableExport(store.kind_settings.tables)], scope).kinds
        newest = _newest(store.context, store.kind_settings.tables, export)
    shown = {"now": _now(planned), **dict(_configured(export, config)), **newest}
    if as_json:
        print_json({"topic": topic, "table": export.table, **shown})
    else:
        results().print(facts(table=export.table, **{name: escape(text) for name, text in shown.items()}))


def _now(planned: KindOverview) -> str:
    """Says what the next run of maintenance would do, and why."""
    if planned.trouble:
        return planned.trouble
    for waiting in planned.waiting:
        return f"waits, after {waiting.failures} failures: {waiting.reason}"
    for unit in planned.units:
        return f"will be exported: {unit.reason}"
    return f"is not exported: {planned.unplanned[0].reason}"


def _newest(context: MaintenanceContext, settings: TableSettings, export: TopicExport) -> dict[str, str]:
    """Says, for a table with the newest record of each key, how many rows it has because keys have records in several
    partitions."""
    if not export.config.is_upsert:
        return {}
    if export.config.has_history:
        return {
            "mode": "upsert; all versions are kept, and an export writes all versions of its buckets again"
        }
    try:
        with opened_table(context, settings, export.topic.name) as table:
            rows = keys_in_several_partitions(table, settings, export.config)
    except TableNotThere:
        return {"mode": "upsert"}
    return {
        "mode": f"upsert; {counted(rows, 'row')} more than keys, of keys with records in several partitions"
    }


def _configured(export: TopicExport, config: TopicConfig) -> Iterator[tuple[str, str]]:
    table = export.config
    yield "format", table.table_format
    yield "exported", f"at {size_words(table.bytes_min)}, or every {duration_words(table.interval_ms)}"
    changes = f", change events of {table.change}" if table.change else ""
    yield "values", f"{table.value}{changes}; {_columns(export)}"
    if table.sequence:
        yield "order", f"the newest record of a key is the one with the highest {table.sequence}"
    yield "bad_records", table.errors
    if table.holds_retention:
        yield "retention", "retention and key compaction wait for the table"
    elif config.is_compacted:
        yield (
            "retention",
            "what key compaction removes before its export is missing from the table: siltstone.table.retention=true"
            " makes it wait",
        )
    else:
        yield "retention", "what retention removes before its export is missing from the table, and counted"


def _columns(export: TopicExport) -> str:
    fields = ", ".join(f"{each.name} {each.kind}" for each in export.config.columns)
    if export.config.infers:
        listed = f"; {fields} are given" if fields else ""
        return f"columns are found from the records{listed}, and {RESCUED} and kafka"
    return f"columns {fields}, and kafka" if fields else "the columns of Kafka's records"
