"""Files of an object folder: reserved writes, exact reads, directories that survive a power cut, errors in the port's
words. Nothing here knows keys or uploads. Below: ``runtime.durable_files``; next: ``folder``.
"""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from siltstone.model.buffers import Buffers, total_bytes
from siltstone.model.limits import KIB
from siltstone.object_store.port import StoreDenied, StoreTransient
from siltstone.runtime.files import sync_directory, write_at

RESERVED_BYTES_MIN = 256 * KIB
"""Below this the reservation costs what it saves."""

_NOT_RESERVABLE = {errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS}
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


def write_reserved(descriptor: int, buffers: Buffers, position: int) -> int:
    """All buffers, one after another from the position on, none copied. The bytes written."""
    _reserve(descriptor, position, total_bytes(buffers))
    return write_at(descriptor, buffers, position)


def _reserve(descriptor: int, position: int, size_bytes: int) -> None:
    """The space in one piece: a large file that grows by pages takes up to three times as long to write and sync."""
    if size_bytes < RESERVED_BYTES_MIN:
        return
    try:
        os.posix_fallocate(descriptor, position, size_bytes)
    except OSError as error:
        if error.errno not in _NOT_RESERVABLE:
            raise


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
