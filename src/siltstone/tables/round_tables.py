"""Opens the two tables of a round: the table of the topic, and the table of its dead letters. Makes them, adds columns,
and refuses tables that are not what the configurations or the progress say.
"""

import logging
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pyarrow as pa

from siltstone.metadata.store_id import store_id_of
from siltstone.offline.context import MaintenanceContext
from siltstone.offline.settings import TableSettings
from siltstone.record_columns.row_columns import KEY, VALUE
from siltstone.scanning.transactions import CommittedEnds
from siltstone.tables.committing import loaded
from siltstone.tables.decoding.keys import of_keys
from siltstone.tables.failures import (
    CommitOvertaken,
    LedgerLost,
    TableOfAnotherTopic,
    TableRolledBack,
    TableShapedOtherwise,
)
from siltstone.tables.formats.port import (
    LoadedTable,
    TableFormat,
    TableUse,
)
from siltstone.tables.layout import (
    added,
    dead_letter_schema,
    differing_case,
    key_type,
    misdivision,
    mismatch,
    other_key,
    table_schema,
)
from siltstone.tables.ledger import Ledger, TableIdentity
from siltstone.tables.planning import (
    TopicExport,
    progress_in,
)
from siltstone.tables.progress import (
    columns_of,
    put_columns,
    replay_of,
    schema_names_of,
)
from siltstone.tables.replay_files import (
    end_replay,
)
from siltstone.tables.round_columns import RoundColumns, sampled
from siltstone.tables.schemas import RoundSchemas
from siltstone.tables.task_input import FoundColumns, ValueSchemas
from siltstone.tables.versions import has_versions
from siltstone.topic_configs.column_types import ColumnType
from siltstone.topic_configs.table_export import APPEND, SEQUENCE_COLUMN, PartitionTransform
from siltstone.value_formats.found_columns import news

log = logging.getLogger(__name__)


