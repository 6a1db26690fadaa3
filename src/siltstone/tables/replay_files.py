"""Moves dead letters into their table exactly once, in two commits: one of each table.

    metadata: the replay ── commit of the table: rows and token ── commit of the dead letters: files replaced ── done

The metadata names both commits before the first. The next export or replay looks for the token in the table's ledger.
If the ledger has it, that driver makes the second commit. If not, the driver gives the replay up, and all dead letters
are where they were. Before that it moves the ledger on by an empty commit, so that a commit that is still under way is
refused. So each record is in exactly one of the two tables.
"""

import logging
from collections.abc import Iterator, Sequence

import msgspec

from siltstone.model.limits import GIB
from siltstone.offline.context import MaintenanceContext
from siltstone.tables.committing import commit_round, loaded
from siltstone.tables.failures import CommitOvertaken, ReplayRefused
from siltstone.tables.formats.port import OWN_NAME, LoadedTable, Replacement, TableFile, TableFormat
from siltstone.tables.progress import PendingReplay, remove_replay
from siltstone.tables.task_input import FILE_BYTES, DeadLetterUnit, Mending

REPLAY_BYTES = 1 * GIB
"""The most bytes of dead letters that one replay moves. If none of them can be moved, it tries the next ones."""

REPLAY_FILES_MAX = 1_000
"""The most files of dead letters of one replay: the metadata lists them while it is under way."""

log = logging.getLogger(__name__)


def parts_of(dead_letters: LoadedTable, bytes_max: int) -> Iterator[tuple[tuple[TableFile, ...], bool]]:
    """Yields the files of the dead letters in parts that one replay can move, the oldest first, and whether more parts
    follow. Raises ReplayRefused."""
    there = sorted(dead_letters.files(), key=_age_of)
    for each in there:
        if reason := each.unreadable or each.kept:
            raise ReplayRefused(dead_letters.name, f"its file {each.path} cannot be replaced: {reason}")
    at = 0
    while at < len(there):
        end, size_bytes = at + 1, there[at].size_bytes
        while end < len(there) and end - at < REPLAY_FILES_MAX:
            size_bytes += there[end].size_bytes
            if size_bytes > bytes_max:
                break
            end += 1
        yield tuple(there[at:end]), end < len(there)
        at = end


def _age_of(file: TableFile) -> tuple[int, str]:
    """Returns the order of files: by the job that wrote them. So what a replay could not move comes last, and files of
    other programs come first."""
    own = OWN_NAME.fullmatch(file.path)
    return int(own[1]) if own else -1, file.path


def divided_files(files: Sequence[TableFile]) -> Iterator[tuple[TableFile, ...]]:
    """Yields the files of each task, in their order."""
    part: list[TableFile] = []
    for each in files:
        if part and sum(one.size_bytes for one in part) + each.size_bytes > FILE_BYTES:
            yield tuple(part)
            part = []
        part.append(each)
    if part:
        yield tuple(part)


def encode_dead_letters(
    files: tuple[TableFile, ...],
    mending: Mending | None,
    *,
    is_dry: bool,
    staying: dict[int, dict[int, str]] | None = None,
) -> bytes:
    """Returns the unit of a task."""
    unit = DeadLetterUnit(files=files, mending=mending, is_dry=is_dry, staying=staying or {})
    return msgspec.msgpack.encode(unit)


def end_replay(
    context: MaintenanceContext,
    tables: TableFormat,
    topic_id: str,
    table: LoadedTable,
    dead_letters: LoadedTable | None,
    pending: PendingReplay,
) -> tuple[LoadedTable, LoadedTable | None]:
    """Ends a replay after its first commit, or gives it up if there was none. Returns both tables as they are then.
    Raises CommitOvertaken, ReplayRefused, and what a commit raises."""
    if table.ledger.token != pending.token:
        fence = f"{pending.token.partition('-')[0]}-{context.rng.getrandbits(64):016x}"
        after = table.ledger.after({}, fence, context.now_ms())
        moved = commit_round(context, tables, table, (), after)
        table = loaded(tables, table.name) if moved is None else moved
        if table.ledger.token != pending.token:
            if moved is None:
                raise CommitOvertaken(f"another driver has exported to table {table.name} meanwhile")
            log.warning(
                "a replay of dead letters of table %s was given up before its first commit", table.name
            )
            context.metadata.execute(remove_replay(topic_id))
            return table, dead_letters
    if dead_letters is not None and dead_letters.ledger.token != pending.token:
        if not set(pending.removed) <= set(dead_letters.files()):
            raise ReplayRefused(
                dead_letters.name,
                f"another program has replaced its files while {pending.removed[0].path} and others were moved to table"
                f" {table.name}: undo that change, or drop the dead letters",
            )
        after = dead_letters.ledger.after({}, pending.token, context.now_ms())
        replacement = Replacement(pending.removed, pending.added, keeps_rows=False)
        left = commit_round(context, tables, dead_letters, (), after, replacement)
        if left is None:
            raise CommitOvertaken(f"another driver has changed table {dead_letters.name} meanwhile")
        dead_letters = left
    context.metadata.execute(remove_replay(topic_id))
    return table, dead_letters
