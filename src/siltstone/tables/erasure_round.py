"""Drives an erasure through a topic's table and its dead letters, when the records have left the topic.

    look at each file ─ rows are found: the files replaced in one commit ─ look again
                      ╰ none: an empty commit ─ verified ─ grace period ─ older states dropped, their files deleted

It has the lock of exports. The empty commit moves the ledger, so an export that lost its lock, and may have read
records before they were erased, is refused afterwards. What is found is noted before it is replaced (``ErasedRows``).
"""

import logging
from collections.abc import Iterator, Sequence

import msgspec

from siltstone.carrying.pipeline.kind import Attempt, Outcome, UnitReport
from siltstone.foundation.quantity_words import counted
from siltstone.metadata.image import ImageView
from siltstone.offline.erasures import (
    ErasedRows,
    Erasure,
    StreamErasure,
    erased_rows,
    erasures_of,
    is_deletion_due,
    is_table_pending,
    put_erased_rows,
)
from siltstone.offline.settings import TableSettings
from siltstone.offline.tasks.source_bytes import store_at
from siltstone.scanning.transactions import CommittedEnds
from siltstone.tables.committing import commit_round, loaded
from siltstone.tables.failures import CommitOvertaken, TableFileRefused
from siltstone.tables.formats.port import OWN_NAME, LoadedTable, Replacement, TableFormat
from siltstone.tables.orphans import delete_replaced
from siltstone.tables.planning import TopicExport, progress_in
from siltstone.tables.round_tables import RoundTables
from siltstone.tables.round_tasks import RoundTasks
from siltstone.tables.task import run_export
from siltstone.topic_configs.table_export import KAFKA

LOOKS_MAX = 20
"""Looks of one run. The second finds nothing, unless another program adds rows of the keys meanwhile."""

OTHER_FILES_MAX = 1_000
"""So many files of other programs are noted, to be deleted; if more are replaced, the rest is left to the programs."""

log = logging.getLogger(__name__)


