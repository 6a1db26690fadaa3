"""Deletes data files of rounds that did not commit, and files of Iceberg's that only expired snapshots needed.

A file is deleted when its name is one that a task or pyiceberg gives, its job has ended, no state of the table needs
it, it is old enough that no commit can still be on its way, and it is younger than the table: a table of that name may
have been there before, dropped or of another format, whose files are not ours to delete.
"""

import logging
import re
from collections.abc import Mapping

from siltstone.foundation.quantity_words import counted
from siltstone.metadata.entities import JobMetadata, JobState
from siltstone.model.limits import DAY_MS, DELETE_BATCH_KEYS_MAX
from siltstone.object_store.port import ObjectStore
from siltstone.offline.erasures import ErasedRows
from siltstone.tables.formats.port import OWN_NAME, LoadedTable, folder_of

log = logging.getLogger(__name__)

ORPHAN_AGE_MS = 1 * DAY_MS
"""Far longer than a round takes, its job's lease and the retries of a commit included."""

_OF_SNAPSHOT = re.compile(r"metadata/(snap-\d+-\d+-)?[0-9a-f-]{36}(-m\d+)?\.avro")
"""Manifests, and lists of them, as pyiceberg names them."""


def delete_orphans(
    store: ObjectStore,
    table: LoadedTable,
    jobs: Mapping[int, JobMetadata],
    now_ms: int,
    *,
    keys_max: int = DELETE_BATCH_KEYS_MAX,
) -> int:
    """Returns how many files were deleted, ``keys_max`` of them with each request. Raises what the store and
    the catalog raise."""
    folder, created_ms = folder_of(table.name), table.ledger.created_ms
    old = {
        each.key.removeprefix(folder)
        for part in ("data/", "metadata/")
        for each in store.list(f"{folder}{part}")
        if created_ms <= each.modified_ms <= now_ms - ORPHAN_AGE_MS
        and _is_of_ended_job(each.key.removeprefix(folder), jobs)
    }
    orphans = sorted(old - table.kept_paths()) if old else []
    for first in range(0, len(orphans), keys_max):
        store.delete([f"{folder}{path}" for path in orphans[first : first + keys_max]])
    if orphans:
        log.info(
            "%s of rounds that did not commit deleted from table %s",
            counted(len(orphans), "file"),
            table.name,
        )
    return len(orphans)


def delete_replaced(
    store: ObjectStore,
    table: LoadedTable,
    rows: ErasedRows,
    *,
    keys_max: int = DELETE_BATCH_KEYS_MAX,
) -> int:
    """Deletes the files that no state since an erasure needs, however young they are. Later files have no rows of the
    keys, so only those of jobs are looked at that the erasure has shut out, and what was there before its end. Returns
    how many were deleted. Raises what the store and the catalog raise."""
    folder, state = folder_of(table.name), rows.states.get(table.name)
    there = {
        path: each.modified_ms
        for part in ("data/", "metadata/")
        for each in store.list(f"{folder}{part}")
        if (path := each.key.removeprefix(folder))
    }
    # Why the list of the state, too: the times are the bucket's, whose clock may be ahead of the driver's.
    lists = [modified_ms for path, modified_ms in there.items() if path.startswith(f"metadata/snap-{state}-")]
    until_ms = max([rows.verified_ms, *lists])
    shut_out = {
        path
        for path, modified_ms in there.items()
        if (_OF_SNAPSHOT.fullmatch(path) and modified_ms <= until_ms)
        or ((named := OWN_NAME.fullmatch(path)) and int(named[1]) <= rows.job_id)
    }
    shut_out |= {path for name, path in rows.other_files if name == table.name}
    replaced = sorted(shut_out - table.paths_since(state, rows.verified_ms))
    for first in range(0, len(replaced), keys_max):
        store.delete([f"{folder}{path}" for path in replaced[first : first + keys_max]])
    return len(replaced)


def _is_of_ended_job(path: str, jobs: Mapping[int, JobMetadata]) -> bool:
    if _OF_SNAPSHOT.fullmatch(path):
        return True
    named = OWN_NAME.fullmatch(path)
    if named is None:
        return False
    job = jobs.get(int(named[1]))
    return job is None or job.state is not JobState.RUNNING
