"""The SQLite file of the metadata log: its tables, how it is created, and how it is distinguished from other files.

============ ====================== ==============================================================
table        columns                holds
============ ====================== ==============================================================
entries      version, entry         the log; entries up to some version may have been dropped
chunks       version, number, chunk snapshots, complete or being written
snapshots    version, chunk_count   the complete snapshots; chunks without a row here are ignored
============ ====================== ==============================================================

SQLite's application_id is "SILT", its user_version the version of these tables. WAL mode lets readers and the writer
work at the same time; synchronous=FULL makes a commit durable when it returns. Only the user that owns the file may
read it; SQLite gives its other files, ``-wal`` and ``-shm``, the mode of this one. SQLite needs to write to the folder
even to read such a file: a file that cannot be written, as in a snapshot that is mounted read-only, is opened as
``read_only_file`` says.
"""

import contextlib
import os
import sqlite3
import tempfile
from pathlib import Path

import msgspec

from siltstone.metadata.store.port import LogNotFound, LogUnavailable, LogVersionUnknown, NotMetadataLog
from siltstone.metadata.store.read_only_file import (
    CopyFolder,
    can_be_written,
    note_of,
    open_untouched,
    open_unwritten,
)
from siltstone.runtime.files import take_from_others

APPLICATION_ID = int.from_bytes(b"SILT", "big")
TABLES_VERSION = 1
BUSY_TIMEOUT_SECONDS = 30.0
"""How long a connection waits for another process's transaction, which usually takes milliseconds."""

_TABLES = """
CREATE TABLE entries (version INTEGER PRIMARY KEY, entry BLOB NOT NULL);
CREATE TABLE chunks (version INTEGER NOT NULL, number INTEGER NOT NULL, chunk BLOB NOT NULL,
                     PRIMARY KEY (version, number));
CREATE TABLE snapshots (version INTEGER PRIMARY KEY, chunk_count INTEGER NOT NULL);
"""


class OpenedFile(msgspec.Struct, frozen=True):
    """``copy``: the folder with the copy that is read, if it is a copy; it is deleted with this value.
    ``read_only_note`` says that the file cannot be written, and how old it is; else it is empty."""

    connection: sqlite3.Connection
    read_only_note: str = ""
    copy: CopyFolder | None = None


def connect(path: Path, *, create: bool, untouched: bool = False) -> OpenedFile:
    """Opens the database; with ``create`` it is created if it does not exist. Without, it may be a file that cannot be
    written. ``untouched``: it is only looked at, and no file is made, changed or mended. Raises LogNotFound,
    NotMetadataLog, LogVersionUnknown, LogUnavailable."""
    if not path.exists():
        if not create:
            raise LogNotFound(f"no metadata database at {path}; check the path")
        _create(path)
    is_read_only = untouched or (not create and not can_be_written(path))
    if not is_read_only:
        for end in ("", "-wal", "-shm"):
            take_from_others(path.with_name(path.name + end))
    try:
        try:
            if untouched:
                connection, copy = open_untouched(path)
                return OpenedFile(_checked(connection, path), f"{path} is only looked at", copy)
            connection = _checked(_open(path), path)
            return OpenedFile(connection, f"{path} cannot be written here" if is_read_only else "")
        except sqlite3.OperationalError:
            if not is_read_only:
                raise
        connection, copy = open_unwritten(path)
        return OpenedFile(_checked(connection, path), note_of(path), copy)
    except sqlite3.OperationalError as error:
        raise LogUnavailable(
            f"metadata database {path} cannot be opened: {error}; "
            "check the permissions of the file and of its folder: reading needs the permission to write there, too"
        ) from error
    except sqlite3.DatabaseError as error:
        raise NotMetadataLog(f"{path} is not a metadata database ({error}); check the path") from error


def _checked(connection: sqlite3.Connection, path: Path) -> sqlite3.Connection:
    try:
        _check(connection, path)
        connection.execute("PRAGMA synchronous = FULL")
    except BaseException:
        connection.close()
        raise
    return connection


def _open(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path, timeout=BUSY_TIMEOUT_SECONDS, isolation_level=None, check_same_thread=False)


def _check(connection: sqlite3.Connection, path: Path) -> None:
    (application_id,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if application_id != APPLICATION_ID:
        raise NotMetadataLog(f"{path} is not a metadata database of Siltstone; check the path")
    if version != TABLES_VERSION:
        raise LogVersionUnknown(
            f"the metadata database {path} has tables of version {version}, and this program uses version "
            f"{TABLES_VERSION}; use the version that created it"
        )


def _create(path: Path) -> None:
    """Creates the file completely or not at all; when several processes create it at once, one of them succeeds and
    the others use its file."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)  # with mode 0600
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
        raise LogUnavailable(
            f"metadata database {path} cannot be created: {error}; check the permissions and space of its folder"
        ) from error


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
