"""The metadata log in one SQLite file, for any number of processes on one machine. ``sqlite_file`` has its tables.

A process uses one connection under one lock: SQLite admits one writer at a time anyway, and reads take microseconds.
"""

import contextlib
import ctypes
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from siltstone.metadata.log_entry import LogPosition, link_of
from siltstone.metadata.store.kept_locks import keep_locks, let_go
from siltstone.metadata.store.port import (
    READ_BYTES_MAX,
    AppendUncertain,
    LogDamaged,
    LogEndsTooEarly,
    LogNews,
    LogReadOnly,
    LogReplaced,
    LogTruncated,
    LogUnavailable,
    Snapshot,
    VersionMovedOn,
    until_bytes,
)
from siltstone.metadata.store.sqlite_file import connect
from siltstone.runtime.files import inode_of

ENTRIES_KEPT = 10_000
"""Entries kept before a snapshot. A client that is behind by fewer entries reads them without loading the snapshot, and
a client that lost the answer to an append can still look for its entry."""

_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


class SqliteLog:
    def __init__(
        self,
        path: Path,
        *,
        create: bool = True,
        entries_kept: int = ENTRIES_KEPT,
        untouched: bool = False,
    ) -> None:
        """Raises LogNotFound, NotMetadataLog, LogVersionUnknown, LogUnavailable."""
        assert entries_kept >= 1, "the newest entry has the append id that the next append names"
        self._path = path
        self._entries_kept = entries_kept
        self._lock = threading.Lock()
        self._opened = connect(path, create=create, untouched=untouched)
        self._connection = self._opened.connection
        self._inode = inode_of(path)
        self._wal_inode = self._inode_of_wal()
        is_live = not untouched and self._opened.copy is None
        self._kept_locks = keep_locks(path) if is_live else None

    @property
    def read_only_note(self) -> str:
        return self._opened.read_only_note

    def take_turn(self) -> bool:
        return True

    def append(self, entry: bytes, expected: LogPosition) -> LogPosition:
        if self.read_only_note:
            raise LogReadOnly(
                f"the metadata database {self._path} cannot be written, so the store can only be looked at: give this "
                "user the permission to write to the file and its folder, or mount their disk writable"
            )
        self._refuse_replaced()
        with self._transaction() as connection:
            head = _head(connection)
            if head != expected:
                raise VersionMovedOn(f"the log is at version {head.version}, not {expected.version}; read on")
            connection.execute("INSERT INTO entries VALUES (?, ?)", (head.version + 1, entry))
        self._refuse_replaced()  # else the commit may be in a deleted file
        return LogPosition(expected.version + 1, link_of(entry).append_id)

    def read_after(
        self, version: int, limit: int, bytes_max: int = READ_BYTES_MAX
    ) -> list[tuple[int, bytes]]:
        ((head,),) = self._read("SELECT coalesce(max(version), 0) FROM entries")
        if version > head:
            raise LogEndsTooEarly(
                f"the metadata log in {self._path} ends at version {head}, and version {version} was read from it "
                "before: the file was replaced by an older copy; restore the newest copy"
            )
        query = "SELECT version, entry FROM entries WHERE version > ? ORDER BY version LIMIT ?"
        with self._reading() as connection, contextlib.closing(connection.cursor()) as cursor:
            rows = list(until_bytes(cursor.execute(query, (version, limit)), bytes_max))
        if version < head and (not rows or rows[0][0] > version + 1):
            raise LogTruncated(f"entries after version {version} were dropped; load the snapshot")
        return rows

    def head(self) -> LogPosition:
        with self._reading() as connection:
            return _head(connection)

    def save_snapshot(self, position: LogPosition, chunks: Iterable[bytes]) -> None:
        """Writes each chunk in a transaction of its own, so that appends are not blocked; the last transaction makes
        the snapshot valid."""
        version, count = position.version, 0
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

    def listen(self, on_news: Callable[[], None]) -> LogNews | None:
        return None

    def clock_offset_ms(self) -> int:
        return 0

    def close(self) -> None:
        with self._lock:
            let_go(self._kept_locks, self._leave_open if self._is_wal_gone() else self._connection.close)
            self._kept_locks = self._wal_inode = None
            if self._opened.copy is not None:
                self._opened.copy.cleanup()

    def _refuse_replaced(self) -> None:
        """Raises LogReplaced. SQLite would write on to a deleted file, and no other process would see the entries."""
        if inode_of(self._path) != self._inode:
            raise LogReplaced(
                f"the metadata database {self._path} was deleted, moved or replaced while it was open: restore it, "
                "then restart"
            )
        if self._is_wal_gone():
            raise LogReplaced(
                f"{self._path}-wal, a part of the metadata database, was deleted or replaced while it was open: "
                "restart at once"
            )

    def _leave_open(self) -> None:
        """Leaves the connection open for the life of the process. SQLite would copy what it has in a deleted ``-wal``
        file over newer entries of other processes, even when the process ends."""
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._connection))

    def _is_wal_gone(self) -> bool:
        return self._wal_inode is not None and self._inode_of_wal() != self._wal_inode

    def _inode_of_wal(self) -> tuple[int, int] | None:
        return inode_of(self._path.with_name(f"{self._path.name}-wal"))

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


def _head(connection: sqlite3.Connection) -> LogPosition:
    """The newest entry is never dropped: a snapshot leaves ``entries_kept`` entries."""
    rows = connection.execute("SELECT version, entry FROM entries ORDER BY version DESC LIMIT 1").fetchall()
    return LogPosition(rows[0][0], link_of(rows[0][1]).append_id) if rows else LogPosition()


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
