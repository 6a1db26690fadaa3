"""Checks the tables of topics: that each has its ledger and all its data files, and that the ledger fits the topic."""

from collections.abc import Iterator

from siltstone.maintenance.checking.findings import Finding, FindingKind
from siltstone.metadata.image import MetadataImage
from siltstone.model.errors import SiltstoneError
from siltstone.object_store.port import FolderMissing, ObjectNotFound
from siltstone.offline.context import MaintenanceContext
from siltstone.offline.settings import TableSettings
from siltstone.offline.tasks.source_bytes import store_at
from siltstone.tables.failures import (
    CatalogFailed,
    TableAhead,
    TableHasUnknownFeatures,
    TableOfAnotherTopic,
    TablesMissing,
)
from siltstone.tables.formats.choosing import open_format
from siltstone.tables.formats.locations import is_elsewhere, store_and_key
from siltstone.tables.formats.port import (
    LoadedTable,
    TableFormat,
    TableUse,
    folder_of,
)
from siltstone.tables.inspecting import opened_in
from siltstone.tables.planning import TopicExport, exports


def check_tables(
    context: MaintenanceContext, settings: TableSettings, image: MetadataImage
) -> Iterator[Finding]:
    """Findings of the topics that are kept as tables. A topic that was never exported has none."""
    for export in exports(image).values():
        try:
            with open_format(export.config.table_format, settings) as tables:
                yield from _check(tables, settings, image, export)
        except (TablesMissing, CatalogFailed, TableHasUnknownFeatures) as trouble:
            yield Finding(FindingKind.TABLE_NOT_CHECKED, f"table {export.table} is not checked: {trouble}")
        except SiltstoneError as failure:
            yield Finding(FindingKind.TABLE_WRONG, f"topic {export.topic.name}: {failure}")


def _check(
    tables: TableFormat, settings: TableSettings, image: MetadataImage, export: TopicExport
) -> Iterator[Finding]:
    table = opened_in(tables, image, export)
    for each in (table, tables.load(export.dead_letter_table)):
        if each is not None:
            _refuse_foreign_ledger(each, image, export)
            each.refuse_unknown_features(TableUse.READ)
            yield from _check_files(each, settings)


def _refuse_foreign_ledger(table: LoadedTable, image: MetadataImage, export: TopicExport) -> None:
    """Raises TableOfAnotherTopic, TableAhead, and what a ledger raises."""
    ledger = table.ledger
    if ledger.identity.topic_id != export.topic.topic_id:
        raise TableOfAnotherTopic(table.name, export.topic.name)
    for number, partition in enumerate(export.topic.partitions):
        end = image.streams[partition.data_stream_id].end_offset
        exported = ledger.offset(number) or 0
        if exported > end:
            raise TableAhead(table.name, f"{export.topic.name}-{number}", exported, end)


def _check_files(table: LoadedTable, settings: TableSettings) -> Iterator[Finding]:
    """Checks that each file that the table lists is in the store with its size, also outside the folder of the
    table."""
    folder = folder_of(table.name)
    stored = {
        each.key.removeprefix(folder): each.size_bytes for each in store_at(settings.location).list(folder)
    }
    for file in table.files():
        size = _size_elsewhere(file.path, settings) if is_elsewhere(file.path) else stored.get(file.path)
        if size != file.size_bytes:
            is_there = "is missing" if size is None else f"has {size} bytes and not {file.size_bytes}"
            yield Finding(
                FindingKind.TABLE_WRONG,
                f"data file {file.path} of table {table.name} {is_there}",
                key=f"{folder}{file.path}",
            )


def _size_elsewhere(url: str, settings: TableSettings) -> int | None:
    """Returns the size of a file outside the folder of its table, reached as ``tables.location`` is; None if it is
    missing."""
    place, key = store_and_key(url, settings.location)
    try:
        return store_at(place).head(key).size_bytes
    except (ObjectNotFound, FolderMissing):
        return None
