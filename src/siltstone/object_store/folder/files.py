"""Has the file operations of an object folder: the path of a key, the listing in key order, writes into reserved space,
exact reads, durable directories, and OSErrors as errors of the port.

A key is the path of its file below the root. Names that begin with a dot are the adapter's own: ``.temporary`` and
``.uploads``. No key can be a prefix directory of another key, because a file is not a directory; the keys of
``model.objects`` never are.

This module knows no uploads. It builds on ``runtime.files``; ``folder.store`` and ``folder.multipart`` build on it.
"""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from siltstone.model.buffers import Buffers, split, total_bytes
from siltstone.model.limits import KIB, MIB, UPLOADS_IN_FLIGHT_MAX
from siltstone.object_store.bandwidth.passage import PIECE_BYTES, Piece, is_in_pieces, piece_passes
from siltstone.object_store.keys import checked_key
from siltstone.object_store.port import ObjectSummary, StoreDenied, StoreTransient
from siltstone.runtime.files import (
    DIRECT_UNIT_BYTES,
    NOT_DIRECT,
    Slabs,
    gathered,
    set_direct,
    sync_directory,
    write_at,
)

TEMPORARY = ".temporary"
UPLOADS = ".uploads"


def path_of_key(root: Path, key: str) -> Path:
    """Returns the path of a key, which is never outside the root or in the adapter's own directories. Raises
    InvalidKey."""
    return root / checked_key(key)


