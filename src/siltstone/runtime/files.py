"""Durable files, and the space on the machine's disks.

The write-ahead log and object folders are built on these functions: gathered writes, directory entries that survive a
power failure, small files that are replaced atomically. All of them raise OSError; the callers translate it.
"""

import logging
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from siltstone.model.buffers import Buffers

log = logging.getLogger(__name__)

FILE_MODE = 0o666
"""The mode of new objects, reduced by the umask: with a suitable umask, Spark executors that run as another user can
read and write the objects of a folder."""
PRIVATE_FILE_MODE = 0o600
"""The mode of the metadata and of the write-ahead log: only processes of the same user open them."""
PRIVATE_FOLDER_MODE = 0o700
_OF_OTHERS = 0o077

_GATHER_MAX = os.sysconf("SC_IOV_MAX")


@contextmanager
def opened(path: Path, flags: int, mode: int = FILE_MODE) -> Iterator[int]:
    descriptor = os.open(path, flags | os.O_CLOEXEC, mode)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def write_at(descriptor: int, buffers: Buffers, position: int) -> int:
    """Writes all buffers one after another from ``position`` on, without copying them. Returns the number of bytes."""
    start, first = position, 0
    pending = list(buffers)
    while first < len(pending):
        written = os.pwritev(descriptor, pending[first : first + _GATHER_MAX], position)
        position += written
        while first < len(pending) and written >= len(pending[first]):
            written -= len(pending[first])
            first += 1
        if written:  # pwritev stopped inside this buffer: the rest of it is written next
            pending[first] = memoryview(pending[first])[written:]
    return position - start


def sync_directory(directory: Path) -> None:
    """Makes the directory's entries durable: files that were created, renamed or deleted in it."""
    with opened(directory, os.O_RDONLY | os.O_DIRECTORY) as descriptor:
        os.fsync(descriptor)


def take_from_others(path: Path) -> None:
    """Removes the permissions of the group and of all others from a file of this user, because older versions made
    files that everybody could read. The file of another user is left as it is, and so is a device: ``/dev/null``, named
    by mistake, belongs to the whole machine."""
    try:
        status = path.stat()
        is_own = stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid()
        if is_own and status.st_mode & _OF_OTHERS:
            path.chmod(status.st_mode & 0o7777 & ~_OF_OTHERS)
            log.warning("%s was open to other users of this machine, and no longer is", path)
    except OSError as trouble:  # the file stays as readable as before, which is no reason to refuse the start
        if not isinstance(trouble, FileNotFoundError):
            log.warning("%s stays open to other users of this machine: %s", path, trouble)


def inode_of(path: Path) -> tuple[int, int] | None:
    """Returns the device and the number of the file that is at the path now; None if there is none."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino


def replace_file(path: Path, content: bytes) -> None:
    """Replaces a private file atomically: after a crash it has the old or the new content, and after the call returned
    it has the new one. Only one process may replace a file at a time."""
    draft = path.with_name(f"{path.name}.draft")
    with opened(draft, os.O_RDWR | os.O_CREAT | os.O_TRUNC, PRIVATE_FILE_MODE) as descriptor:
        write_at(descriptor, [content], 0)
        os.fdatasync(descriptor)
    draft.rename(path)
    sync_directory(path.parent)


class Disks(Protocol):
    def space_of(self, folder: Path) -> tuple[int, int]:
        """Returns (used bytes, total bytes) of the file system that holds the folder. Raises OSError."""
        ...


class SystemDisks:
    """Returns the numbers that ``df`` shows: space reserved for root counts neither as used nor in the total."""

    def space_of(self, folder: Path) -> tuple[int, int]:
        found = os.statvfs(folder)
        used = (found.f_blocks - found.f_bfree) * found.f_frsize
        return used, used + found.f_bavail * found.f_frsize
