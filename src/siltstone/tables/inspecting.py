"""Finds what commands and programs show of tables.

``table_rows`` needs the metadata alone. ``opened_table`` opens the table itself, in its catalog.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import msgspec

from siltstone.carrying.pipeline.set_aside import set_aside
from siltstone.foundation.quantity_words import counted
from siltstone.metadata.image import ImageView, MetadataImage
from siltstone.offline.context import MaintenanceContext
from siltstone.offline.settings import TableSettings
from siltstone.tables.failures import LedgerLost, TableFileRefused, TableNotThere
from siltstone.tables.formats.choosing import home_of, open_format
from siltstone.tables.formats.locations import is_elsewhere
from siltstone.tables.formats.port import (
    LoadedTable,
    TableFile,
    TableFormat,
    TableUse,
    folder_of,
)
from siltstone.tables.kind import TABLE_EXPORT
from siltstone.tables.planning import TopicExport, conflict, exports, lag_of, progress_in
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


def table_rows(image: MetadataImage, names: Iterable[str] | None = None) -> list[TableRow]:
    """``names``: the topics that are kept as tables, where the caller knows them; else all topics are looked at."""
    found = exports(image, names)
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
    """Returns the URLs of the data files of a table that has exactly the rows of its files. A reader of a Parquet table
    needs this list, because its folder may also have files of rounds that failed. Raises TableFileRefused if the files
    have other rows than the table, and TableHasUnknownFeatures."""
    table.refuse_unknown_features(TableUse.READ)
    files = list(table.files())
    for each in files:
        if each.other_rows:
            raise TableFileRefused(table.name, each.path, "given to a reader of Parquet", each.other_rows)
    return [url_of(table, each, settings) for each in files]


def url_of(table: LoadedTable, file: TableFile, settings: TableSettings) -> str:
    """Returns the URL of a data file."""
    if is_elsewhere(file.path):
        return file.path
    return f"{home_of(settings.location)}/{folder_of(table.name)}{file.path}"


def deletes_in_words(files: Sequence[TableFile]) -> str:
    """Says how many rows other programs have deleted without writing new files, and which files are counted whole;
    nothing if there are none."""
    deleted = [each.deleted_rows for each in files if each.deleted_rows]
    unread = sum(1 for each in files if each.unreadable)
    facts = []
    if deleted:
        facts.append(f"{counted(sum(deleted), 'row')} of {counted(len(deleted), 'file')}, not counted")
    if unread:
        facts.append(f"unknown for {counted(unread, 'file')}, counted whole")
    return "; ".join(facts)


def keys_in_several_partitions(table: LoadedTable, settings: TableSettings, config: TableConfig) -> int:
    """Counts how many more rows than keys an upsert table has. Reads the keys of the whole table. Raises
    TableFileRefused, TableHasUnknownFeatures, and what the store raises."""
    from siltstone.tables.reading import repeated_keys  # noqa: PLC0415  loads pyarrow

    table.refuse_unknown_features(TableUse.READ)
    return repeated_keys(settings.location, folder_of(table.name), table.files(), config.source_of(KEY))
