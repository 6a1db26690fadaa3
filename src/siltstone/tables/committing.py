"""Commits a round to one table, with the three outcomes of rule 5; and a failure that is certain is never called
unknown (rule 14).

done      the data files are in the table, and the ledger has moved on
refused   the table has changed since it was loaded. If its ledger is unchanged, another program has rewritten the
          table, and the commit is repeated on the newest state; otherwise another driver has done the round
unknown   the table is loaded again, and its ledger shows whether the commit took place
failed    nothing was sent to the catalog; or the ledger shows that the commit did not take place, and the exception
          comes from values alone. Another try would fail as well, so there is none

No file is deleted here: a commit whose answer was lost may still arrive.
"""

import logging
from collections.abc import Sequence

from siltstone.model.errors import SiltstoneError
from siltstone.offline.context import MaintenanceContext
from siltstone.tables.failures import (
    CatalogFailed,
    CommitFailed,
    CommitOvertaken,
    LedgerLost,
    TableCommitUnknown,
    in_one_line,
    is_certain,
)
from siltstone.tables.formats.port import (
    DataFile,
    LoadedTable,
    Replacement,
    TableFormat,
)
from siltstone.tables.ledger import Ledger

log = logging.getLogger(__name__)

ATTEMPTS_MAX = 10
BACKOFF_MS_MIN = 100
BACKOFF_MS_MAX = 10_000


def commit_round(
    context: MaintenanceContext,
    tables: TableFormat,
    table: LoadedTable,
    files: Sequence[DataFile],
    after: Ledger,
    replacement: Replacement | None = None,
) -> LoadedTable | None:
    """In one commit, exactly once, appends the files, replaces other files, and sets the ledger to ``after``. Returns
    the table after the commit; None if another driver has moved the ledger. Raises CommitFailed, TableCommitUnknown,
    CatalogFailed, TableHasUnknownFeatures, what a ledger raises, and CommitOvertaken if another program has replaced
    the same files, or deleted rows of them (rule 16)."""
    before = table.ledger
    trouble: Exception | None = None
    for attempt in range(ATTEMPTS_MAX):
        trouble = _tried(table, files, after, replacement)
        if trouble is not None:
            log.warning("the outcome of a commit is looked up: %s", trouble)
            ceiling_ms = min(BACKOFF_MS_MAX, BACKOFF_MS_MIN * 2**attempt)
            context.clock.block_ms(ceiling_ms * (0.5 + context.rng.random() / 2))
        table = loaded(tables, table.name)
        found = table.ledger
        if found.token == after.token:
            return table
        if found.offsets != before.offsets or found.token != before.token:
            return None
        if replacement and not set(replacement.removed) <= set(table.files()):
            raise CommitOvertaken(
                f"another program has replaced files of table {table.name}, or rows of them; the next run continues"
            )
        if trouble is not None and is_certain(trouble.__cause__):
            raise _failed(table.name, before, after, trouble.__cause__) from trouble
    if trouble is not None and not isinstance(trouble, TableCommitUnknown):
        raise trouble
    why = f" ({in_one_line(trouble.__cause__)})" if trouble and trouble.__cause__ else ""
    raise TableCommitUnknown(
        f"table {table.name} could not be committed to in {ATTEMPTS_MAX} tries{why}: nothing is lost, the next run"
        " continues"
    )


def _tried(
    table: LoadedTable, files: Sequence[DataFile], after: Ledger, replacement: Replacement | None
) -> Exception | None:
    """Tries the commit once. Returns CommitUnknown; or CatalogFailed if a network or a store has failed before anything
    was sent. Raises CommitFailed."""
    try:
        table.append(files, after, replacement)
    except CommitOvertaken as overtaken:
        log.info("a commit is repeated if that is needed: %s", overtaken)
    except TableCommitUnknown as unknown:
        return unknown
    except SiltstoneError:
        raise
    except Exception as cause:  # raised before the commit was sent (``LoadedTable.append``)
        if is_certain(cause):
            raise _failed(table.name, table.ledger, after, cause) from cause
        failed = CatalogFailed(f"a commit to table {table.name} could not be prepared: {in_one_line(cause)}")
        failed.__cause__ = cause
        return failed
    return None


def _failed(table: str, before: Ledger, after: Ledger, cause: BaseException | None) -> CommitFailed:
    assert cause is not None
    moved = {
        number: (before.offset(number) or 0, end)
        for number, end in after.offsets.items()
        if end != before.offset(number)
    }
    return CommitFailed(table, moved, cause)


def loaded(tables: TableFormat, name: str) -> LoadedTable:
    """Returns the newest state of a table that has to be there. Raises LedgerLost, CatalogFailed."""
    found = tables.load(name)
    if found is None:
        raise LedgerLost(name, "the table is gone")
    return found
