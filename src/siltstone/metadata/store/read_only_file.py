"""Opens the metadata database of a store that cannot be written: a snapshot that is mounted read-only, or a file that
may only be read.

SQLite's WAL mode makes files beside the database even for a reader. Two ways lead around it, by what is beside it:

- no ``-wal`` file, or an empty one: the database is complete, and is opened with ``immutable=1``, which makes no file
  and takes no lock;
- a ``-wal`` file with content: that is part of the database, and ``immutable=1`` would leave it out. Both files are
  copied into a temporary folder, and the copy is opened.

Both show the database of one moment. If a process writes to it meanwhile, through another mount or as another user,
the note says so, and a copy that was torn by its writes is refused.
"""

import fcntl
import os
import shutil
import sqlite3
import tempfile
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

from siltstone.metadata.store.kept_locks import LIVE_LOCK_BYTE, flock, kind_of
from siltstone.metadata.store.port import LogUnavailable
from siltstone.runtime.files import inode_of

CopyFolder = tempfile.TemporaryDirectory[str]

COPIES_MAX = 5
"""How often a copy is tried while another process writes. A busy store writes several times a second, a copy takes some
milliseconds."""


def can_be_written(path: Path) -> bool:
    """Returns whether SQLite can write to the database, and make its files beside it."""
    return os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)


def note_of(path: Path) -> str:
    """Returns what a user has to know of a database that ``open_unwritten`` has opened."""
    other = "another process has it open; " if _is_live(path) else ""
    return (
        f"{path} cannot be written here, so it is read as it is at this moment: {other}what is written to it from now "
        "on is not seen"
    )


def open_unwritten(path: Path) -> tuple[sqlite3.Connection, CopyFolder | None]:
    """Opens the database for reading as it is now. Returns also the folder of the copy, if one was made. Raises
    LogUnavailable, sqlite3.Error."""
    if not _size_of(_beside(path, "-wal")):
        return _connected(path, "immutable=1"), None
    folder = tempfile.TemporaryDirectory(prefix="siltstone-metadata-")
    try:
        return _connected(_copied(path, Path(folder.name)), "mode=rw"), folder
    except BaseException:
        folder.cleanup()
        raise


def open_untouched(path: Path) -> tuple[sqlite3.Connection, CopyFolder | None]:
    """Opens a database that could be written, without writing anything. While another process has it open, SQLite's
    files are there and this reader makes none; else it is opened as one that cannot be written. Raises what
    ``open_unwritten`` does."""
    return (_connected(path, "mode=ro"), None) if _is_live(path) else open_unwritten(path)


def _connected(path: Path, options: str) -> sqlite3.Connection:
    connection = sqlite3.connect(
        f"file:{quote(str(path))}?{options}", uri=True, isolation_level=None, check_same_thread=False
    )
    connection.execute("PRAGMA query_only = ON")
    return connection


def _copied(path: Path, folder: Path) -> Path:
    """Copies the database and its ``-wal`` file, both of one moment. Raises LogUnavailable."""
    copy = folder / path.name
    try:
        for _ in range(COPIES_MAX):
            before = _state_of(path)
            shutil.copyfile(path, copy)
            shutil.copyfile(_beside(path, "-wal"), _beside(copy, "-wal"))
            if _state_of(path) == before:
                return copy
    except OSError as trouble:
        raise LogUnavailable(
            f"the metadata database {path} cannot be copied to {folder}: {trouble}"
        ) from trouble
    raise LogUnavailable(
        f"the metadata database {path} is written all the time by another process, and cannot be read here without the "
        "permission to write to its folder: use a snapshot, or run this as the user of the broker"
    )


def _state_of(path: Path) -> tuple[object, ...]:
    """Returns a value that changes when the database or its ``-wal`` file is written."""
    return tuple(_stamp(each) for each in (path, _beside(path, "-wal")))


def _stamp(path: Path) -> tuple[object, ...]:
    status = path.stat()
    return inode_of(path), status.st_size, status.st_mtime_ns


def _is_live(path: Path) -> bool:
    """Returns whether a process of this machine has the database open, as far as this user may see it."""
    with suppress(OSError), _beside(path, "-shm").open("rb") as shared:
        found = fcntl.fcntl(shared, fcntl.F_GETLK, flock(fcntl.F_WRLCK, LIVE_LOCK_BYTE, 1))
        return kind_of(found) != fcntl.F_UNLCK
    return False


def _beside(path: Path, end: str) -> Path:
    return path.with_name(path.name + end)


def _size_of(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
