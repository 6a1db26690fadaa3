"""The lease board in an SQLite file of its own, ``<metadata file>-leases``, for processes on one machine.

============ ============================================ ===============================
table        columns                                      holds
============ ============================================ ===============================
leases       node_id, node_epoch, number, incarnation     the newest beat of a node
loads        node_id, load (msgpack, ``NodeLoad``)        what a node measured last
node_secrets node_id, node_epoch, incarnation, secret     what proves a life of a node
============ ============================================ ===============================

The file is not the metadata's, because SQLite admits one writer to a file: if beats waited behind an append that hangs,
all leases would end. A beat costs no fsync, and there is no ``-wal`` beside the file, which could outlive it. A file
that is damaged, because the machine failed, is replaced by a new one: all that it holds is a second old. Only its owner
may read it (0600), because of the secrets."""

import contextlib
import os
import sqlite3
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from siltstone.metadata.leases.board import (
    BOARD_DEADLINE_MS,
    Beat,
    BoardUnavailable,
    NodeLoad,
    NodeSecret,
    decode_loads,
    encode_load,
)
from siltstone.model.secret import Secret
from siltstone.runtime.files import inode_of, take_from_others

T = TypeVar("T")

APPLICATION_ID = int.from_bytes(b"SILB", "big")
TABLES_VERSION = 1
_TABLE = """
CREATE TABLE leases (node_id INTEGER PRIMARY KEY, node_epoch INTEGER NOT NULL, number INTEGER NOT NULL,
                     incarnation TEXT NOT NULL)
"""
_LOADS_TABLE = "CREATE TABLE IF NOT EXISTS loads (node_id INTEGER PRIMARY KEY, load BLOB NOT NULL)"
_SECRETS_TABLE = """
CREATE TABLE IF NOT EXISTS node_secrets (node_id INTEGER PRIMARY KEY, node_epoch INTEGER NOT NULL,
                                         incarnation TEXT NOT NULL, secret TEXT NOT NULL)
"""
"""A file of an earlier version lacks these two."""


def board_path(metadata_path: Path) -> Path:
    return metadata_path.with_name(metadata_path.name + "-leases")


