"""``PassingStore`` wraps any other store, and lets its requests pass a ``Passage`` first."""

from collections.abc import Iterator, Sequence

from siltstone.model.buffers import Buffers, total_bytes
from siltstone.object_store.bandwidth.passage import Passage
from siltstone.object_store.port import MultipartUpload, ObjectStore, ObjectSummary, UploadedPart


class PassingStore:
    """An ObjectStore. Reads, writes and copies pass first; all other requests are made at once."""

    def __init__(self, store: ObjectStore, passage: Passage) -> None:
        self._store = store
        self._passage = passage

    @property
    def url(self) -> str:
        return self._store.url

    def put(self, key: str, buffers: Buffers) -> None:
        self._passage.write(total_bytes(buffers))
        self._store.put(key, buffers)

    def put_if_absent(self, key: str, buffers: Buffers) -> None:
        self._passage.write(total_bytes(buffers))
        self._store.put_if_absent(key, buffers)

    def get_range(self, key: str, start: int, end: int) -> bytes:
        self._passage.read(end - start)
        return self._store.get_range(key, start, end)

    def get_pieces(self, key: str, start: int, ends: Sequence[int]) -> list[bytes]:
        self._passage.read(ends[-1] - start)
        return self._store.get_pieces(key, start, ends)

    def head(self, key: str) -> ObjectSummary:
        return self._store.head(key)

    def list(self, prefix: str = "", after: str = "") -> Iterator[ObjectSummary]:
        return self._store.list(prefix, after)

    def delete(self, keys: Sequence[str]) -> None:
        self._store.delete(keys)

    def start_multipart(self, key: str) -> MultipartUpload:
        return self._store.start_multipart(key)

    def upload_part(
        self, upload: MultipartUpload, part_number: int, position: int, buffers: Buffers
    ) -> UploadedPart:
        self._passage.write(total_bytes(buffers))
        return self._store.upload_part(upload, part_number, position, buffers)

    def copy_part(
        self, upload: MultipartUpload, part_number: int, position: int, source_key: str, start: int, end: int
    ) -> UploadedPart:
        self._passage.copy(end - start)
        return self._store.copy_part(upload, part_number, position, source_key, start, end)

    def complete_multipart(self, upload: MultipartUpload, parts: Sequence[UploadedPart]) -> None:
        self._store.complete_multipart(upload, parts)

    def abort_multipart(self, upload: MultipartUpload) -> None:
        self._store.abort_multipart(upload)

    def list_multipart(self) -> Iterator[MultipartUpload]:
        return self._store.list_multipart()

    def close(self) -> None:
        self._store.close()
