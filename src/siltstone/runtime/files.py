"""Durable files: gathered writes, names that survive a power failure, small files that are replaced whole.

Write-ahead log and object folders are made of them. Errors are those of the operating system.

How full the machine's disks are.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from siltstone.model.buffers import Buffers

FILE_MODE = 0o666
"""Less the umask: Spark executors of another user read what the broker wrote when the umask lets them."""

_GATHER_MAX = os.sysconf("SC_IOV_MAX")


@contextmanager
def opened(path: Path, flags: int) -> Iterator[int]:
    descriptor = os.open(path, flags | os.O_CLOEXEC, FILE_MODE)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def write_at(descriptor: int, buffers: Buffers, position: int) -> int:
    """All buffers, one after another from the position on, none copied. The bytes written."""
    start, first = position, 0
    pending = list(buffers)
    while first < len(pending):
        written = os.pwritev(descriptor, pending[first : first + _GATHER_MAX], position)
        position += written
        while first < len(pending) and written >= len(pending[first]):
            written -= len(pending[first])
            first += 1
        if written:  # in part: its rest is next
            pending[first] = memoryview(pending[first])[written:]
    return position - start


def sync_directory(directory: Path) -> None:
    """Make names in the directory durable."""
    with opened(directory, os.O_RDONLY | os.O_DIRECTORY) as descriptor:
        os.fsync(descriptor)


def replace_file(path: Path, content: bytes) -> None:
    """The file is there as it was before, or with this content, and with this when the call returns. One writer at a
    time."""
    draft = path.with_name(f"{path.name}.draft")
    with opened(draft, os.O_RDWR | os.O_CREAT | os.O_TRUNC) as descriptor:
        write_at(descriptor, [content], 0)
        os.fdatasync(descriptor)
    draft.rename(path)
    sync_directory(path.parent)


class Disks(Protocol):
    def space_of(self, folder: Path) -> tuple[int, int]:
        """(used bytes, bytes in all) of the file system that the folder is on. Raises OSError."""
        ...


class SystemDisks:
    """As ``df`` has it: what is kept back for root is in neither number."""

    def space_of(self, folder: Path) -> tuple[int, int]:
        found = os.statvfs(folder)
        used = (found.f_blocks - found.f_bfree) * found.f_frsize
        return used, used + found.f_bavail * found.f_frsize
