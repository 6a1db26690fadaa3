"""The object store port: what the rest of the store asks of a bucket, and how it may fail.

All calls block; asynchronous code makes them through ``runtime.blocking``, Spark tasks directly. An adapter
makes one attempt and tells the kind of failure; ``retrying`` tries again.

Objects are written once and never changed: a second put to a key writes the same bytes (the plan fixes them) or
is a bug. A put or a completed upload is durable when the call returns, and visible whole or not at all.
"""

from collections.abc import Iterator, Sequence
from typing import Protocol

import msgspec

from siltstone.model.buffers import Buffers
from siltstone.model.errors import CorruptData, InvalidRequest, Unavailable


class ObjectNotFound(InvalidRequest):
    """No object at the key."""


class ObjectAlreadyExists(InvalidRequest):
    """put_if_absent found one."""


class UploadNotFound(InvalidRequest):
    """The multipart upload was completed, aborted, or never started."""


class StoreDenied(InvalidRequest):
    """Credentials, permissions, bucket name, configuration: trying again will not help."""


class StoreTransient(Unavailable):
    """Time-out, connection lost, 500, 503 SlowDown. ``uncertain`` when a write may have happened all the same."""

    def __init__(self, message: str, *, uncertain: bool = True) -> None:
        super().__init__(message)
        self.uncertain = uncertain


class ObjectTruncated(CorruptData):
    """The object is shorter than the range asked for."""


class InvalidStoreUrl(InvalidRequest):
    """The URL does not say which bucket to open."""


class ObjectSummary(msgspec.Struct, frozen=True, order=True):
    key: str
    size_bytes: int
    modified_ms: int


class MultipartUpload(msgspec.Struct, frozen=True):
    """A multipart upload under way; plain values, so that it can be sent to other processes."""

    key: str
    upload_id: str


class UploadedPart(msgspec.Struct, frozen=True):
    part_number: int
    position: int
    size_bytes: int


class ObjectStore(Protocol):
    @property
    def url(self) -> str:
        """How another process opens the same bucket: ``siltstone.object_store.opening.open_store(url)``."""
        ...

    def put(self, key: str, buffers: Buffers) -> None: ...

    def put_if_absent(self, key: str, buffers: Buffers) -> None:
        """Raises ObjectAlreadyExists. Of several at once exactly one wins."""
        ...

    def get_range(self, key: str, start: int, end: int) -> bytes:
        """Bytes [start, end); none when they are equal. Raises ObjectNotFound, ObjectTruncated."""
        ...

    def head(self, key: str) -> ObjectSummary:
        """Raises ObjectNotFound."""
        ...

    def list(self, prefix: str = "", after: str = "") -> Iterator[ObjectSummary]:
        """All objects whose key starts with the prefix and is greater than ``after``, in key order. Uploads under
        way are not objects."""
        ...

    def delete(self, keys: Sequence[str]) -> None:
        """At most DELETE_BATCH_KEYS_MAX keys in one request. Keys that do not exist are done already; after StoreDenied
        those that could be deleted are."""
        ...

    def start_multipart(self, key: str) -> MultipartUpload: ...

    def upload_part(
        self, upload: MultipartUpload, part_number: int, position: int, buffers: Buffers
    ) -> UploadedPart:
        """From any process. Part numbers count from 1 in the order of the bytes; ``position`` is where the part
        begins in the object. Sending a part again, with the same bytes, is harmless. Raises UploadNotFound."""
        ...

    def copy_part(
        self, upload: MultipartUpload, part_number: int, position: int, source_key: str, start: int, end: int
    ) -> UploadedPart:
        """Bytes [start, end) of another object of this bucket as a part, copied inside the store."""
        ...

    def complete_multipart(self, upload: MultipartUpload, parts: Sequence[UploadedPart]) -> None:
        """The parts, in order and without gap, become the object. Done as well when the upload has ended and an
        object of exactly their size stands at the key: so an unknown outcome can be asked again. Raises
        UploadNotFound, ObjectTruncated when a part is missing or of another size."""
        ...

    def abort_multipart(self, upload: MultipartUpload) -> None:
        """Idempotent."""
        ...

    def list_multipart(self) -> Iterator[MultipartUpload]:
        """Uploads neither completed nor aborted."""
        ...

    def close(self) -> None: ...
