"""Locks on a SQLite file that a process keeps whatever its other code does with the file.

SQLite locks with POSIX's record locks, and the kernel drops all record locks of a process on a file as soon as the
process closes *any* descriptor of the file [SQLite: How To Corrupt, 2.2]. A program that copies or reads the folder of
its own ``siltstone.Broker`` does that. From then on another process that closes the database takes itself for the last
one, and deletes the ``-wal`` file under the first: what the first commits is in a deleted file.

So two of SQLite's shared locks are held a second time, as locks of an *open file description* [fcntl(2):
F_OFD_SETLK]. The kernel drops these only when that description is closed:

* the shared lock of the database, without which nobody deletes the ``-wal`` file [sqlite3: SHARED_FIRST];
* the lock of the living on the ``-shm`` file, without which a process that opens the database empties that file
  [sqlite3: UNIX_SHM_DMS].

The other locks of SQLite are held for the milliseconds of a transaction. To close a description drops record locks,
too, so all connections of a process to a file share one, which is closed after the last of them. Where the system has
no such locks (it is not Linux), nothing is held.
"""

import fcntl
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from struct import pack, unpack

LIVE_LOCK_BYTE = 128
"""Each connection in WAL mode holds a lock on this byte of the ``-shm`` file [sqlite3: UNIX_SHM_DMS]."""

_SHARED_FIRST, _SHARED_BYTES = 0x40000000 + 2, 510

_FLOCK = "hhqqi4x"
"""struct flock of 64-bit Linux: type, whence, start, length, process."""

_FileId = tuple[int, int]


def flock(kind: int, start: int, length: int) -> bytes:
    """Returns a lock as ``fcntl`` takes it; a length of 0 reaches to the end of the file."""
    return pack(_FLOCK, kind, os.SEEK_SET, start, length, 0)


def kind_of(lock: bytes) -> int:
    """Returns the kind of a lock as ``fcntl`` answers it."""
    return int(unpack(_FLOCK, lock)[0])


class _Held:
    def __init__(self, path: Path) -> None:
        self.connections = 0
        self._descriptors: list[int] = []
        self._take(path, _SHARED_FIRST, _SHARED_BYTES)
        self._take(path.with_name(f"{path.name}-shm"), LIVE_LOCK_BYTE, 1)

    def _take(self, path: Path, start: int, length: int) -> None:
        with suppress(OSError):
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            self._descriptors.append(descriptor)
            fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, flock(fcntl.F_RDLCK, start, length))

    def unlock(self) -> None:
        for descriptor in self._descriptors:
            with suppress(OSError):
                fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, flock(fcntl.F_UNLCK, 0, 0))

    def close(self) -> None:
        for descriptor in self._descriptors:
            os.close(descriptor)


_held: dict[_FileId, _Held] = {}
_lock = threading.Lock()


def _forget() -> None:
    """Leaves the locks of the parent to it: a process that was forked has the same descriptions, and an unlock there
    would be one here. The parent may have held ``_lock`` in another thread."""
    global _lock  # noqa: PLW0603  of the process, as the locks are
    _held.clear()
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_forget)


def keep_locks(path: Path) -> _FileId | None:
    """Takes the locks for one more connection, which must have read from the database. Returns what ``let_go`` needs;
    None if nothing is held."""
    if not hasattr(fcntl, "F_OFD_SETLK"):
        return None
    with _lock, suppress(OSError):
        status = path.stat()
        file_id = status.st_dev, status.st_ino
        if file_id not in _held:
            _held[file_id] = _Held(path)
        _held[file_id].connections += 1
        return file_id
    return None


def let_go(file_id: _FileId | None, close_connection: Callable[[], None]) -> None:
    """Closes a connection. The locks are released before the last one of this process is closed, so that SQLite tidies
    the database up if no other process has it open."""
    with _lock:
        held = None if file_id is None else _held.get(file_id)
        if held is not None:
            held.connections -= 1
        if file_id is None or held is None or held.connections:
            close_connection()
            return
        del _held[file_id]
        held.unlock()
        try:
            close_connection()
        finally:
            held.close()
