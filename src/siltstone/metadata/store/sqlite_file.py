"""The SQLite file of the metadata log: its tables, how it comes into being, and how it is told from any other file.

============ ====================== ==============================================================
table        columns                holds
============ ====================== ==============================================================
entries      version, entry         the log; entries up to some version may have been dropped
chunks       version, number, chunk snapshots, complete or being written
snapshots    version, chunk_count   the complete ones; a row here is what makes a snapshot count
============ ====================== ==============================================================

application_id is "SILT", user_version the version of these tables. WAL mode lets readers and the writer go on
side by side; synchronous=FULL makes a commit durable when it returns.
"""

import contextlib
import os
import sqlite3
import tempfile
from pathlib import Path

from siltstone.metadata.store.port import LogNotFound, LogUnavailable, LogVersionUnknown, NotMetadataLog

APPLICATION_ID = int.from_bytes(b"SILT", "big")
TABLES_VERSION = 1
BUSY_TIMEOUT_SECONDS = 30.0
"""How long a connection waits for another process's transaction; they take milliseconds."""

_TABLES = """
CREATE TABLE entries (version INTEGER PRIMARY KEY, entry BLOB NOT NULL);
CREATE TABLE chunks (version INTEGER NOT NULL, number INTEGER NOT NULL, chunk BLOB NOT NULL,
                     PRIMARY KEY (version, number));
CREATE TABLE snapshots (version INTEGER PRIMARY KEY, chunk_count INTEGER NOT NULL);
"""


def connect(path: Path, *, create: bool) -> sqlite3.Connection:
    """Raises LogNotFound, NotMetadataLog, LogVersionUnknown, LogUnavailable."""
    if not path.exists():
        if not create:
            raise LogNotFound(f"no metadata database at {path}; check the path")
        _create(path)
    try:
        connection = _open(path)
        try:
            _check(connection, path)
            connection.execute("PRAGMA synchronous = FULL")
        except BaseException:
            connection.close()
            raise
    except sqlite3.OperationalError as error:
        raise LogUnavailable(
            f"metadata database {path} cannot be opened: {error}; "
            "check its permissions and its folder's, which readers write to as well"
        ) from error
    except sqlite3.DatabaseError as error:
        raise NotMetadataLog(f"{path} is no metadata database ({error}); check the path") from error
    return connection


def _open(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path, timeout=BUSY_TIMEOUT_SECONDS, isolation_level=None, check_same_thread=False)


def _check(connection: sqlite3.Connection, path: Path) -> None:
    (application_id,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if application_id != APPLICATION_ID:
        raise NotMetadataLog(f"{path} is no metadata database; check the path")
    if version != TABLES_VERSION:
        raise LogVersionUnknown(f"{path} has tables of version {version}; this program uses {TABLES_VERSION}")


def _create(path: Path) -> None:
    """The file appears whole or not at all; of several processes that create it at once one wins."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        os.close(handle)
        draft = Path(name)
        try:
            _write_tables(draft)
            with contextlib.suppress(FileExistsError):
                os.link(draft, path)
            _sync(path.parent)
        finally:
            draft.unlink()
    except (OSError, sqlite3.Error) as error:
        raise LogUnavailable(f"metadata database {path} cannot be created: {error}") from error


def _write_tables(path: Path) -> None:
    with contextlib.closing(_open(path)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.executescript(f"BEGIN; {_TABLES} COMMIT;")
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {TABLES_VERSION}")
    _sync(path)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