def summary_of(key: str, status: os.stat_result) -> ObjectSummary:
    return ObjectSummary(key, status.st_size, status.st_mtime_ns // 1_000_000)


def walk(root: Path, prefix: str, after: str) -> Iterator[ObjectSummary]:
    """Lists the objects in key order. Memory holds one directory per level. Files that are deleted meanwhile are left
    out."""
    return _walk_directory(root, "", prefix, after)


def _walk_directory(directory: Path, above: str, prefix: str, after: str) -> Iterator[ObjectSummary]:
    for name in _sorted_names(directory):
        key = above + name
        if not _may_match(key, prefix) or not _may_follow(key, after):
            continue
        if name.endswith("/"):
            yield from _walk_directory(directory / name, key, prefix, after)
        elif status := status_of(directory / name):
            yield summary_of(key, status)


def _sorted_names(directory: Path) -> list[str]:
    """Returns the names in a directory, sorted. Names of directories get a slash, so that they sort like keys: ``a-b``
    before ``a/b``."""
    try:
        with os.scandir(directory) as entries:
            names = [entry.name + "/" if entry.is_dir() else entry.name for entry in entries]
    except FileNotFoundError:
        return []
    return sorted(name for name in names if not name.startswith("."))


def _may_match(key: str, prefix: str) -> bool:
    return key.startswith(prefix) or (key.endswith("/") and prefix.startswith(key))


def _may_follow(key: str, after: str) -> bool:
    return key > after or (key.endswith("/") and after.startswith(key))


def status_of(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except FileNotFoundError:
        return None


RESERVED_BYTES_MIN = 256 * KIB
"""For smaller files the reservation costs as much as it saves."""

DIRECT_BYTES_MIN = 1 * MIB
"""Smaller objects and parts are written through the page cache: they cost little, and compaction reads them again
soon."""

SLAB_BYTES = 1 * MIB
"""The bytes of an object or a part that are written at a time. Larger pieces save no CPU, and a sync of the write-ahead
log on the same disk would have to wait for them."""
SLABS_KEPT_MAX = UPLOADS_IN_FLIGHT_MAX

COPIED_BYTES_MAX = 16 * MIB
"""So much of a copy is synced at a time: at a single sync the disk would get gigabytes at once, and a sync of the log
would stand behind all of them."""

_NOT_RESERVABLE = {errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS}
_PASSING = {errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.EIO, errno.EBUSY, errno.ESTALE}


@contextmanager
def os_errors_translated(action: str) -> Iterator[None]:
    """Turns an OSError into StoreTransient when it may pass (no space, too many open files, I/O errors), and into
    StoreDenied otherwise. An attempt after an I/O error writes a new file, because after a failed fsync the pages of
    the old file cannot be trusted."""
    try:
        yield
    except OSError as error:
        if error.errno in _PASSING:
            raise StoreTransient(f"{action}: {error.strerror}") from error
        path = "" if error.filename is None else os.fsdecode(error.filename)
        where = f" ({path})" if path and path not in action else ""
        raise StoreDenied(
            f"{action}: {error.strerror}{where}; check the folder and its permissions"
        ) from error


class ObjectWriter:
    """Writes objects and parts of objects: large ones past the page cache where the file system can, others through
    it. It keeps at most SLABS_KEPT_MAX slabs between two writes. Safe for threads and processes that write parts of one
    file: two parts may share a unit of the disk, whose bytes therefore go through the page cache."""

    def __init__(self) -> None:
        self.slabs = Slabs(SLAB_BYTES, SLABS_KEPT_MAX)

    def write(self, descriptor: int, buffers: Buffers, position: int = 0) -> int:
        """Reserves the space and writes all buffers one after another from ``position`` on. Returns the number of
        bytes. The caller syncs the file."""
        size_bytes = total_bytes(buffers)
        _reserve(descriptor, position, size_bytes)
        if size_bytes >= DIRECT_BYTES_MIN and self._write_directly(descriptor, buffers, position):
            return size_bytes
        piece_passes(Piece.WRITTEN, size_bytes)
        return write_at(descriptor, buffers, position)

    def _write_directly(self, descriptor: int, buffers: Buffers, position: int) -> bool:
        """Writes past the page cache. Returns False if the file system refuses that; the caller then has to write
        everything again."""
        before, whole = split(buffers, -position % DIRECT_UNIT_BYTES)
        position += write_at(descriptor, before, position)
        if not set_direct(descriptor, True):
            return False
        try:
            with self.slabs.taken() as slab:
                for piece in gathered(whole, slab):
                    piece_passes(Piece.WRITTEN, len(piece))
                    position += write_at(descriptor, [piece[: _whole_units(len(piece))]], position)
                set_direct(descriptor, False)
                write_at(descriptor, [piece[_whole_units(len(piece)) :]], position)
        except OSError as refused:
            if refused.errno not in NOT_DIRECT:
                raise
            set_direct(descriptor, False)
            return False
        return True


def _whole_units(size_bytes: int) -> int:
    return size_bytes - size_bytes % DIRECT_UNIT_BYTES


def _reserve(descriptor: int, position: int, size_bytes: int) -> None:
    """Reserves the space at once: a large file that grows page by page takes up to three times as long to write and
    sync."""
    if size_bytes < RESERVED_BYTES_MIN:
        return
    try:
        os.posix_fallocate(descriptor, position, size_bytes)
    except OSError as error:
        if error.errno not in _NOT_RESERVABLE:
            raise


def read_at(descriptor: int, size_bytes: int, position: int) -> bytes:
    """Reads ``size_bytes`` from ``position`` on; fewer only when the file ends before."""
    if not is_in_pieces():
        return _read_at(descriptor, size_bytes, position)
    pieces: list[bytes] = []
    for start in range(position, position + size_bytes, PIECE_BYTES):
        wanted = min(PIECE_BYTES, position + size_bytes - start)
        piece_passes(Piece.READ, wanted)
        pieces.append(_read_at(descriptor, wanted, start))
    return b"".join(pieces)


def _read_at(descriptor: int, size_bytes: int, position: int) -> bytes:
    content = os.pread(descriptor, size_bytes, position)
    while len(content) < size_bytes:  # one pread returns at most 2 GiB; otherwise the file ended
        piece = os.pread(descriptor, size_bytes - len(content), position + len(content))
        if not piece:
            break
        content += piece
    return content


def copy_at(source: int, target: int, source_position: int, target_position: int, size_bytes: int) -> int:
    """Copies a range inside the kernel; the file system shares the blocks if it can. Returns the number of bytes
    copied, which is smaller than ``size_bytes`` only when the source ends before."""
    copied = 0
    while copied < size_bytes:
        count = os.copy_file_range(
            source, target, size_bytes - copied, source_position + copied, target_position + copied
        )
        if not count:
            break
        copied += count
    return copied


def files_in(directory: Path) -> list[Path]:
    """The entries of a directory of the adapter's own, which is made with the first file in it."""
    try:
        return list(directory.iterdir())
    except FileNotFoundError:
        return []


class DurableDirectories:
    """Makes directories under a root, and makes each durable before the first file in it is reported as written.

    An existing directory may have been made a moment ago by a process that died before its sync. Each process therefore
    syncs the parent of every directory once and remembers that. The store never removes a directory. A person
    may, who deletes the folder of a table: below the root it is made again. A root that is gone is not: its disk may be
    unmounted.
    """

    def __init__(self, root: Path) -> None:
        first = next(path for path in (root, *root.parents) if path.exists())
        self._durable = {first}
        self._assumed = {first, root}

    def ensure(self, path: Path) -> None:
        if path in self._durable and (path in self._assumed or path.is_dir()):
            return
        self.ensure(path.parent)
        path.mkdir(exist_ok=True)
        sync_directory(path.parent)
        self._durable.add(path)