class SqliteBoard:
    def __init__(self, path: Path, *, deadline_ms: int = BOARD_DEADLINE_MS) -> None:
        """Opens no file yet: a board that cannot be opened is out, and may be back later."""
        self._path = path
        self._deadline_seconds = deadline_ms / 1000
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._inode: tuple[int, int] | None = None

    def beat(self, beat: Beat) -> None:
        row = (beat.node_id, beat.node_epoch, beat.number, beat.incarnation)
        self._run(
            lambda connection: connection.execute("INSERT OR REPLACE INTO leases VALUES (?, ?, ?, ?)", row)
        )

    def beats(self) -> tuple[Beat, ...]:
        query = "SELECT node_id, node_epoch, number, incarnation FROM leases ORDER BY node_id"
        return tuple(Beat(*row) for row in self._run(lambda connection: connection.execute(query).fetchall()))

    def put_load(self, load: NodeLoad) -> None:
        row = (load.node_id, encode_load(load))

        def put(connection: sqlite3.Connection) -> None:
            connection.execute(_LOADS_TABLE)
            connection.execute("INSERT OR REPLACE INTO loads VALUES (?, ?)", row)

        self._run(put)

    def loads(self) -> tuple[NodeLoad, ...]:
        def rows(connection: sqlite3.Connection) -> list[bytes]:
            if not _has_table(connection, "loads"):
                return []
            return [load for (load,) in connection.execute("SELECT load FROM loads ORDER BY node_id")]

        return decode_loads(self._run(rows))

    def put_secret(self, secret: NodeSecret) -> None:
        row = (secret.node_id, secret.node_epoch, secret.incarnation, secret.secret.revealed())

        def put(connection: sqlite3.Connection) -> None:
            connection.execute(_SECRETS_TABLE)
            connection.execute("INSERT OR REPLACE INTO node_secrets VALUES (?, ?, ?, ?)", row)

        self._run(put)

    def secrets(self) -> tuple[NodeSecret, ...]:
        query = "SELECT node_id, node_epoch, incarnation, secret FROM node_secrets ORDER BY node_id"

        def rows(connection: sqlite3.Connection) -> list[tuple[int, int, str, str]]:
            return connection.execute(query).fetchall() if _has_table(connection, "node_secrets") else []

        return tuple(
            NodeSecret(node_id, node_epoch, incarnation, Secret(secret))
            for node_id, node_epoch, incarnation, secret in self._run(rows)
        )

    def forget(self, node_id: int) -> None:
        def forgotten(connection: sqlite3.Connection) -> None:
            connection.execute(_LOADS_TABLE)
            connection.execute(_SECRETS_TABLE)
            for table in ("leases", "loads", "node_secrets"):
                connection.execute(f"DELETE FROM {table} WHERE node_id = ?", (node_id,))  # noqa: S608

        self._run(forgotten)

    def close(self) -> None:
        with self._lock:
            self._disconnect()

    def _run(self, statement: Callable[[sqlite3.Connection], T]) -> T:
        if not self._lock.acquire(timeout=self._deadline_seconds):
            raise BoardUnavailable(f"the lease board {self._path} is busy with another call; try again")
        try:
            return statement(self._connected())
        except (sqlite3.Error, OSError) as error:
            self._disconnect()
            raise BoardUnavailable(
                f"the lease board {self._path} cannot be used: {error}; check the disk and the permissions of its "
                "folder"
            ) from error
        finally:
            self._lock.release()

    def _connected(self) -> sqlite3.Connection:
        """Returns the connection to the file that is at the path now: no other node would see beats in a deleted
        file."""
        if self._connection is None or inode_of(self._path) != self._inode:
            self._disconnect()
            if self._path.exists() and not _is_whole(self._path, self._deadline_seconds):
                self._path.unlink(missing_ok=True)
            if not self._path.exists():
                _create(self._path)
            take_from_others(self._path)
            self._inode = inode_of(self._path)
            self._connection = _open(self._path, self._deadline_seconds)
        return self._connection

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _has_table(connection: sqlite3.Connection, name: str) -> bool:
    found = connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (name,)).fetchone()
    return found is not None


def _open(path: Path, deadline_seconds: float) -> sqlite3.Connection:
    connection = sqlite3.connect(
        path, timeout=deadline_seconds, isolation_level=None, check_same_thread=False
    )
    connection.execute("PRAGMA journal_mode = MEMORY")
    connection.execute("PRAGMA synchronous = OFF")
    return connection


def _is_whole(path: Path, deadline_seconds: float) -> bool:
    """Returns whether the file is an undamaged board. Raises BoardUnavailable for another file, and
    sqlite3.OperationalError when it is locked."""
    with contextlib.closing(sqlite3.connect(path, timeout=deadline_seconds)) as connection:
        try:
            (application_id,) = connection.execute("PRAGMA application_id").fetchone()
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            (verdict,) = connection.execute("PRAGMA quick_check").fetchone()
        except sqlite3.OperationalError:
            raise
        except sqlite3.DatabaseError:
            return False
    if (application_id, version) != (APPLICATION_ID, TABLES_VERSION):
        raise BoardUnavailable(
            f"{path} is not a lease board of this version of Siltstone; move it away if nothing else needs it"
        )
    return bool(verdict == "ok")


def _create(path: Path) -> None:
    """Creates the file completely or not at all. When several processes do so at once, one of them succeeds and the
    others use its file."""
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)  # with mode 0600
    os.close(handle)
    draft = Path(name)
    try:
        with contextlib.closing(_open(draft, BOARD_DEADLINE_MS / 1000)) as connection:
            connection.execute(_TABLE)
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {TABLES_VERSION}")
        with contextlib.suppress(FileExistsError):
            os.link(draft, path)
    finally:
        draft.unlink(missing_ok=True)
