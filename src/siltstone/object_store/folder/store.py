"""The adapter that stores objects as files of a local folder. An object is whole or absent whenever the machine stops.

An object is written to ``.temporary``, synced, then linked to its key, so exactly one of several calls succeeds, and
the directory is synced before the call returns. A process that is killed leaves a file in ``.temporary``, which
``remove_stale`` deletes; after the link the object exists. Any number
of processes may share the folder. Read ``folder.files`` for durability, ``folder.multipart`` for uploads.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from errno import EISDIR
from itertools import pairwise
from pathlib import Path
from stat import S_ISREG
from threading import Event, Lock

from siltstone.model.buffers import Buffers
from siltstone.model.limits import KIB
from siltstone.object_store.folder.files import (
    TEMPORARY,
    DurableDirectories,
    ObjectWriter,
    files_in,
    os_errors_translated,
    path_of_key,
    read_at,
    status_of,
    summary_of,
    walk,
)
from siltstone.object_store.folder.multipart import FolderUploads
from siltstone.object_store.keys import checked_batch, checked_part_number, put_once
from siltstone.object_store.port import (
    FolderMissing,
    MultipartUpload,
    ObjectAlreadyExists,
    ObjectNotFound,
    ObjectSummary,
    ObjectTruncated,
    UploadedPart,
    cut_apart,
)
from siltstone.runtime.clock import Clock
from siltstone.runtime.file_systems import file_system_of
from siltstone.runtime.files import opened, sync_directory
from siltstone.runtime.randomness import Random, random_token

PIECE_BYTES_MIN = 64 * KIB
"""Copying a piece of this size costs more than a system call."""


class ReadingOrder:
    """Lets a read of a file that continues another read wait for it, so that a disk sees one reader of the file: of
    several at distant places the kernel reads ahead for none (decision 81). Other reads do not wait. Safe for
    threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._under_way: dict[tuple[str, int], Event] = {}
        """The reads that are under way, by where they end."""

    @contextmanager
    def turn(self, key: str, start: int, end: int) -> Iterator[None]:
        """Waits until no other read that ends at ``start`` is under way, and is a read until it is left. A read waits
        only for one that began its turn before, so no two wait for each other."""
        has_ended = Event()
        with self._lock:
            before = self._under_way.get((key, start))
            self._under_way[key, end] = has_ended
        try:
            if before is not None:
                before.wait()
            yield
        finally:
            with self._lock:
                if self._under_way.get((key, end)) is has_ended:
                    del self._under_way[key, end]
            has_ended.set()


