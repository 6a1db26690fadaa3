"""Drives an export: a round of one topic, from the table's ledger to the commit.

The order matters. The progress is read before the table, so it is never ahead of the ledger unless the table was rolled
back. Dead letters are committed before the table. A round that is killed in between is repeated up to exactly the
offsets in the dead letters' ledger. The offsets of the dead letters are the *verdict* for the repetition, which leaves
out these records and no others. So every record is in exactly one of the two tables.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence

from siltstone.carrying.pipeline.kind import Attempt, UnitReport
from siltstone.metadata.refusals import JobNotRunning
from siltstone.model.errors import SiltstoneError
from siltstone.offline.settings import TableSettings
from siltstone.offline.tasks.runner import RunnerNotStarted, Task
from siltstone.offline.tasks.source_bytes import store_at
from siltstone.record_columns.row_columns import VALUE
from siltstone.scanning.scan import plan_scan
from siltstone.scanning.transactions import CommittedEnds
from siltstone.scanning.unit import encode_unit
from siltstone.tables.committing import commit_round, loaded
from siltstone.tables.erasure_round import ErasureRound
from siltstone.tables.failures import (
    CommitOvertaken,
    ExportBroken,
    RecordsNotDecodable,
    RecordsRemoved,
    ReplayRefused,
    TableOfAnotherTopic,
    VerdictLost,
)
from siltstone.tables.formats.choosing import open_format
from siltstone.tables.formats.port import (
    DataFile,
    LoadedTable,
    Replacement,
    TableFile,
    TableFormat,
    TableUse,
    folder_of,
)
from siltstone.tables.joining import joins, merges
from siltstone.tables.ledger import Gap, Ledger
from siltstone.tables.orphans import ORPHAN_AGE_MS, delete_orphans
from siltstone.tables.planning import (
    RoundRanges,
    TopicExport,
    exports,
    is_ahead,
    round_ranges,
    transactions_in,
)
from siltstone.tables.progress import (
    PendingReplay,
    TableProgress,
    put_progress,
    put_replay,
    put_schema_names,
    schema_names_of,
)
from siltstone.tables.replay_files import (
    divided_files,
    encode_dead_letters,
    end_replay,
    parts_of,
)
from siltstone.tables.replay_order import REPLAY_BYTES_OF_KEYS, letters_of, letters_that_stay
from siltstone.tables.round_reports import WrittenFiles, done, failed, lost_offsets, not_needed, replayed
from siltstone.tables.round_tables import RoundTables
from siltstone.tables.round_tasks import RoundTasks
from siltstone.tables.task import run_export
from siltstone.tables.task_input import ExportResult, Mending
from siltstone.topic_configs.column_types import ColumnType
from siltstone.value_formats.found_columns import joined_fields

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
        return self._done(topic, lambda export, tables: self._round(export, tables).done(self._round_bytes))

    def replay(self, topic: str, mending: Mending | None, *, is_dry: bool) -> UnitReport:
        """Tries the dead letters of a topic again. Raises what ``export`` raises."""

        def work(export: TopicExport, tables: TableFormat) -> UnitReport:
            return self._round(export, tables).replay(mending, is_dry=is_dry, bytes_max=self._round_bytes)

        return self._done(topic, work)

    def erase(self, topic: str, grace_period_ms: int) -> UnitReport:
        """Does what erasures need in the tables of a topic. Raises what ``export`` raises."""

        def work(export: TopicExport, tables: TableFormat) -> UnitReport:
            return ErasureRound(self._attempt, self._settings, export, tables, grace_period_ms).done()

        return self._done(topic, work)

    def _round(self, export: TopicExport, tables: TableFormat) -> "Round":
        return Round(self._attempt, self._settings, self._task, export, tables)

    def _done(self, topic: str, work: Callable[[TopicExport, TableFormat], UnitReport]) -> UnitReport:
        export = exports(self._attempt.context.metadata.refresh()).get(topic)
        if export is None:
            return not_needed(topic, "the topic was deleted or reconfigured meanwhile")
        try:
            with open_format(export.config.table_format, self._settings) as tables:
                return work(export, tables)
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


class Round:
    """One round of one topic, on its table and the table of its dead letters."""

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
        self._of = RoundTables(attempt.context, settings, export, tables, self._committed)

    def done(self, bytes_max: int) -> UnitReport:
        table, dead_letters = self._of.open_both()
        ledger = table.ledger
        verdict = None if dead_letters is None else self._of.checked(dead_letters)
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
            news=self._of.news,
            has_remaining=ranges.has_remaining,
            peak_memory_bytes=self._tasks.peak_memory_bytes,
        )

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
        *,
        replays: bool = False,
        is_dry: bool = False,
    ) -> tuple[LoadedTable, LoadedTable | None, tuple[ExportResult, ...]]:
        """Runs the tasks, and runs those again that have found schemas or fields which were not in their input. If the
        table has got other columns for these, all tasks run again, so that all files of a commit have the same columns.
        A dry run adds no columns of fields. Tasks also run again that have dead letters where no table of them was
        expected. Tasks that run again write files of other names."""
        numbered = dict(enumerate(units))
        results = self._run(
            table, dead_letters, numbered, token, verdict, size_bytes, replays=replays, is_final=is_dry
        )
        needed = {name for each in results.values() for name in each.needed}
        needed_keys = {name for each in results.values() for name in each.needed_keys}
        fields: dict[str, ColumnType] = {}
        for at in numbered:
            fields = joined_fields(fields, results[at].found)
        if needed or needed_keys or fields:
            for of, schemas in self._of.known_schemas():
                schemas.fetch(needed if of == VALUE else needed_keys)
            if fields:
                self._of.add_fields(fields)
            schema, offsets = table.schema, table.ledger.offsets  # a commit may change ``table`` itself
            table = self._of.extended(table)
            if table.ledger.offsets != offsets:
                raise CommitOvertaken(f"another driver has exported to table {table.name} meanwhile")
            is_same = schema.equals(table.schema)
            lacked = {at for at, each in results.items() if each.must_run_again}
            again = {at: unit for at, unit in numbered.items() if at in lacked or not is_same}
            token = self._tasks.token(again.values())
            results |= self._run(
                table, dead_letters, again, token, verdict, size_bytes, replays=replays, is_final=True
            )
        with_dead_letters = {at: numbered[at] for at, each in results.items() if each.dead_letter_files}
        if dead_letters is None and with_dead_letters:
            dead_letters = self._of.made_dead_letters()
            token = self._tasks.token(with_dead_letters.values())
            results |= self._run(
                table,
                dead_letters,
                with_dead_letters,
                token,
                verdict,
                size_bytes,
                replays=replays,
                is_final=True,
            )
        # Why: a result that asks for another run has no files, and a commit without them would lose its records.
        assert not any(each.must_run_again for each in results.values()), (
            "tasks ran again with all they asked for"
        )
        return table, dead_letters, tuple(results[at] for at in numbered)

    def _run(
        self,
        table: LoadedTable,
        dead_letters: LoadedTable | None,
        units: Mapping[int, bytes],
        token: str,
        verdict: dict[int, list[int]] | None,
        size_bytes: int,
        *,
        replays: bool = False,
        is_final: bool = False,
    ) -> dict[int, ExportResult]:
        schemas, key_schemas, found = self._of.given(is_final=is_final)
        inputs = self._tasks.inputs(
            table, dead_letters, units, token, verdict, schemas, key_schemas, found, replays=replays
        )
        return self._tasks.run(inputs, size_bytes)

    def _replacement(self, written: WrittenFiles, files: Sequence[DataFile]) -> Replacement | None:
        """Returns what the commit replaces: the files of the buckets that have new records, or small files by larger
        ones."""
        truncates = written.truncates
        if not files and not truncates:
            return None
        there = written.table.files()
        if self._export.config.is_upsert:
            plans = merges(written.table.name, there, files, of_all_buckets=bool(truncates))
        else:
            plans = joins(there, files)
        return self._tasks.rewrite(written.table, plans, truncates) if plans else None

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

    # -- dead letters that are tried again -------------------------------------------------------------------------

    def replay(self, mending: Mending | None, *, is_dry: bool, bytes_max: int) -> UnitReport:
        """Moves the dead letters that can be decoded now into the table: in a first commit they are added to it, in a
        second one they are removed from the table of dead letters."""
        table, dead_letters = self._of.open_both()
        if dead_letters is None or not dead_letters.rows:
            return not_needed(self._export.topic.name, f"table {table.name} has no dead letters")
        dead_letters.refuse_unknown_features(TableUse.READ if is_dry else TableUse.UPSERT)
        config = self._export.config
        if config.is_upsert and config.has_key_schemas:
            reason = f"its keys are {config.key}: newer records of a key cannot be told from their bytes"
            raise ReplayRefused(table.name, reason)
        if is_ahead(self._of.checked(dead_letters), table.ledger):
            raise ReplayRefused(table.name, "an export was interrupted: run siltstone maintain run first")
        ledger, results, size_bytes, has_remaining = table.ledger, list[ExportResult](), 0, False
        if config.is_upsert:
            bytes_max = min(bytes_max, REPLAY_BYTES_OF_KEYS)
        for files, has_more in parts_of(dead_letters, bytes_max):
            stay: dict[int, dict[int, str]] = {}
            if config.is_upsert:
                folder = store_at(self._settings.location), folder_of(self._export.dead_letter_table)
                stay = letters_that_stay(
                    self._context,
                    self._committed,
                    self._export,
                    ledger,
                    letters_of(*folder, files, self._export),
                )
            units = [
                encode_dead_letters(each, mending, is_dry=is_dry, staying=stay)
                for each in divided_files(files)
            ]
            token, part_bytes = self._tasks.token(units), sum(each.size_bytes for each in files)
            table, _, found = self._exported(
                table, dead_letters, units, token, None, part_bytes, replays=True, is_dry=is_dry
            )
            results += found
            has_remaining = has_more
            size_bytes += part_bytes
            if not is_dry and any(each.records > each.bad for each in found):
                moved = self._moved(
                    table, dead_letters, files, found, ledger.after({}, token, self._context.now_ms())
                )
                if moved is None:
                    return self._overtaken()
                self._note(*moved, ())
                break
        written = WrittenFiles(table, dead_letters, "", None, {}, (), tuple(results))
        return replayed(
            self._export.topic.name,
            table.name,
            written,
            size_bytes,
            is_dry=is_dry,
            has_remaining=has_remaining,
        )

    def _moved(
        self,
        table: LoadedTable,
        dead_letters: LoadedTable,
        files: tuple[TableFile, ...],
        results: Sequence[ExportResult],
        after: Ledger,
    ) -> tuple[LoadedTable, LoadedTable | None] | None:
        """Commits the rows of dead letters to the table, and replaces the files of these dead letters. Returns both
        tables; None if another driver has moved the ledger."""
        added = tuple(file for each in results for file in each.dead_letter_files)
        pending = PendingReplay(token=after.token, removed=files, added=added)
        topic_id = self._export.topic.topic_id
        self._attempt.watch.check()
        self._context.metadata.execute(put_replay(topic_id, pending))
        appended = [file for each in results for file in each.files]
        replacement = None
        if self._export.config.is_upsert:
            written = WrittenFiles(table, dead_letters, after.token, None, {}, (), tuple(results))
            replacement, appended = self._replacement(written, appended), []
        committed = commit_round(self._context, self._tables, table, appended, after, replacement)
        if committed is None:
            return None
        return end_replay(self._context, self._tables, topic_id, committed, dead_letters, pending)

    def _overtaken(self) -> UnitReport:
        text = f"another driver has exported to table {self._export.table} meanwhile"
        return not_needed(self._export.topic.name, text)

    def _note(self, table: LoadedTable, dead_letters: LoadedTable | None, gaps: tuple[Gap, ...]) -> None:
        """Copies the ledger into the metadata; once a day also deletes the files of rounds that failed."""
        ledger, before, now_ms = table.ledger, self._of.progress, self._context.now_ms()
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
        for of, schemas in self._of.known_schemas():
            if set(schemas.names) - set(schema_names_of(self._context.metadata.image, topic_id, of)):
                self._context.metadata.execute(put_schema_names(topic_id, schemas.names, of))

    def _sweep(self, tables: Iterable[LoadedTable], now_ms: int) -> None:
        """Drops old states of the tables, and deletes the files that no state needs."""
        store, image = store_at(self._settings.location, create=True), self._context.metadata.image
        for each in tables:
            each.expire(now_ms)
            delete_orphans(store, loaded(self._tables, each.name), image.jobs, now_ms)
