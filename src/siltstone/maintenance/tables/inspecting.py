"""Finds what commands and programs show of tables.

``table_rows`` needs the metadata alone. ``opened_table`` opens the table itself, in its catalog.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from siltstone.maintenance.context import MaintenanceContext
from siltstone.maintenance.pipeline.set_aside import set_aside
from siltstone.maintenance.settings import TableSettings
from siltstone.maintenance.tables.failures import LedgerLost, TableNotThere
from siltstone.maintenance.tables.formats.choosing import home_of, open_format
from siltstone.maintenance.tables.formats.port import LoadedTable, TableFormat, folder_of
from siltstone.maintenance.tables.kind import TABLE_EXPORT
from siltstone.maintenance.tables.planning import TopicExport, conflict, exports, lag_of, progress_in
from siltstone.maintenance.tasks.source_bytes import store_at
from siltstone.metadata.image import ImageView, MetadataImage
from siltstone.topic_configs.table_export import KEY, TableConfig


class TableRow(msgspec.Struct, frozen=True, kw_only=True):
    """One topic that is kept as a table. ``lag_offsets`` and ``lag_bytes`` count what is in objects and not in the
    table; ``exported_ms`` is 0 before the first export. ``trouble`` says why the last export failed, or why there can
    be none."""

    topic: str
    table: str
    table_format: str
    rows: int
    dead_letters: int
    lost: int
    lag_offsets: int
    lag_bytes: int
    exported_ms: int
    trouble: str


def table_rows(image: MetadataImage) -> list[TableRow]:
    found = exports(image)
    rows = []
    for export in found.values():
        progress = progress_in(image, export)
        lag = lag_of(image, export.topic, progress)
        aside = set_aside(image, TABLE_EXPORT, export.topic.name)
        rows.append(
            TableRow(
                topic=export.topic.name,
                table=export.table,
                table_format=export.config.table_format,
                rows=progress.rows if progress else 0,
                dead_letters=progress.dead_letters if progress else 0,
                lost=progress.lost if progress else 0,
                lag_offsets=lag.offsets,
                lag_bytes=lag.size_bytes,
                exported_ms=progress.exported_ms if progress else 0,
                trouble=conflict(export, found) or (aside.reason if aside else ""),
            )
        )
    return rows


def export_of(image: ImageView, topic: str) -> TopicExport:
    """Returns the configurations of a topic's table. Raises TableNotThere."""
    found = exports(image)
    if topic not in found:
        known = f"kept as tables are {', '.join(found)}" if found else "no topic is kept as a table"
        raise TableNotThere(f"topic {topic} is not kept as a table: set siltstone.table.format; {known}")
    return found[topic]


@contextmanager
def opened_table(
    context: MaintenanceContext, settings: TableSettings, topic: str, *, dead_letters: bool = False
) -> Iterator[LoadedTable]:
    """Opens the table of a topic, or the table of its dead letters. Raises TableNotThere, TablesMissing, CatalogFailed,
    LedgerLost."""
    image = context.metadata.refresh()
    export = export_of(image, topic)
    with open_format(export.config.table_format, settings) as tables:
        name = export.dead_letter_table if dead_letters else export.table
        table = tables.load(name) if dead_letters else opened_in(tables, image, export)
        if table is None:
            why = (
                "no record was bad"
                if dead_letters
                else "siltstone maintain run --kind table-export --flush makes it"
            )
            raise TableNotThere(f"there is no table {name} yet: {why}")
        yield table


def opened_in(tables: TableFormat, image: ImageView, export: TopicExport) -> LoadedTable | None:
    """Opens the table of a topic; None before its first export. Raises LedgerLost if the table is gone since."""
    table = tables.load(export.table)
    progress = progress_in(image, export)
    if table is None and progress is not None and progress.offsets:
        raise LedgerLost(export.table, "the table is gone")
    return table


def file_urls(table: LoadedTable, settings: TableSettings) -> list[str]:
    """Returns the URLs of the data files of a table. A reader of a Parquet table needs this list, because its folder
    may also have files of rounds that failed."""
    home = home_of(settings.location)
    return [f"{home}/{folder_of(table.name)}{each.path}" for each in table.files()]


def keys_in_several_partitions(table: LoadedTable, settings: TableSettings, config: TableConfig) -> int:
    """Counts how many more rows than keys an upsert table has. Reads the keys of the whole table. Raises what the store
    raises."""
    from siltstone.maintenance.tables.reading import repeated_keys  # noqa: PLC0415  loads pyarrow

    store = store_at(settings.location)
    return repeated_keys(store, folder_of(table.name), table.files(), config.source_of(KEY))
