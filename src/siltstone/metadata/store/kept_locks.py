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
from struct import pack

_SHARED_FIRST, _SHARED_BYTES = 0x40000000 + 2, 510
_LIVE_LOCK_BYTE = 128

_FLOCK = "hhqqi4x"
"""struct flock of 64-bit Linux: type, whence, start, length, process."""

_FileId = tuple[int, int]


class _Held:
    def __init__(self, path: Path) -> None:
        self.connections = 0
        self.process_id = os.getpid()
        self._descriptors: list[int] = []
        self._take(path, _SHARED_FIRST, _SHARED_BYTES)
        self._take(path.with_name(f"{path.name}-shm"), _LIVE_LOCK_BYTE, 1)

    def _take(self, path: Path, start: int, length: int) -> None:
        with suppress(OSError):
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            self._descriptors.append(descriptor)
            fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _flock(fcntl.F_RDLCK, start, length))

    def unlock(self) -> None:
        for descriptor in self._descriptors:
            with suppress(OSError):
                fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _flock(fcntl.F_UNLCK, 0, 0))

    def close(self) -> None:
        for descriptor in self._descriptors:
            os.close(descriptor)


_held: dict[_FileId, _Held] = {}
_lock = threading.Lock()


def keep_locks(path: Path) -> _FileId | None:
    """Takes the locks for one more connection, which must have read from the database. Returns what ``let_go`` needs;
    None if nothing is held."""
    if not hasattr(fcntl, "F_OFD_SETLK"):
        return None
    with _lock, suppress(OSError):
        status = path.stat()
        file_id = status.st_dev, status.st_ino
        if file_id not in _held or _held[file_id].process_id != os.getpid():
            _held[file_id] = _Held(path)
        _held[file_id].connections += 1
        return file_id
    return None


def let_go(file_id: _FileId | None, close_connection: Callable[[], None]) -> None:
    """Closes a connection. The last one of this process has no locks any more, so that it tidies the database up if no
    other process has it open. A process that was forked has its parent's locks, and leaves them."""
    with _lock:
        held = None if file_id is None else _held.get(file_id)
        if file_id is None or held is None or held.process_id != os.getpid():
            close_connection()
            return
        held.connections -= 1
        if held.connections:
            close_connection()
            return
        del _held[file_id]
        held.unlock()
        try:
            close_connection()
        finally:
            held.close()


def _flock(kind: int, start: int, length: int) -> bytes:
    return pack(_FLOCK, kind, os.SEEK_SET, start, length, 0)
