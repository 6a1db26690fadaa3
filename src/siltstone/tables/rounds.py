"""Drives an export: a round of one topic, from the table's ledger to the commit.

The order matters. The progress is read before the table, so it is never ahead of the ledger unless the table was rolled
back. Dead letters are committed before the table. A round that is killed in between is repeated up to exactly the
offsets in the dead letters' ledger. The offsets of the dead letters are the *verdict* for the repetition, which leaves
out these records and no others. So every record is in exactly one of the two tables.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import pyarrow as pa

from siltstone.carrying.pipeline.kind import Attempt, UnitReport
from siltstone.metadata.refusals import JobNotRunning
from siltstone.metadata.store_id import store_id_of
from siltstone.model.errors import SiltstoneError
from siltstone.offline.settings import TableSettings
from siltstone.offline.tasks.runner import RunnerNotStarted, Task
from siltstone.offline.tasks.source_bytes import store_at
from siltstone.record_columns.row_columns import KEY, VALUE
from siltstone.scanning.scan import plan_scan
from siltstone.scanning.transactions import CommittedEnds
from siltstone.scanning.unit import encode_unit
from siltstone.tables.committing import commit_round, loaded
from siltstone.tables.decoding.keys import of_keys
from siltstone.tables.failures import (
    CommitOvertaken,
    ExportBroken,
    LedgerLost,
    RecordsNotDecodable,
    RecordsRemoved,
    TableOfAnotherTopic,
    TableRolledBack,
    TableShapedOtherwise,
    VerdictLost,
)
from siltstone.tables.formats.choosing import open_format
from siltstone.tables.formats.port import (
    DataFile,
    LoadedTable,
    Replacement,
    TableFormat,
    TableUse,
)
from siltstone.tables.found_columns import joined_fields, news
from siltstone.tables.joining import joins, merges
from siltstone.tables.layout import (
    added,
    dead_letter_schema,
    key_type,
    misdivision,
    mismatch,
    other_key,
    table_schema,
)
from siltstone.tables.ledger import Gap, Ledger, TableIdentity
from siltstone.tables.orphans import ORPHAN_AGE_MS, delete_orphans
from siltstone.tables.planning import (
    RoundRanges,
    TopicExport,
    exports,
    is_ahead,
    progress_in,
    round_ranges,
    transactions_in,
)
from siltstone.tables.progress import (
    TableProgress,
    columns_of,
    put_columns,
    put_progress,
    put_schema_names,
    schema_names_of,
)
from siltstone.tables.round_columns import RoundColumns, sampled
from siltstone.tables.round_reports import WrittenFiles, done, failed, lost_offsets, not_needed
from siltstone.tables.round_tasks import RoundTasks
from siltstone.tables.schemas import RoundSchemas
from siltstone.tables.task import run_export
from siltstone.tables.task_input import ExportResult, FoundColumns, ValueSchemas
from siltstone.topic_configs.column_types import ColumnType
from siltstone.topic_configs.table_export import APPEND, PartitionTransform

log = logging.getLogger(__name__)

BAD_SHARE_MAX = 0.5
BAD_MIN = 10
"""If a round has more bad records than this, and they are more than half of its records, the configuration is taken to
be wrong: nothing is written, whatever ``siltstone.table.errors`` says. With a lower number a quiet topic would stop at
its first bad record."""


class Rounds:
    """Does the rounds of one attempt, one topic after another."""

    def __init__(
        self, attempt: Attempt, settings: TableSettings, task: Task | None, round_bytes: int
    ) -> None:
        self._attempt = attempt
        self._settings = settings
        self._task = task or run_export
        self._round_bytes = round_bytes

    def export(self, topic: str) -> UnitReport:
        """Does one round of a topic. Raises Cancelled, JobNotRunning, RunnerNotStarted, and Unavailable when the
        metadata cannot be reached."""
        export = exports(self._attempt.context.metadata.refresh()).get(topic)
        if export is None:
            return not_needed(topic, "the topic was deleted or reconfigured meanwhile")
        try:
            with open_format(export.config.table_format, self._settings) as tables:
                one = _Round(self._attempt, self._settings, self._task, export, tables)
                return one.done(self._round_bytes)
        except (JobNotRunning, RunnerNotStarted):
            raise
        except CommitOvertaken as overtaken:
            return not_needed(topic, str(overtaken))
        except SiltstoneError as failure:
            self._attempt.watch.check()
            return failed(topic, failure)
        except Exception as fault:
            log.exception("the export of topic %s stopped at a fault of the program", topic)
            return failed(topic, ExportBroken(topic, export.table, fault))


class _Round:
    def __init__(
        self, attempt: Attempt, settings: TableSettings, task: Task, export: TopicExport, tables: TableFormat
    ) -> None:
        self._attempt = attempt
        self._context = attempt.context
        self._settings = settings
        self._export = export
        self._tables = tables
        self._committed = CommittedEnds(attempt.context)
        self._tasks = RoundTasks(attempt, settings, task, export)
        image = self._context.metadata.image
        self._progress = progress_in(image, export)
        self._identity = TableIdentity(store_id_of(image) or "", export.topic.topic_id)
        config, topic = export.config, export.topic.name
        self._schemas = self._key_schemas = None
        if config.has_schemas:
            self._schemas = RoundSchemas(topic, config, settings.registry, may_widen=self._may_widen)
        self._columns: RoundColumns | None = None
        self._news: tuple[str, ...] = ()
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

    def done(self, bytes_max: int) -> UnitReport:
        for of, schemas in self._known_schemas():
            schemas.begin(schema_names_of(self._context.metadata.image, self._export.topic.topic_id, of))
        table, dead_letters = self._opened(), self._opened_dead_letters()
        ledger = table.ledger
        verdict = None if dead_letters is None else self._checked(dead_letters)
        if verdict is not None and not is_ahead(verdict, ledger):
            verdict = None
        image = self._context.metadata.refresh()
        undecided = self._committed.undecided(image, [self._export.topic])
        ranges = round_ranges(image, self._export, ledger, verdict, bytes_max, undecided)
        if ranges.is_empty:
            self._note(table, dead_letters, ())
            waits = transactions_in(image, self._export.topic, undecided)
            return not_needed(self._export.topic.name, waits or f"all of it is in table {table.name}")
        self._refuse_gaps(ranges.gaps)
        offsets = None
        if verdict is not None and dead_letters is not None:
            offsets = dead_letters.offsets_from(
                {number: ledger.offset(number) or 0 for number in ranges.ends}
            )
        written = self._written(table, dead_letters, ranges, offsets)
        self._refuse_bad(written, is_repeated=verdict is not None)
        self._attempt.watch.check()
        dead_letters = written.dead_letters
        if verdict is None and any(each.dead_letter_files for each in written.results):
            assert dead_letters is not None, "it was made, and tasks were given its schema"
            # Why first: after a kill between the two commits the round is repeated, and this ledger then says which
            # records were left out of the table (decision 24).
            dead_letters = self._commit_dead_letters(dead_letters, written)
            if dead_letters is None:
                return self._overtaken()
        files = [file for each in written.results for file in each.files]
        replacement = self._replacement(written, files)
        self._attempt.watch.check()
        after = ledger.after(written.ends, written.token, self._context.now_ms(), written.gaps)
        appended = () if self._export.config.is_upsert else files
        committed = commit_round(self._context, self._tables, written.table, appended, after, replacement)
        if committed is None:
            return self._overtaken()
        self._note(committed, dead_letters, written.gaps)
        return done(
            self._export,
            committed,
            written,
            replacement,
            news=self._news,
            has_remaining=ranges.has_remaining,
            peak_memory_bytes=self._tasks.peak_memory_bytes,
        )

    def _known_schemas(self) -> Iterator[tuple[str, RoundSchemas]]:
        """Yields the schemas of values, and those of keys, where there are any."""
        if self._schemas is not None:
            yield VALUE, self._schemas
        if self._key_schemas is not None:
            yield KEY, self._key_schemas

    # -- the tables ------------------------------------------------------------------------------------------------

    def _opened(self) -> LoadedTable:
        """Opens the table, which is made if there is none, and adds the columns that it lacks."""
        config, name = self._export.config, self._export.table
        table = self._tables.load(name)
        wanted = self._wanted(table)
        if reason := misdivision(wanted, config):
            raise TableShapedOtherwise(name, reason)
        if table is None:
            if self._progress is not None and self._progress.offsets:
                raise LedgerLost(name, f"the table is gone, {self._progress.rows} rows of it")
            return self._made(name, wanted, config.division, config.mode)
        ledger = self._checked(table)
        self._refuse_rolled_back(ledger)
        if config.is_upsert and (reason := other_key(table.schema, config)):
            raise TableShapedOtherwise(name, reason)
        if ledger.mode != config.mode:
            reason = f"it was made with siltstone.table.mode={ledger.mode}, which cannot be changed"
            raise TableShapedOtherwise(name, reason)
        if table.partition_by != config.partition_by:
            there = ", ".join(each.text for each in table.partition_by) or "nothing"
            raise TableShapedOtherwise(name, f"it is divided by {there}, which cannot be changed")
        return self._extended(table, wanted)

    def _wanted(self, table: LoadedTable | None) -> Any:
        """Returns the pyarrow.Schema that the table has to have, as far as the values' schemas are known."""
        schema = None if table is None else table.schema
        columns = None if self._schemas is None else self._schemas.columns(schema)
        if self._columns is not None:
            if schema is None and not self._columns.found:
                topic = self._export.topic
                self._add_fields(sampled(self._context, topic.name, len(topic.partitions), self._committed))
            columns = self._columns.columns(schema)
        return table_schema(self._export.config, columns, schema)

    def _add_fields(self, fields: dict[str, ColumnType]) -> None:
        """Makes columns of fields that records have, and records them before the table has them: the table does not say
        which of its texts are JSON."""
        assert self._columns is not None
        before = self._columns.known
        self._columns.add(fields)
        found = news(before, self._columns.known)
        if found:
            log.info("topic %s, table %s: %s", self._export.topic.name, self._export.table, "; ".join(found))
            self._news += tuple(found)
            self._context.metadata.execute(put_columns(self._export.topic.topic_id, self._columns.found))

    def _extended(self, table: LoadedTable, wanted: Any) -> LoadedTable:
        """Adds the columns that the table lacks. Raises TableShapedOtherwise."""
        name = table.name
        if reason := mismatch(table.schema, wanted, may_widen=self._may_widen):
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
        self._checked(table)
        return table

    def _checked(self, table: LoadedTable) -> Ledger:
        """Returns the ledger of a table, which has to be this topic's, with features that an export keeps (rule 16).
        Raises TableOfAnotherTopic, TableHasUnknownFeatures, and what a ledger raises."""
        ledger = table.ledger
        if ledger.identity != self._identity:
            raise TableOfAnotherTopic(table.name, self._export.topic.name)
        is_merged = self._export.config.is_upsert and table.name == self._export.table
        table.refuse_unknown_features(TableUse.UPSERT if is_merged else TableUse.APPEND)
        return ledger

    def _refuse_rolled_back(self, ledger: Ledger) -> None:
        for number, offset in (self._progress.offsets if self._progress else {}).items():
            if offset > (ledger.offset(number) or 0):
                reason = f"partition {number} was exported up to {offset}, and its ledger says {ledger.offset(number)}"
                raise TableRolledBack(self._export.table, reason)

    def _refuse_gaps(self, gaps: tuple[Gap, ...]) -> None:
        """Raises RecordsRemoved if retention should have waited for the export; otherwise logs which offsets will be
        missing."""
        for gap in gaps:
            if self._export.config.holds_retention:
                raise RecordsRemoved(self._export.table, gap.partition, gap.start_offset, gap.end_offset)
            log.warning(
                "offsets %d to %d of %s-%d were removed before they were in table %s, which lacks them",
                gap.start_offset,
                gap.end_offset,
                self._export.topic.name,
                gap.partition,
                self._export.table,
            )

    def _commit_dead_letters(self, table: LoadedTable, written: WrittenFiles) -> LoadedTable | None:
        files = [file for each in written.results for file in each.dead_letter_files]
        after = table.ledger.after(written.ends, written.token, self._context.now_ms())
        return commit_round(self._context, self._tables, table, files, after)

    # -- the tasks -------------------------------------------------------------------------------------------------

    def _written(
        self,
        table: LoadedTable,
        dead_letters: LoadedTable | None,
        ranges: RoundRanges,
        verdict: dict[int, list[int]] | None,
    ) -> WrittenFiles:
        wanted = {number: end for number, end in ranges.ends.items() if end > ranges.starts[number]}
        if not wanted:
            token = self._tasks.token([repr(ranges.gaps).encode()])
            return WrittenFiles(table, dead_letters, token, None, ranges.ends, ranges.gaps)
        plan = plan_scan(self._context, self._tasks.request(ranges, wanted), self._committed)
        cuts = {each.of.partition: each for each in plan.cuts}
        if any(each.of.topic.topic_id != self._export.topic.topic_id for each in plan.cuts):
            raise TableOfAnotherTopic(table.name, self._export.topic.name)
        later = [
            Gap(number, ranges.starts[number], each.start_offset)
            for number, each in cuts.items()
            if each.start_offset > ranges.starts[number]
        ]
        self._refuse_gaps(tuple(later))
        ends = {**ranges.ends, **{number: each.end_offset for number, each in cuts.items()}}
        units = [encode_unit(unit) for unit in plan.units]
        token = self._tasks.token(units)
        table, dead_letters, results = self._exported(
            table, dead_letters, units, token, verdict, plan.size_bytes
        )
        return WrittenFiles(table, dead_letters, token, plan, ends, (*ranges.gaps, *later), results)

    def _exported(
        self,
        table: LoadedTable,
        dead_letters: LoadedTable | None,
        units: list[bytes],
        token: str,
        verdict: dict[int, list[int]] | None,
        size_bytes: int,
    ) -> tuple[LoadedTable, LoadedTable | None, tuple[ExportResult, ...]]:
        """Runs the tasks, and runs those again that have found schemas which were not in their input. If the table has
        got other columns for these schemas, all tasks run again, so that all files of a commit have the same columns.
        Tasks also run again that have dead letters where no table of them was expected. Tasks that run again write
        files of other names."""
        numbered = dict(enumerate(units))
        results = self._run(table, dead_letters, numbered, token, verdict, size_bytes)
        needed = {name for each in results.values() for name in each.needed}
        needed_keys = {name for each in results.values() for name in each.needed_keys}
        fields: dict[str, ColumnType] = {}
        for at in numbered:
            fields = joined_fields(fields, results[at].found)
        if needed or needed_keys or fields:
            for of, schemas in self._known_schemas():
                schemas.fetch(needed if of == VALUE else needed_keys)
            if fields:
                self._add_fields(fields)
            schema, offsets = table.schema, table.ledger.offsets  # a commit may change ``table`` itself
            table = self._extended(table, self._wanted(table))
            if table.ledger.offsets != offsets:
                raise CommitOvertaken(f"another driver has exported to table {table.name} meanwhile")
            is_same = schema.equals(table.schema)
            lacked = {at for at, each in results.items() if each.needed or each.needed_keys or each.found}
            again = {at: unit for at, unit in numbered.items() if at in lacked or not is_same}
            token = self._tasks.token(again.values())
            results |= self._run(table, dead_letters, again, token, verdict, size_bytes)
        with_dead_letters = {at: numbered[at] for at, each in results.items() if each.dead_letter_files}
        if dead_letters is None and with_dead_letters:
            dead_letters = self._made(self._export.dead_letter_table, dead_letter_schema(), ())
            token = self._tasks.token(with_dead_letters.values())
            results |= self._run(table, dead_letters, with_dead_letters, token, verdict, size_bytes)
        return table, dead_letters, tuple(results[at] for at in numbered)

    def _run(
        self,
        table: LoadedTable,
        dead_letters: LoadedTable | None,
        units: Mapping[int, bytes],
        token: str,
        verdict: dict[int, list[int]] | None,
        size_bytes: int,
    ) -> dict[int, ExportResult]:
        schemas = ValueSchemas() if self._schemas is None else self._schemas.given()
        key_schemas = ValueSchemas()
        if self._key_schemas is not None:
            self._key_schemas.columns(pa.schema(list(key_type(self._export.config))))
            key_schemas = self._key_schemas.given()
        found = FoundColumns()
        if self._columns is not None:
            found = FoundColumns(self._columns.known, self._may_widen, self._columns.reserved)
        inputs = self._tasks.inputs(table, dead_letters, units, token, verdict, schemas, key_schemas, found)
        return self._tasks.run(inputs, size_bytes)

    def _replacement(self, written: WrittenFiles, files: Sequence[DataFile]) -> Replacement | None:
        """Returns what the commit replaces: the files of the buckets that have new records, or small files by larger
        ones."""
        if not files:
            return None
        there = written.table.files()
        plans = (
            merges(written.table.name, there, files) if self._export.config.is_upsert else joins(there, files)
        )
        return self._tasks.rewrite(written.table, plans) if plans else None

    def _refuse_bad(self, written: WrittenFiles, *, is_repeated: bool) -> None:
        bad, records = written.total("bad"), written.total("records")
        unexpected = next((each.unexpected for each in written.results if each.unexpected), None)
        if unexpected is not None:
            raise VerdictLost(self._export.table, *unexpected)
        if not bad or is_repeated:
            return
        is_pause = self._export.config.errors == "pause"
        if is_pause or (bad > BAD_MIN and bad > BAD_SHARE_MAX * records):
            example = next(each.example for each in written.results if each.example)
            raise RecordsNotDecodable(self._export.table, bad, records, example, may_be_few=is_pause)

    # -- reports ---------------------------------------------------------------------------------------------------

    def _overtaken(self) -> UnitReport:
        text = f"another driver has exported to table {self._export.table} meanwhile"
        return not_needed(self._export.topic.name, text)

    def _note(self, table: LoadedTable, dead_letters: LoadedTable | None, gaps: tuple[Gap, ...]) -> None:
        """Copies the ledger into the metadata; once a day also deletes the files of rounds that failed."""
        ledger, before, now_ms = table.ledger, self._progress, self._context.now_ms()
        swept_ms = before.swept_ms if before else now_ms
        if now_ms - swept_ms >= ORPHAN_AGE_MS:
            self._sweep((table, *([dead_letters] if dead_letters else [])), now_ms)
            swept_ms = now_ms
        progress = TableProgress(
            table=table.name,
            table_format=self._export.config.table_format,
            offsets=ledger.offsets,
            exported_ms=ledger.committed_ms,
            rows=table.rows,
            dead_letters=0 if dead_letters is None else dead_letters.rows,
            lost=lost_offsets(gaps) + before.lost if before else lost_offsets(ledger.gaps),
            swept_ms=swept_ms,
        )
        topic_id = self._export.topic.topic_id
        if progress != before:
            self._context.metadata.execute(put_progress(topic_id, progress))
        for of, schemas in self._known_schemas():
            if set(schemas.names) - set(schema_names_of(self._context.metadata.image, topic_id, of)):
                self._context.metadata.execute(put_schema_names(topic_id, schemas.names, of))

    def _sweep(self, tables: Iterable[LoadedTable], now_ms: int) -> None:
        """Drops old states of the tables, and deletes the files that no state needs."""
        store, image = store_at(self._settings.location, create=True), self._context.metadata.image
        for each in tables:
            each.expire(now_ms)
            delete_orphans(store, loaded(self._tables, each.name), image.jobs, now_ms)