class RoundTables:
    """The tables of one topic in one round, and what is known of their columns. ``progress`` was read before the
    tables, ``news`` says which columns are new."""

    def __init__(
        self,
        context: MaintenanceContext,
        settings: TableSettings,
        export: TopicExport,
        tables: TableFormat,
        committed: CommittedEnds,
    ) -> None:
        self._context = context
        self._export = export
        self._tables = tables
        self._committed = committed
        image = self._context.metadata.image
        self.progress = progress_in(image, export)
        self._identity = TableIdentity(store_id_of(image) or "", export.topic.topic_id)
        config, topic = export.config, export.topic.name
        self._schemas = self._key_schemas = None
        if config.has_schemas:
            self._schemas = RoundSchemas(topic, config, settings.registry, may_widen=self._may_widen)
        self._columns: RoundColumns | None = None
        self.news: tuple[str, ...] = ()
        if config.infers:
            kept = columns_of(image, export.topic.topic_id)
            self._columns = RoundColumns(config, kept, nests=self._may_widen)
        if config.has_key_schemas:
            fields = [each.name for each in config.key_columns]
            self._key_schemas = RoundSchemas(
                topic, of_keys(config), settings.registry, may_widen=False, of=KEY, needed=fields
            )

    @property
    def _may_widen(self) -> bool:
        return self._export.config.table_format == "iceberg"

    def open_both(self) -> tuple[LoadedTable, LoadedTable | None]:
        """Opens both tables, and ends a replay of dead letters that was interrupted."""
        for of, schemas in self.known_schemas():
            schemas.begin(schema_names_of(self._context.metadata.image, self._export.topic.topic_id, of))
        table, dead_letters = self._opened(), self._opened_dead_letters()
        pending = replay_of(self._context.metadata.image, self._export.topic.topic_id)
        if pending is not None:
            topic_id = self._export.topic.topic_id
            return end_replay(self._context, self._tables, topic_id, table, dead_letters, pending)
        return table, dead_letters

    def known_schemas(self) -> Iterator[tuple[str, RoundSchemas]]:
        """Yields the schemas of values, and those of keys, where there are any."""
        if self._schemas is not None:
            yield VALUE, self._schemas
        if self._key_schemas is not None:
            yield KEY, self._key_schemas

    def _opened(self) -> LoadedTable:
        """Opens the table, which is made if there is none, and adds the columns that it lacks."""
        config, name = self._export.config, self._export.table
        table = self._tables.load(name)
        wanted = self._wanted(table)
        if reason := misdivision(wanted, config):
            raise TableShapedOtherwise(name, reason)
        if table is None:
            if self.progress is not None and self.progress.offsets:
                raise LedgerLost(name, f"the table is gone, {self.progress.rows} rows of it")
            return self._made(name, wanted, config.division, config.mode)
        ledger = self.checked(table)
        self._refuse_rolled_back(ledger)
        if config.is_upsert and (reason := other_key(table.schema, config)):
            raise TableShapedOtherwise(name, reason)
        if config.has_history != has_versions(table.schema) and config.is_upsert:
            made = "without" if config.has_history else "with"
            raise TableShapedOtherwise(
                name, f"it was made {made} siltstone.table.history, which cannot be changed"
            )
        if config.is_upsert and bool(config.sequence) != (SEQUENCE_COLUMN in table.schema.names):
            made = "without" if config.sequence else "with"
            raise TableShapedOtherwise(
                name, f"it was made {made} siltstone.table.sequence, which cannot be changed"
            )
        if ledger.mode != config.mode:
            reason = f"it was made with siltstone.table.mode={ledger.mode}, which cannot be changed"
            raise TableShapedOtherwise(name, reason)
        if table.partition_by != config.partition_by:
            there = ", ".join(each.text for each in table.partition_by) or "nothing"
            raise TableShapedOtherwise(name, f"it is divided by {there}, which cannot be changed")
        return self._with_columns(table, wanted)

    def _wanted(self, table: LoadedTable | None) -> Any:
        """Returns the pyarrow.Schema that the table has to have, as far as the values' schemas are known."""
        schema = None if table is None else table.schema
        columns = None if self._schemas is None else self._schemas.columns(schema)
        if self._columns is not None:
            if schema is None and not self._columns.found:
                topic = self._export.topic
                sample = sampled(self._context, topic.name, len(topic.partitions), self._committed)
                self.add_fields(sample.fields)
                self.news += tuple(sample.widened.values())
            columns = self._columns.columns(schema)
        return table_schema(self._export.config, columns, schema)

    def add_fields(self, fields: dict[str, ColumnType]) -> None:
        """Makes columns of fields that records have, and records them before the table has them: the table does not say
        which of its texts are JSON."""
        assert self._columns is not None
        before = self._columns.known
        self._columns.add(fields)
        found = news(before, self._columns.known)
        if found:
            log.info("topic %s, table %s: %s", self._export.topic.name, self._export.table, "; ".join(found))
            self.news += tuple(found)
            self._context.metadata.execute(put_columns(self._export.topic.topic_id, self._columns.found))

    def extended(self, table: LoadedTable) -> LoadedTable:
        """Adds the columns of schemas and fields that the round has found since. Raises TableShapedOtherwise."""
        return self._with_columns(table, self._wanted(table))

    def _with_columns(self, table: LoadedTable, wanted: Any) -> LoadedTable:
        """Adds the columns that the table lacks. Raises TableShapedOtherwise."""
        name = table.name
        if reason := mismatch(table.schema, wanted, may_widen=self._may_widen):
            raise TableShapedOtherwise(name, reason)
        if self._schemas is None and (reason := differing_case(table.schema, wanted)):
            raise TableShapedOtherwise(name, reason)
        if added(table.schema, wanted):
            with suppress(
                CommitOvertaken
            ):  # another driver has added the same columns, or the next round tries again
                table.add_columns(wanted)
            table = loaded(self._tables, name)
            if missing := added(table.schema, wanted):
                raise TableShapedOtherwise(
                    name, f"column {missing[0]} could not be added; the next run tries again"
                )
        return table

    def _opened_dead_letters(self) -> LoadedTable | None:
        """Opens the table of dead letters. It is made before there is a dead letter, because the tasks' files need its
        field ids. Returns None if every value can be decoded, or if the configurations do not keep bad records; if a
        record is bad for another reason, ``_exported`` makes the table."""
        config, name = self._export.config, self._export.dead_letter_table
        table = self._tables.load(name)
        is_needed = config.errors == "dead-letter" and (config.value, config.key) != ("raw", "raw")
        return self._made(name, dead_letter_schema(), ()) if table is None and is_needed else table

    def _made(
        self, name: str, schema: Any, partition_by: tuple[PartitionTransform, ...], mode: str = APPEND
    ) -> LoadedTable:
        ledger = Ledger(identity=self._identity, created_ms=self._context.now_ms(), mode=mode)
        table = self._tables.make(name, ledger, schema, partition_by)
        self.checked(table)
        return table

    def checked(self, table: LoadedTable) -> Ledger:
        """Returns the ledger of a table, which has to be this topic's, with features that an export keeps (rule 16).
        Raises TableOfAnotherTopic, TableHasUnknownFeatures, and what a ledger raises."""
        ledger = table.ledger
        if ledger.identity != self._identity:
            raise TableOfAnotherTopic(table.name, self._export.topic.name)
        is_merged = self._export.config.is_upsert and table.name == self._export.table
        table.refuse_unknown_features(TableUse.UPSERT if is_merged else TableUse.APPEND)
        return ledger

    def _refuse_rolled_back(self, ledger: Ledger) -> None:
        for number, offset in (self.progress.offsets if self.progress else {}).items():
            if offset > (ledger.offset(number) or 0):
                reason = f"partition {number} was exported up to {offset}, and its ledger says {ledger.offset(number)}"
                raise TableRolledBack(self._export.table, reason)

    def made_dead_letters(self) -> LoadedTable:
        """Makes the table of dead letters."""
        return self._made(self._export.dead_letter_table, dead_letter_schema(), ())

    def given(self, *, is_final: bool) -> tuple[ValueSchemas, ValueSchemas, FoundColumns]:
        """Returns what tasks are given of schemas of values, of schemas of keys, and of columns that were found.
        ``is_final``: no more columns will be added."""
        schemas = ValueSchemas() if self._schemas is None else self._schemas.given()
        key_schemas = ValueSchemas()
        if self._key_schemas is not None:
            self._key_schemas.columns(pa.schema(list(key_type(self._export.config))))
            key_schemas = self._key_schemas.given()
        found = FoundColumns()
        if self._columns is not None:
            found = FoundColumns(self._columns.known, self._may_widen, is_final, self._columns.reserved)
        return schemas, key_schemas, found
