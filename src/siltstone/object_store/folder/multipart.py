"""Multipart uploads into a folder: the parts are written at their positions into one file, which becomes the object.

The file is ``.uploads/<token>.<key, percent-encoded>``. Its name is the whole state of the upload, so any process on
the machine can continue the upload, and completing it is one link that moves no data and replaces no object. Each part
is synced before its call returns, so the link never publishes bytes that a power failure could lose.

A late repetition of a part may still have the file open after the link. It writes the same bytes again.
"""

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote, unquote

from siltstone.model.buffers import Buffers
from siltstone.object_store.bandwidth.passage import Piece, piece_passes
from siltstone.object_store.folder.files import (
    COPIED_BYTES_MAX,
    UPLOADS,
    DurableDirectories,
    ObjectWriter,
    copy_at,
    files_in,
    path_of_key,
)
from siltstone.object_store.keys import (
    SEGMENT_BYTES_MAX,
    InvalidKey,
    checked_key,
    key_taken,
    size_of_parts,
    upload_ended,
)
from siltstone.object_store.port import MultipartUpload, ObjectTruncated, UploadedPart, UploadNotFound
from siltstone.runtime.files import opened, sync_directory

_UPLOAD_ID = re.compile(r"[0-9a-f]{32}\.([^./][^/]*)")


class FolderUploads:
    """The multipart uploads of one folder."""

    def __init__(self, root: Path, directories: DurableDirectories, writer: ObjectWriter) -> None:
        self._root = root
        self._writer = writer
        self._uploads = root / UPLOADS
        self._directories = directories

    def start(self, key: str, token: str) -> MultipartUpload:
        upload_id = f"{token}.{quote(checked_key(key), safe='')}"
        if len(upload_id) > SEGMENT_BYTES_MAX:
            raise InvalidKey(key, "is too long for a multipart upload into a folder")
        self._directories.ensure(self._uploads)
        with opened(self._uploads / upload_id, os.O_WRONLY | os.O_CREAT | os.O_EXCL):
            return MultipartUpload(key, upload_id)

    def write_part(
        self, upload: MultipartUpload, part_number: int, position: int, buffers: Buffers
    ) -> UploadedPart:
        with self._opened(upload) as target:
            size_bytes = self._writer.write(target, buffers, position)
            os.fdatasync(target)
        return UploadedPart(part_number, position, size_bytes)

    def copy_part(
        self, upload: MultipartUpload, part_number: int, position: int, source: int, start: int, end: int
    ) -> UploadedPart:
        """Copies bytes [start, end) of the open file ``source`` into the part."""
        size_bytes, copied = end - start, 0
        with self._opened(upload) as target:
            while copied < size_bytes:
                wanted = min(COPIED_BYTES_MAX, size_bytes - copied)
                piece_passes(Piece.COPIED, wanted)
                count = copy_at(source, target, start + copied, position + copied, wanted)
                os.fdatasync(target)
                copied += count
                if count < wanted:
                    raise ObjectTruncated(
                        f"the source of part {part_number} of {upload.key} ends at {start + copied}, before {end}"
                    )
        return UploadedPart(part_number, position, copied)

    def complete(self, upload: MultipartUpload, parts: Sequence[UploadedPart]) -> None:
        size_bytes = size_of_parts(upload, parts)
        target = path_of_key(self._root, upload.key)
        try:
            self._check_size(upload, size_bytes)
            self._directories.ensure(target.parent)
            os.link(self._path(upload), target)
        except FileNotFoundError:
            if not (target.is_file() and target.stat().st_size == size_bytes):
                raise upload_ended(upload) from None
        except FileExistsError:
            if not self._is_linked(upload, target):
                raise key_taken(upload) from None
        sync_directory(target.parent)  # another process may have linked it and died before its sync
        self._path(upload).unlink(missing_ok=True)

    def _is_linked(self, upload: MultipartUpload, target: Path) -> bool:
        """Returns whether the object is this upload's: a process linked it, and was killed or is about to remove the
        upload."""
        try:
            return self._path(upload).samefile(target)
        except FileNotFoundError:
            return True

    def abort(self, upload: MultipartUpload) -> None:
        self._path(upload).unlink(missing_ok=True)

    def list(self) -> Iterator[MultipartUpload]:
        for path in sorted(files_in(self._uploads)):
            if match := _UPLOAD_ID.fullmatch(path.name):
                yield MultipartUpload(unquote(match[1]), path.name)

    def _check_size(self, upload: MultipartUpload, size_bytes: int) -> None:
        size_found = self._path(upload).stat().st_size
        if size_found != size_bytes:
            raise ObjectTruncated(
                f"the upload of {upload.key} received {size_found} bytes, but the listed parts have {size_bytes};"
                " list every part, or send the missing one"
            )

    @contextmanager
    def _opened(self, upload: MultipartUpload) -> Iterator[int]:
        try:
            with opened(self._path(upload), os.O_WRONLY) as descriptor:
                yield descriptor
        except FileNotFoundError:
            raise upload_ended(upload) from None

    def _path(self, upload: MultipartUpload) -> Path:
        """Returns the path of an upload. The caller gives the id, so it is checked to be one that ``start`` can have
        made. Raises UploadNotFound."""
        match = _UPLOAD_ID.fullmatch(upload.upload_id)
        if match is None or unquote(match[1]) != upload.key:
            raise UploadNotFound(f"{upload.upload_id!r} is not the id of an upload of {upload.key}")
        return self._uploads / upload.upload_id
