"""Defines the object store port: the requests that the rest of Siltstone makes to a bucket, and how they fail.

All calls block; asynchronous code makes them through ``runtime.blocking``, Spark tasks make them directly. An adapter
makes one attempt and raises the kind of failure; ``retrying`` makes further attempts.

Objects are written once and never changed: no call replaces an object that is there. A put or a completed upload is
durable when the call returns, and at every moment the object is visible whole or not at all.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Protocol

import msgspec

from siltstone.model.buffers import Buffers
from siltstone.model.errors import CorruptData, InvalidRequest, Unavailable


class ObjectNotFound(InvalidRequest):
    """There is no object at the key."""


class ObjectAlreadyExists(InvalidRequest):
    """There is an object at the key already, which is not replaced."""


class UploadNotFound(InvalidRequest):
    """The multipart upload was completed or aborted, or was never started."""


class StoreDenied(InvalidRequest):
    """The store refused the request because of credentials, permissions, bucket name or configuration: a retry cannot
    succeed."""


class FolderMissing(StoreDenied):
    """The folder of a bucket is not there, and this caller may not make it: its disk is not mounted, or the URL is
    wrong. ``folder`` is its path."""

    def __init__(self, folder: str) -> None:
        super().__init__(
            f"there is no folder {folder}: mount its disk, correct the bucket's URL, or restore the folder"
        )
        self.folder = folder


class StoreTransient(Unavailable):
    """The request failed for a reason that may pass: a time-out, a lost connection, status 500, 503 SlowDown.
    ``uncertain`` is true when a write may have taken effect although it failed."""

    def __init__(self, message: str, *, uncertain: bool = True) -> None:
        super().__init__(message)
        self.uncertain = uncertain


class ObjectTruncated(CorruptData):
    """The object ends before the requested range does, or an upload lacks a part."""


class InvalidStoreUrl(InvalidRequest):
    """The URL does not name a bucket."""


class ObjectSummary(msgspec.Struct, frozen=True, order=True):
    key: str
    size_bytes: int
    modified_ms: int


class MultipartUpload(msgspec.Struct, frozen=True):
    """A multipart upload under way. It holds plain values, so it can be sent to other processes."""

    key: str
    upload_id: str


class UploadedPart(msgspec.Struct, frozen=True):
    part_number: int
    position: int
    size_bytes: int


class ObjectStore(Protocol):
    @property
    def url(self) -> str:
        """The URL by which another process opens the same bucket: ``object_store.opening.open_store(url)``."""
        ...

    def put(self, key: str, buffers: Buffers) -> None:
        """Makes the object. Succeeds also when an object with the same bytes is there; raises ObjectAlreadyExists when
        it has other bytes (``write_once``)."""
        ...

    def put_if_absent(self, key: str, buffers: Buffers) -> None:
        """Makes the object. Raises ObjectAlreadyExists when there is one, whatever its bytes. Exactly one of several
        concurrent calls for a key succeeds."""
        ...

    def get_range(self, key: str, start: int, end: int) -> bytes:
        """Returns bytes [start, end) of an object; b"" when start equals end. Raises ObjectNotFound,
        ObjectTruncated."""
        ...

    def get_pieces(self, key: str, start: int, ends: Sequence[int]) -> list[bytes]:
        """Returns adjacent ranges of an object with one request: bytes [start, ends[0]), then up to ends[1] and so on.
        Each has memory of its own, so that one that is kept keeps no other. Raises what ``get_range`` raises."""
        ...

    def head(self, key: str) -> ObjectSummary:
        """Returns the size and time of an object, without its bytes. Raises ObjectNotFound."""
        ...

    def list(self, prefix: str = "", after: str = "") -> Iterator[ObjectSummary]:
        """Yields all objects whose key starts with the prefix and is greater than ``after``, in key order. Multipart
        uploads under way are not listed."""
        ...

    def delete(self, keys: Sequence[str]) -> None:
        """Deletes up to DELETE_BATCH_KEYS_MAX objects in one request. A key without an object counts as deleted. When
        StoreDenied is raised, the objects that could be deleted were deleted."""
        ...

    def start_multipart(self, key: str) -> MultipartUpload: ...

    def upload_part(
        self, upload: MultipartUpload, part_number: int, position: int, buffers: Buffers
    ) -> UploadedPart:
        """Sends one part, from any process. Part numbers count from 1 in the order of the bytes; ``position`` is where
        the part begins in the object. Sending a part again with the same bytes is harmless. Raises UploadNotFound."""
        ...

    def copy_part(
        self, upload: MultipartUpload, part_number: int, position: int, source_key: str, start: int, end: int
    ) -> UploadedPart:
        """Copies bytes [start, end) of another object of this bucket into a part, inside the store."""
        ...

    def complete_multipart(self, upload: MultipartUpload, parts: Sequence[UploadedPart]) -> None:
        """Makes the object from the parts, which are in order and without gaps. Succeeds also when the upload has ended
        and an object of exactly that size is at the key, so that a call with an unknown outcome can be repeated. Raises
        UploadNotFound, ObjectAlreadyExists when the key has an object and the upload has not ended, and
        ObjectTruncated when a part is missing or has another size."""
        ...

    def abort_multipart(self, upload: MultipartUpload) -> None:
        """Aborts the upload and deletes its parts. Idempotent."""
        ...

    def list_multipart(self) -> Iterator[MultipartUpload]:
        """Yields all uploads that are neither completed nor aborted."""
        ...

    def close(self) -> None: ...


def cut_apart(content: bytes, start: int, ends: Sequence[int]) -> list[bytes]:
    """Copies the pieces out of the answer to one request, which begins at ``start``."""
    if len(ends) == 1:
        return [content]
    view = memoryview(content)
    return [bytes(view[begin - start : end - start]) for begin, end in pairwise((start, *ends))]
