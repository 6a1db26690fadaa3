"""Durable files: gathered writes, exact reads, directory entries that survive a power cut, errors in the port's words.

Nothing here knows keys or uploads. Read ``folder`` next.
"""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from siltstone.model.buffers import Buffers
from siltstone.model.limits import KIB
from siltstone.object_store.port import StoreDenied, StoreTransient

FILE_MODE = 0o666
"""Less the umask: Spark executors of another user read what the broker wrote when the umask lets them."""

RESERVED_BYTES_MIN = 256 * KIB
"""Below this the reservation costs what it saves."""

_NOT_RESERVABLE = {errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS}
_GATHER_MAX = os.sysconf("SC_IOV_MAX")
_PASSING = {errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.EIO, errno.EBUSY, errno.ESTALE}


@contextmanager
def os_errors_translated(action: str) -> Iterator[None]:
    """Raises StoreTransient for what may pass (no space, too many open files, I/O errors), else StoreDenied. An
    attempt after an I/O error writes a new file: once fsync has failed the old file's pages cannot be trusted."""
    try:
        yield
    except OSError as error:
        if error.errno in _PASSING:
            raise StoreTransient(f"{action}: {error.strerror}") from error
        raise StoreDenied(f"{action}: {error.strerror}; check the folder and its permissions") from error


@contextmanager
def opened(path: Path, flags: int) -> Iterator[int]:
    descriptor = os.open(path, flags | os.O_CLOEXEC, FILE_MODE)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def write_at(descriptor: int, buffers: Buffers, position: int) -> int:
    """All buffers, one after another from the position on, none copied. The bytes written."""
    pending = [memoryview(buffer) for buffer in buffers if buffer]
    _reserve(descriptor, position, sum(len(buffer) for buffer in pending))
    start, first = position, 0
    while first < len(pending):
        written = os.pwritev(descriptor, pending[first : first + _GATHER_MAX], position)
        position += written
        first = _skip(pending, first, written)
    return position - start


def _reserve(descriptor: int, position: int, size_bytes: int) -> None:
    """The space in one piece: a large file that grows by pages takes up to three times as long to write and sync."""
    if size_bytes < RESERVED_BYTES_MIN:
        return
    try:
        os.posix_fallocate(descriptor, position, size_bytes)
    except OSError as error:
        if error.errno not in _NOT_RESERVABLE:
            raise


def _skip(pending: list[memoryview], first: int, written: int) -> int:
    """The buffer to go on with; one written in part keeps its rest."""
    while first < len(pending) and written >= len(pending[first]):
        written -= len(pending[first])
        first += 1
    if written:
        pending[first] = pending[first][written:]
    return first


def read_at(descriptor: int, size_bytes: int, position: int) -> bytes:
    """Up to ``size_bytes``; fewer only at the end of the file."""
    content = os.pread(descriptor, size_bytes, position)
    while len(content) < size_bytes:  # a read of over 2 GiB comes in pieces; else this is the end of the file
        piece = os.pread(descriptor, size_bytes - len(content), position + len(content))
        if not piece:
            break
        content += piece
    return content


def copy_at(source: int, target: int, source_position: int, target_position: int, size_bytes: int) -> int:
    """Copied inside the kernel, shared where the file system can. Fewer bytes only at the end of the source."""
    copied = 0
    while copied < size_bytes:
        count = os.copy_file_range(
            source, target, size_bytes - copied, source_position + copied, target_position + copied
        )
        if not count:
            break
        copied += count
    return copied


def sync_directory(path: Path) -> None:
    with opened(path, os.O_RDONLY | os.O_DIRECTORY) as descriptor:
        os.fsync(descriptor)


class DurableDirectories:
    """Makes directories under a root, each durable before the first file in it is reported written.

    One found existing may have been made a moment ago by a process that died before its sync, so this process
    syncs every directory's parent once itself, then remembers. Directories are never removed again.
    """

    def __init__(self, root: Path) -> None:
        self._durable = {next(path for path in (root, *root.parents) if path.exists())}

    def ensure(self, path: Path) -> None:
        if path in self._durable:
            return
        self.ensure(path.parent)
        path.mkdir(exist_ok=True)
        sync_directory(path.parent)
        self._durable.add(path)
