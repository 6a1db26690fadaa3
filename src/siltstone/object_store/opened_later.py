"""A bucket of this class is opened by its first request, in the thread that makes the request.

A process learns of a new bucket from the metadata, on its event loop. Opening one makes folders or imports a client,
and a folder on a disk that hangs would stop the loop. An opening that fails is reported as a failed request, which
callers handle anyway; the next request tries to open the bucket again.
"""

from collections.abc import Callable, Iterator, Sequence
from threading import Lock

from siltstone.model.buffers import Buffers
from siltstone.object_store.port import MultipartUpload, ObjectStore, ObjectSummary, UploadedPart


class StoreOpenedLater:
    """An ObjectStore that calls ``open_adapter`` once, and makes every request of the adapter. Each request also raises
    what ``open_adapter`` raises."""

    def __init__(self, url: str, open_adapter: Callable[[], ObjectStore]) -> None:
        self._url = url
        self._open_adapter = open_adapter
        self._opening = Lock()
        self._adapter: ObjectStore | None = None

    @property
    def url(self) -> str:
        return self._url

    def put(self, key: str, buffers: Buffers) -> None:
        self._opened().put(key, buffers)

    def put_if_absent(self, key: str, buffers: Buffers) -> None:
        self._opened().put_if_absent(key, buffers)

    def get_range(self, key: str, start: int, end: int) -> bytes:
        return self._opened().get_range(key, start, end)

    def get_pieces(self, key: str, start: int, ends: Sequence[int]) -> list[bytes]:
        return self._opened().get_pieces(key, start, ends)

    def head(self, key: str) -> ObjectSummary:
        return self._opened().head(key)

    def list(self, prefix: str = "", after: str = "") -> Iterator[ObjectSummary]:
        return self._opened().list(prefix, after)

    def delete(self, keys: Sequence[str]) -> None:
        self._opened().delete(keys)

    def start_multipart(self, key: str) -> MultipartUpload:
        return self._opened().start_multipart(key)

    def upload_part(
        self, upload: MultipartUpload, part_number: int, position: int, buffers: Buffers
    ) -> UploadedPart:
        return self._opened().upload_part(upload, part_number, position, buffers)

    def copy_part(
        self, upload: MultipartUpload, part_number: int, position: int, source_key: str, start: int, end: int
    ) -> UploadedPart:
        return self._opened().copy_part(upload, part_number, position, source_key, start, end)

    def complete_multipart(self, upload: MultipartUpload, parts: Sequence[UploadedPart]) -> None:
        self._opened().complete_multipart(upload, parts)

    def abort_multipart(self, upload: MultipartUpload) -> None:
        self._opened().abort_multipart(upload)

    def list_multipart(self) -> Iterator[MultipartUpload]:
        return self._opened().list_multipart()

    def close(self) -> None:
        if self._adapter is not None:
            self._adapter.close()

    def _opened(self) -> ObjectStore:
        if self._adapter is None:
            with self._opening:
                if self._adapter is None:
                    self._adapter = self._open_adapter()
        return self._adapter