class ErasureRound:
    """The erasures of one topic in its table and the table of its dead letters."""

    def __init__(
        self,
        attempt: Attempt,
        settings: TableSettings,
        export: TopicExport,
        tables: TableFormat,
        grace_period_ms: int,
    ) -> None:
        self._attempt = attempt
        self._context = attempt.context
        self._settings = settings
        self._export = export
        self._tables = tables
        self._grace_period_ms = grace_period_ms
        self._tasks = RoundTasks(attempt, settings, run_export, export)

    def done(self) -> UnitReport:
        """Does what is to be done now. Raises what a round raises, and TableFileRefused."""
        image, now_ms = self._context.metadata.refresh(), self._context.now_ms()
        of_topic = [each for each in erasures_of(image) if each.topic_id == self._export.topic.topic_id]
        texts = []
        if pending := [each for each in of_topic if is_table_pending(image, each)]:
            texts.append(self._erase(image, pending))
        image = self._context.metadata.refresh()
        due = [each for each in of_topic if is_deletion_due(image, each, now_ms, self._grace_period_ms)]
        texts += [self._delete(each) for each in due]
        return UnitReport(
            name=self._export.topic.name,
            outcome=Outcome.DONE,
            text="; ".join(texts) or "nothing is to be erased",
            peak_memory_bytes=self._tasks.peak_memory_bytes,
        )

    # -- rows ------------------------------------------------------------------------------------------------------

    def _erase(self, image: ImageView, pending: Sequence[Erasure]) -> str:
        names = {number for each in pending for number, bound in enumerate(each.bounds) if bound}
        wanted = {number: tuple(_of_partition(pending, number)) for number in sorted(names)}
        rows, tables = 0, self._opened(image)
        for _ in range(LOOKS_MAX):
            looks = [self._looked(each, wanted, pending) for each in tables]
            tables = [table for table, _, _ in looks]
            rows += sum(found for _, found, _ in looks)
            if all(is_clean for _, _, is_clean in looks):
                self._note_verified(pending, tables)
                return f"{counted(rows, 'row')} of erased keys removed from table {self._export.table}"
        raise CommitOvertaken(f"other programs change table {self._export.table}; the next run continues")

    def _opened(self, image: ImageView) -> list[LoadedTable]:
        """Opens both tables, and ends a replay that was interrupted; none before the first export."""
        if self._tables.load(self._export.table) is None and progress_in(image, self._export) is None:
            return []
        committed = CommittedEnds(self._context)
        of = RoundTables(self._context, self._settings, self._export, self._tables, committed)
        table, dead_letters = of.open_both()
        if dead_letters is not None:
            of.checked(dead_letters)
        return [table] if dead_letters is None else [table, dead_letters]

    def _looked(
        self, table: LoadedTable, wanted: dict[int, tuple[StreamErasure, ...]], pending: Sequence[Erasure]
    ) -> tuple[LoadedTable, int, bool]:
        """Looks at all files, and replaces those with rows of the keys. Returns the table after the commit, the rows,
        and whether the table has no such row."""
        files = list(table.files())
        for each in files:
            if each.unreadable:
                raise TableFileRefused(table.name, each.path, "looked at for erased keys", each.unreadable)
        outer = f"{KAFKA}." if KAFKA in table.schema.names else ""
        found = self._tasks.erase(table, files, wanted, outer)
        for each in found:
            if each.kept:
                raise TableFileRefused(
                    table.name, each.path, "written without rows of erased keys", each.kept
                )
        rows = sum(each.erased for each in found.values())
        replacement = None
        if found:
            self._note_found(pending, table, [each.path for each in found], rows)
            added = tuple(file for each in found.values() for file in each.files)
            replacement = Replacement(tuple(found), added, keeps_rows=False)
        self._attempt.watch.check()
        token = self._tasks.token([repr(files).encode()])
        after = table.ledger.after({}, token, self._context.now_ms())
        committed = commit_round(self._context, self._tables, table, (), after, replacement)
        if committed is None:
            raise CommitOvertaken(f"another driver has exported to table {table.name} meanwhile")
        return committed, rows, not found and set(committed.files()) <= set(files)

    def _note_found(
        self, pending: Sequence[Erasure], table: LoadedTable, paths: Sequence[str], rows: int
    ) -> None:
        others = [(table.name, path) for path in paths if OWN_NAME.fullmatch(path) is None]
        image = self._context.metadata.refresh()
        for erasure in pending:
            noted = erased_rows(image, erasure.erasure_id) or ErasedRows(table=self._export.table)
            other_files = tuple(dict.fromkeys((*noted.other_files, *others)))[:OTHER_FILES_MAX]
            found = msgspec.structs.replace(
                noted, files=noted.files + len(paths), rows=noted.rows + rows, other_files=other_files
            )
            self._context.metadata.execute(put_erased_rows(erasure.erasure_id, found))

    def _note_verified(self, pending: Sequence[Erasure], tables: Sequence[LoadedTable]) -> None:
        job_id = self._attempt.job_id
        states = {each.name: state for each in tables if (state := each.ledger.snapshot_id) is not None}
        image, now_ms = self._context.metadata.refresh(), self._context.now_ms()
        for erasure in pending:
            noted = erased_rows(image, erasure.erasure_id) or ErasedRows(table=self._export.table)
            verified = msgspec.structs.replace(noted, verified_ms=now_ms, job_id=job_id, states=states)
            self._context.metadata.execute(put_erased_rows(erasure.erasure_id, verified))

    # -- files -----------------------------------------------------------------------------------------------------

    def _delete(self, erasure: Erasure) -> str:
        """Drops the states of both tables from before the erasure, and deletes the files that only these needed."""
        noted = erased_rows(self._context.metadata.image, erasure.erasure_id)
        assert noted is not None, "it is verified"
        store, deleted, held_by = store_at(self._settings.location, create=True), 0, list[str]()
        for name in (self._export.table, self._export.dead_letter_table):
            table = self._tables.load(name)
            if table is not None:
                held_by += (f"{each} of {name}" for each in table.forget_before(noted.states.get(name)))
                deleted += delete_replaced(store, loaded(self._tables, name), noted)
        deleted_ms = 0 if held_by else self._context.now_ms()
        ended = msgspec.structs.replace(noted, held_by=tuple(held_by), deleted_ms=deleted_ms)
        self._context.metadata.execute(put_erased_rows(erasure.erasure_id, ended))
        held = f", and {', '.join(held_by)} hold others" if held_by else ""
        return f"{counted(deleted, 'file')} of older states of table {self._export.table} deleted{held}"


def _of_partition(pending: Sequence[Erasure], number: int) -> Iterator[StreamErasure]:
    for each in pending:
        if number < len(each.bounds) and each.bounds[number]:
            hashes = tuple(key.hash for key in each.keys)
            yield StreamErasure(each.erasure_id, each.hash_key, hashes, each.bounds[number])
