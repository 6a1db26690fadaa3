"""Durable files, writes past the page cache, and the space on the machine's disks.

The write-ahead log and object folders are built on these functions: gathered writes, directory entries that survive a
power failure, small files that are replaced atomically. All of them raise OSError; the callers translate it.

*Direct writes* go from memory to the disk without the page cache of the operating system (O_DIRECT). A byte that is
written through the page cache takes a page of memory that was free. On a virtual machine the first use of such a page
costs ten times the copy into it. At the sync the disk gets all pages at once, and every other sync waits for them. A
direct write passes the disk one piece at a time and takes no page.

The disk wants addresses, positions and lengths that are multiples of DIRECT_UNIT_BYTES. Bytes are therefore copied into
a *slab*, memory that begins at a page, is used again and again, and is limited in bytes. ``object_store.folder`` writes
large objects in this way.
"""

import errno
import fcntl
import logging
import mmap
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Protocol

from siltstone.model.buffers import Buffers
from siltstone.model.limits import KIB

DIRECT_UNIT_BYTES = 4 * KIB
"""The sectors of disks have 512 bytes or 4 KiB, and pages of memory are at least as large."""

NOT_DIRECT = {errno.EINVAL, errno.EOPNOTSUPP}
"""The errors of a file system that has no direct writes, or that needs larger units."""


def set_direct(descriptor: int, is_direct: bool) -> bool:
    """Makes the following writes of the open file direct, or ordinary again. Returns False if the file system has no
    direct writes; the file is then as it was."""
    flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
    wanted = flags | os.O_DIRECT if is_direct else flags & ~os.O_DIRECT
    try:
        fcntl.fcntl(descriptor, fcntl.F_SETFL, wanted)
    except OSError as refused:
        if refused.errno not in NOT_DIRECT:
            raise
        return False
    return True


def new_slab(size_bytes: int) -> memoryview:
    """Allocates memory that begins at a page. The memory is returned to the operating system when nothing refers to it.
    A process that is forked has a copy of its own."""
    return memoryview(mmap.mmap(-1, size_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))


class Slabs:
    """A pool of slabs of one size. Safe for threads.

    At most ``kept_max`` are kept; a caller that finds none gets a new one, which is not kept if there are enough. So
    the memory is limited by the number of callers at a time, and falls back to ``kept_max`` slabs after them.
    """

    def __init__(self, slab_bytes: int, kept_max: int) -> None:
        self._slab_bytes = slab_bytes
        self._kept_max = kept_max
        self._kept: list[memoryview] = []
        self._lock = Lock()

    @property
    def kept_bytes(self) -> int:
        return len(self._kept) * self._slab_bytes

    @contextmanager
    def taken(self) -> Iterator[memoryview]:
        """Yields a slab that belongs to the block; its bytes are undefined."""
        with self._lock:
            slab = self._kept.pop() if self._kept else None
        if slab is None:
            slab = new_slab(self._slab_bytes)
        try:
            yield slab
        finally:
            with self._lock:
                if len(self._kept) < self._kept_max:
                    self._kept.append(slab)


def gathered(buffers: Buffers, slab: memoryview) -> Iterator[memoryview]:
    """Copies the buffers into the slab, one after another. Yields the slab each time it is full, and at last the part
    that the rest has filled, if there is a rest. The next step overwrites the slab."""
    slab_bytes, filled = len(slab), 0
    for buffer in buffers:
        size_bytes = len(buffer)
        # pyarrow's buffers are of signed bytes, which a slab refuses
        view, start = memoryview(buffer).cast("B"), 0
        if filled + size_bytes < slab_bytes:
            slab[filled : filled + size_bytes] = view
            filled += size_bytes
            continue
        while start < size_bytes:
            count = min(slab_bytes - filled, size_bytes - start)
            slab[filled : filled + count] = view[start : start + count]
            filled += count
            start += count
            if filled == slab_bytes:
                yield slab
                filled = 0
    if filled:
        yield slab[:filled]


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
