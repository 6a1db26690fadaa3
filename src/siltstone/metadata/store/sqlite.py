"""The metadata log in one SQLite file, for any number of processes on one machine. ``sqlite_file`` has its tables.

A process uses one connection under one lock: SQLite admits one writer at a time anyway, and reads take microseconds.
"""

import contextlib
import sqlite3
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from siltstone.metadata.store.port import (
    AppendUncertain,
    LogDamaged,
    LogEndsTooEarly,
    LogReplaced,
    LogTruncated,
    LogUnavailable,
    Snapshot,
    VersionMovedOn,
)
from siltstone.metadata.store.sqlite_file import connect

ENTRIES_KEPT = 10_000
"""Entries kept before a snapshot. A client that is behind by fewer entries reads them without loading the snapshot, and
a client that lost the answer to an append can still look for its entry."""

_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_HEAD = """
SELECT max(coalesce((SELECT max(version) FROM entries), 0), coalesce((SELECT max(version) FROM snapshots), 0))
"""


class SqliteLog:
    def __init__(self, path: Path, *, create: bool = True, entries_kept: int = ENTRIES_KEPT) -> None:
        """Raises LogNotFound, NotMetadataLog, LogVersionUnknown, LogUnavailable."""
        self._path = path
        self._entries_kept = entries_kept
        self._lock = threading.Lock()
        self._connection = connect(path, create=create)
        self._inode = _inode_of(path)

    def append(self, entry: bytes, expected_version: int) -> int:
        self._refuse_replaced()
        with self._transaction() as connection:
            head = _head(connection)
            if head != expected_version:
                raise VersionMovedOn(f"the log is at version {head}, not {expected_version}; read on")
            connection.execute("INSERT INTO entries VALUES (?, ?)", (head + 1, entry))
        return expected_version + 1

    def read_after(self, version: int, limit: int) -> list[tuple[int, bytes]]:
        head = self.head_version()
        if version > head:
            raise LogEndsTooEarly(
                f"the metadata log in {self._path} ends at version {head}, and version {version} was read from it "
                "before: the file was replaced by an older copy; restore the newest copy"
            )
        query = "SELECT version, entry FROM entries WHERE version > ? ORDER BY version LIMIT ?"
        rows: list[tuple[int, bytes]] = self._read(query, version, limit)
        if version < head and (not rows or rows[0][0] > version + 1):
            raise LogTruncated(f"entries after version {version} were dropped; load the snapshot")
        return rows

    def head_version(self) -> int:
        with self._reading() as connection:
            return _head(connection)

    def save_snapshot(self, version: int, chunks: Iterable[bytes]) -> None:
        """Writes each chunk in a transaction of its own, so that appends are not blocked; the last transaction makes
        the snapshot valid."""
        count = 0
        for chunk in chunks:
            with self._transaction() as connection:
                connection.execute("INSERT OR REPLACE INTO chunks VALUES (?, ?, ?)", (version, count, chunk))
            count += 1
        with self._transaction() as connection:
            _complete_snapshot(connection, version, count, version - self._entries_kept)

    def snapshot_version(self) -> int | None:
        rows: list[tuple[int | None]] = self._read("SELECT max(version) FROM snapshots")
        return rows[0][0]

    def load_snapshot(self) -> Snapshot | None:
        rows = self._read("SELECT version, chunk_count FROM snapshots ORDER BY version DESC LIMIT 1")
        if not rows:
            return None
        ((version, count),) = rows
        return Snapshot(version, self._chunks(version, count))

    def close(self) -> None:
        with self._lock:
            self._connection.close()

    def _refuse_replaced(self) -> None:
        """Raises LogReplaced. SQLite would write on to a deleted file, and no other process would see the entries."""
        if _inode_of(self._path) != self._inode:
            raise LogReplaced(
                f"the metadata database {self._path} was deleted, moved or replaced while it was open: restore it, "
                "then restart"
            )

    def _chunks(self, version: int, count: int) -> Iterator[bytes]:
        for number in range(count):
            rows = self._read("SELECT chunk FROM chunks WHERE version = ? AND number = ?", version, number)
            if not rows:
                raise LogTruncated(f"the snapshot at version {version} was replaced; load the newer one")
            yield rows[0][0]

    def _read(self, query: str, *values: int) -> list[Any]:
        with self._reading() as connection:
            return connection.execute(query, values).fetchall()

    @contextlib.contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            try:
                yield self._connection
            except sqlite3.Error as error:
                raise self._trouble("read", error) from error

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """Runs the block in one transaction. Only an error of the commit itself leaves its outcome unknown. Raises
        LogUnavailable, LogDamaged, AppendUncertain."""
        with self._lock:
            try:
                self._connection.execute("BEGIN IMMEDIATE")
                yield self._connection
            except sqlite3.Error as error:
                self._roll_back()
                raise self._trouble("written", error) from error
            except BaseException:
                self._roll_back()
                raise
            try:
                self._connection.execute("COMMIT")
            except sqlite3.Error as error:
                self._roll_back()
                raise AppendUncertain(
                    f"the outcome of a commit to the metadata database {self._path} is unknown ({error}); "
                    "repeat the same append"
                ) from error

    def _trouble(self, what_failed: str, error: sqlite3.Error) -> LogUnavailable | LogDamaged:
        """Returns the error to raise: a retry helps when the database is locked or the disk is full, but not when the
        file is damaged."""
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in _DAMAGED:
            return LogDamaged(
                f"the metadata database {self._path} cannot be {what_failed}: {error}; restore it from a backup"
            )
        return LogUnavailable(
            f"the metadata database {self._path} cannot be {what_failed}: {error}; try again"
        )

    def _roll_back(self) -> None:
        with contextlib.suppress(sqlite3.Error):
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")


def _inode_of(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino


def _head(connection: sqlite3.Connection) -> int:
    ((head,),) = connection.execute(_HEAD).fetchall()
    return int(head)


def _complete_snapshot(connection: sqlite3.Connection, version: int, count: int, drop_until: int) -> None:
    """Makes the snapshot valid and drops older snapshots and entries. Two processes that save the same version write
    the same bytes, so a mixture of their chunks is complete. If chunks are missing, a process that saved a newer
    version has removed them; then the remaining chunks are removed, too."""
    ((found,),) = connection.execute("SELECT count(*) FROM chunks WHERE version = ?", (version,)).fetchall()
    ((newer,),) = connection.execute(
        "SELECT count(*) FROM snapshots WHERE version > ?", (version,)
    ).fetchall()
    if newer or found < count:
        connection.execute("DELETE FROM chunks WHERE version = ?", (version,))
        return
    connection.execute("INSERT OR REPLACE INTO snapshots VALUES (?, ?)", (version, count))
    connection.execute("DELETE FROM snapshots WHERE version < ?", (version,))
    connection.execute("DELETE FROM chunks WHERE version < ?", (version,))
    connection.execute("DELETE FROM entries WHERE version <= ?", (drop_until,))
