"""Copies a metadata log into a file of SQLite's, for backups, and writes the file of a restored log.

A prefix of a log is always consistent, so entries that are read one after another are a copy of one moment, also from
PostgreSQL. The file of a log in SQLite is copied by SQLite itself, page by page, while other processes write to it.
"""

import contextlib
import sqlite3
from collections.abc import Iterable
from pathlib import Path

from siltstone.metadata.log_entry import LogPosition
from siltstone.metadata.store.port import LogDamaged, LogTruncated, LogUnavailable, MetadataLog
from siltstone.metadata.store.sqlite_file import connect

ATTEMPTS_MAX = 8
PAGES_PER_STEP = 1_000
"""Pages that are copied while a writer waits: 4 MiB, some milliseconds."""


class LogFileExists(LogUnavailable):
    """There is a file already where a log is to be written."""


def copy_sqlite_file(source: Path, target: Path) -> None:
    """Copies the log in a file of SQLite's to a new file, while other processes may write. Raises LogFileExists,
    LogDamaged if the copy is not whole, LogUnavailable."""
    _refuse_existing(target)
    opened = connect(target, create=True)
    try:
        with contextlib.closing(opened.connection) as copy:
            with contextlib.closing(connect(source, create=False).connection) as original:
                original.backup(copy, pages=PAGES_PER_STEP)
            _check(copy, target)
    except sqlite3.OperationalError as error:
        raise LogUnavailable(f"{source} cannot be copied to {target}: {error}; try again") from error
    except sqlite3.DatabaseError as error:
        raise LogDamaged(f"{source} is damaged: {error}; restore it from a backup") from error


def copy_log_entries(log: MetadataLog, oldest_entry: int, target: Path) -> None:
    """Copies the log to a new file of SQLite's: its snapshot, and the entries from ``oldest_entry`` up to its head.
    Raises LogFileExists, LogDamaged, LogUnavailable, LogTruncated if the log dropped entries meanwhile."""
    _refuse_existing(target)
    head = log.head().version
    snapshot = log.load_snapshot()
    with contextlib.closing(connect(target, create=True).connection) as copy:
        if snapshot is not None:
            count = _insert_chunks(copy, snapshot.version, snapshot.chunks)
            copy.execute("INSERT INTO snapshots VALUES (?, ?)", (snapshot.version, count))
        at = oldest_entry - 1
        while at < head and (found := log.read_after(at, head - at)):
            copy.execute("BEGIN")
            copy.executemany("INSERT INTO entries VALUES (?, ?)", found)
            copy.execute("COMMIT")
            at = found[-1][0]
        if at < head:
            raise LogTruncated(f"the metadata log ends at version {at}, and its head was {head}; try again")
        _check(copy, target)


def write_restored_log(target: Path, position: LogPosition, entry: bytes, chunks: Iterable[bytes]) -> None:
    """Writes a log with one snapshot and the entry at its position. Raises LogFileExists, LogDamaged,
    LogUnavailable."""
    _refuse_existing(target)
    with contextlib.closing(connect(target, create=True).connection) as made:
        count = _insert_chunks(made, position.version, chunks)
        made.execute("BEGIN")
        made.execute("INSERT INTO snapshots VALUES (?, ?)", (position.version, count))
        made.execute("INSERT INTO entries VALUES (?, ?)", (position.version, entry))
        made.execute("COMMIT")
        _check(made, target)


def _insert_chunks(connection: sqlite3.Connection, version: int, chunks: Iterable[bytes]) -> int:
    count = 0
    for chunk in chunks:
        connection.execute("INSERT INTO chunks VALUES (?, ?, ?)", (version, count, chunk))
        count += 1
    return count


def _refuse_existing(target: Path) -> None:
    if target.exists():
        raise LogFileExists(f"{target} exists already: name a place where nothing is")


def _check(connection: sqlite3.Connection, path: Path) -> None:
    """Raises LogDamaged. All is in one file afterwards, which can be moved."""
    (found,) = connection.execute("PRAGMA integrity_check").fetchone()
    if found != "ok":
        raise LogDamaged(
            f"the copy of the metadata in {path} is damaged: {found}; check the disks, then try again"
        )
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
