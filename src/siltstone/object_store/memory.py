"""The adapter that keeps objects in the memory of this process: for tests, simulation and brokers whose data may be
lost.

``memory:NAME`` names one bucket of the process; all stores opened with that URL share its objects.
"""

from collections.abc import Iterator, Sequence
from itertools import count
from threading import Lock
from typing import NamedTuple

from siltstone.model.buffers import Buffers
from siltstone.object_store.keys import (
    checked_batch,
    checked_key,
    checked_part_number,
    key_taken,
    part_missing,
    put_once,
    size_of_parts,
    upload_ended,
)
from siltstone.object_store.port import (
    MultipartUpload,
    ObjectAlreadyExists,
    ObjectNotFound,
    ObjectSummary,
    ObjectTruncated,
    UploadedPart,
    cut_apart,
)
from siltstone.runtime.clock import Clock

_named: dict[str, "MemoryStore"] = {}
_named_lock = Lock()


class _Object(NamedTuple):
    content: bytes
    modified_ms: int


class MemoryStore:
    """A bucket in memory. Every call is atomic under one lock. A put joins its buffers once and keeps the result."""

    def __init__(self, clock: Clock, name: str = "unnamed") -> None:
        self._clock = clock
        self._name = name
        self._lock = Lock()
        self._objects: dict[str, _Object] = {}
        self._uploads: dict[MultipartUpload, dict[int, bytes]] = {}
        self._upload_ticket = count(1)

    @classmethod
    def named(cls, name: str, clock: Clock) -> "MemoryStore":
        """Returns the bucket of that name in this process. The first call for a name makes it, with the clock of that
        call."""
        with _named_lock:
            if name not in _named:
                _named[name] = cls(clock, name)
            return _named[name]

    @property
    def url(self) -> str:
        return f"memory:{self._name}"

    def put(self, key: str, buffers: Buffers) -> None:
        put_once(self, key, buffers)

    def put_if_absent(self, key: str, buffers: Buffers) -> None:
        stored = self._stored(buffers)
        with self._lock:
            if checked_key(key) in self._objects:
                raise ObjectAlreadyExists(f"object {key} exists already in {self.url}")
            self._objects[key] = stored

    def get_range(self, key: str, start: int, end: int) -> bytes:
        assert 0 <= start <= end, f"no range: [{start}, {end})"
        content = self._object(key).content
        if end > len(content):
            raise ObjectTruncated(
                f"object {key} has {len(content)} bytes, but [{start}, {end}) was requested"
            )
        return content[start:end]

    def get_pieces(self, key: str, start: int, ends: Sequence[int]) -> list[bytes]:
        return cut_apart(self.get_range(key, start, ends[-1]), start, ends)

    def head(self, key: str) -> ObjectSummary:
        stored = self._object(key)
        return ObjectSummary(key, len(stored.content), stored.modified_ms)

    def list(self, prefix: str = "", after: str = "") -> Iterator[ObjectSummary]:
        with self._lock:
            found = sorted(
                ObjectSummary(key, len(stored.content), stored.modified_ms)
                for key, stored in self._objects.items()
                if key.startswith(prefix) and key > after
            )
        return iter(found)

    def delete(self, keys: Sequence[str]) -> None:
        with self._lock:
            for key in checked_batch(keys):
                self._objects.pop(key, None)

    def start_multipart(self, key: str) -> MultipartUpload:
        upload = MultipartUpload(checked_key(key), f"{next(self._upload_ticket)}")
        with self._lock:
            self._uploads[upload] = {}
        return upload

    def upload_part(
        self, upload: MultipartUpload, part_number: int, position: int, buffers: Buffers
    ) -> UploadedPart:
        return self._keep_part(upload, part_number, position, b"".join(buffers))

    def copy_part(
        self, upload: MultipartUpload, part_number: int, position: int, source_key: str, start: int, end: int
    ) -> UploadedPart:
        return self._keep_part(upload, part_number, position, self.get_range(source_key, start, end))

    def complete_multipart(self, upload: MultipartUpload, parts: Sequence[UploadedPart]) -> None:
        size_bytes = size_of_parts(upload, parts)
        with self._lock:
            sent = self._uploads.get(upload)
            if sent is None:
                self._check_completed(upload, size_bytes)
                return
            for part in parts:
                if len(sent.get(part.part_number, b"")) != part.size_bytes:
                    raise part_missing(upload, part.part_number)
            if upload.key in self._objects:
                raise key_taken(upload)
            content = b"".join(sent[part.part_number] for part in parts)
            self._objects[upload.key] = _Object(content, self._clock.now_ms())
            del self._uploads[upload]

    def abort_multipart(self, upload: MultipartUpload) -> None:
        with self._lock:
            self._uploads.pop(upload, None)

    def list_multipart(self) -> Iterator[MultipartUpload]:
        with self._lock:
            return iter(list(self._uploads))

    def close(self) -> None:
        return None

    def _stored(self, buffers: Buffers) -> _Object:
        return _Object(b"".join(buffers), self._clock.now_ms())

    def _object(self, key: str) -> _Object:
        with self._lock:
            stored = self._objects.get(checked_key(key))
        if stored is None:
            raise ObjectNotFound(f"no object {key} in {self.url}")
        return stored

    def _keep_part(
        self, upload: MultipartUpload, part_number: int, position: int, content: bytes
    ) -> UploadedPart:
        with self._lock:
            if upload not in self._uploads:
                raise upload_ended(upload)
            self._uploads[upload][checked_part_number(part_number)] = content
        return UploadedPart(part_number, position, len(content))

    def _check_completed(self, upload: MultipartUpload, size_bytes: int) -> None:
        stored = self._objects.get(upload.key)
        if stored is None or len(stored.content) != size_bytes:
            raise upload_ended(upload)