class FolderStore:
    """A bucket in one folder. Safe for threads and processes."""

    def __init__(self, root: Path, clock: Clock, rng: Random, *, create: bool = True) -> None:
        """A missing folder is made if ``create``, with its directory entries durable. Otherwise opening writes nothing:
        an empty folder in the place of a disk that is not mounted would look like a bucket that was emptied. Raises
        FolderMissing, StoreDenied, StoreTransient."""
        assert root.is_absolute(), f"{root} is relative, so another process could not find the folder"
        self._root = root
        self._clock = clock
        self._rng = rng
        self._directories = DurableDirectories(root)
        self._writer = ObjectWriter()
        self._temporary = root / TEMPORARY
        self._uploads = FolderUploads(root, self._directories, self._writer)
        self._reading_order = None if file_system_of(root).is_remote else ReadingOrder()
        with os_errors_translated(f"open the folder {root}"):
            if create:
                self._directories.ensure(root)
            self._refuse_missing()

    @property
    def url(self) -> str:
        return self._root.as_uri()

    def put(self, key: str, buffers: Buffers) -> None:
        put_once(self, key, buffers)

    def put_if_absent(self, key: str, buffers: Buffers) -> None:
        target = path_of_key(self._root, key)
        with os_errors_translated(f"put {key}"), self._written(buffers) as temporary:
            self._directories.ensure(target.parent)
            try:
                os.link(temporary, target)
            except FileExistsError:
                if target.is_dir():
                    raise IsADirectoryError(EISDIR, "the key is a directory of other keys", target) from None
                raise ObjectAlreadyExists(f"object {key} exists already in {self.url}") from None
            finally:
                sync_directory(target.parent)  # the caller that lost may rely on the winner's object as well

    def get_range(self, key: str, start: int, end: int) -> bytes:
        assert 0 <= start <= end, f"no range: [{start}, {end})"
        with os_errors_translated(f"get {key}"), self._opened(key, end) as (descriptor, _):
            return read_at(descriptor, end - start, start)

    def get_pieces(self, key: str, start: int, ends: Sequence[int]) -> list[bytes]:
        """Pieces of a size worth a system call are read into their own memory, which saves a copy."""
        if ends[-1] - start < len(ends) * PIECE_BYTES_MIN:
            return cut_apart(self.get_range(key, start, ends[-1]), start, ends)
        order = self._reading_order
        with (
            nullcontext() if order is None else order.turn(key, start, ends[-1]),
            os_errors_translated(f"get {key}"),
            self._opened(key, ends[-1]) as (descriptor, _),
        ):
            return [read_at(descriptor, end - begin, begin) for begin, end in pairwise((start, *ends))]

    def head(self, key: str) -> ObjectSummary:
        with os_errors_translated(f"head {key}"), self._opened(key) as (_, status):
            return summary_of(key, status)

    def list(self, prefix: str = "", after: str = "") -> Iterator[ObjectSummary]:
        with os_errors_translated(f"list {prefix}"):
            self._refuse_missing()
            yield from walk(self._root, prefix, after)

    def delete(self, keys: Sequence[str]) -> None:
        paths = [path_of_key(self._root, key) for key in checked_batch(keys)]
        with os_errors_translated("delete"):
            denied = [failure for path in paths if (failure := _unlink(path)) is not None]
            for directory in {path.parent for path in paths}:
                if directory.is_dir():
                    sync_directory(directory)
            if denied:
                raise denied[0]

    def start_multipart(self, key: str) -> MultipartUpload:
        with os_errors_translated(f"start the upload of {key}"):
            return self._uploads.start(key, random_token(self._rng))

    def upload_part(
        self, upload: MultipartUpload, part_number: int, position: int, buffers: Buffers
    ) -> UploadedPart:
        with os_errors_translated(f"part {part_number} of {upload.key}"):
            return self._uploads.write_part(upload, checked_part_number(part_number), position, buffers)

    def copy_part(
        self, upload: MultipartUpload, part_number: int, position: int, source_key: str, start: int, end: int
    ) -> UploadedPart:
        assert 0 <= start < end, f"no range to copy: [{start}, {end})"
        action = f"part {part_number} of {upload.key}"
        with os_errors_translated(action), self._opened(source_key, end) as (source, _):
            return self._uploads.copy_part(
                upload, checked_part_number(part_number), position, source, start, end
            )

    def complete_multipart(self, upload: MultipartUpload, parts: Sequence[UploadedPart]) -> None:
        with os_errors_translated(f"complete {upload.key}"):
            self._uploads.complete(upload, parts)

    def abort_multipart(self, upload: MultipartUpload) -> None:
        with os_errors_translated(f"abort {upload.key}"):
            self._uploads.abort(upload)

    def list_multipart(self) -> Iterator[MultipartUpload]:
        with os_errors_translated("list the uploads"):
            yield from self._uploads.list()

    def remove_stale(self, older_than_ms: int) -> int:
        """Deletes the files that killed puts left in ``.temporary``, and returns their number. ``older_than_ms`` must
        be longer than any put takes. Multipart uploads are not touched: the caller that started one aborts it."""
        written_before_ms = self._clock.now_ms() - older_than_ms
        with os_errors_translated("remove stale temporary files"):
            left = files_in(self._temporary)
            stale = [path for path in left if _written_before(path, written_before_ms)]
            for path in stale:
                path.unlink(missing_ok=True)
        return len(stale)

    def close(self) -> None:
        return None

    def _refuse_missing(self) -> None:
        if not self._root.is_dir():
            raise FolderMissing(str(self._root))

    @contextmanager
    def _written(self, buffers: Buffers) -> Iterator[Path]:
        """Yields a synced temporary file with the bytes of the buffers. It is deleted afterwards."""
        self._directories.ensure(self._temporary)
        temporary = self._temporary / random_token(self._rng)
        try:
            with opened(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL) as descriptor:
                self._writer.write(descriptor, buffers)
                os.fdatasync(descriptor)
            yield temporary
        finally:
            temporary.unlink(missing_ok=True)

    @contextmanager
    def _opened(self, key: str, end: int = 0) -> Iterator[tuple[int, os.stat_result]]:
        """Yields the object's open file and its status. Raises ObjectNotFound, and ObjectTruncated when it is shorter
        than ``end``."""
        path = path_of_key(self._root, key)
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError):
            raise ObjectNotFound(f"no object {key} in {self.url}") from None
        try:
            status = os.fstat(descriptor)
            if not S_ISREG(status.st_mode):
                raise ObjectNotFound(f"no object {key} in {self.url}: the key is a directory of other keys")
            if end > status.st_size:
                raise ObjectTruncated(
                    f"object {key} has {status.st_size} bytes, but bytes up to {end} were requested"
                )
            yield descriptor, status
        finally:
            os.close(descriptor)


def _written_before(path: Path, time_ms: int) -> bool:
    status = status_of(path)
    return status is not None and status.st_mtime_ns < time_ms * 1_000_000


def _unlink(path: Path) -> OSError | None:
    """Deletes the file. Returns the error that prevented it, or None when the file is gone."""
    try:
        path.unlink()
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None
    except OSError as failure:
        return failure
    return None
