"""Faults of a bucket on request, for tests of programs that use a broker: slow, refusing writes, or out of reach.

``BucketFaults`` says which faults there are now; a ``FaultBucket`` around an adapter has them. Retries, their waits
and the counting of requests are outside of it, as with a real bucket.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from siltstone.model.buffers import Buffers
from siltstone.object_store.port import (
    MultipartUpload,
    ObjectStore,
    ObjectSummary,
    StoreDenied,
    StoreTransient,
    UploadedPart,
)
from siltstone.runtime.clock import Clock

T = TypeVar("T")


class BucketFaults:
    """The faults of the buckets of one broker. Attributes may be changed at any time, from any thread.

    ``delay_ms`` is added to every request. With ``refuses_writes``, whatever would change the bucket is refused, as
    with an expired token; with ``is_unreachable``, every request fails, and nothing is changed.
    """

    def __init__(
        self, *, delay_ms: float = 0, refuses_writes: bool = False, is_unreachable: bool = False
    ) -> None:
        self.delay_ms = delay_ms
        self.refuses_writes = refuses_writes
        self.is_unreachable = is_unreachable
        self._is_paused = False

    @contextmanager
    def paused(self) -> Iterator[None]:
        """There are no faults in this block, in which a new store is made."""
        self._is_paused = True
        try:
            yield
        finally:
            self._is_paused = False

    def before_request(self, url: str, clock: Clock, *, is_write: bool) -> None:
        """Blocks for the delay. Raises StoreDenied and StoreTransient as the faults say."""
        if self._is_paused:
            return
        if self.delay_ms > 0:
            clock.block_ms(self.delay_ms)
        if self.is_unreachable:
            raise StoreTransient(f"{url} is out of reach (BucketFaults.is_unreachable)", uncertain=False)
        if is_write and self.refuses_writes:
            raise StoreDenied(f"{url} refuses writes (BucketFaults.refuses_writes)")

    def end(self) -> None:
        """Ends all faults."""
        self.delay_ms = 0
        self.refuses_writes = self.is_unreachable = False

    def __repr__(self) -> str:
        return (
            f"BucketFaults(delay_ms={self.delay_ms:g}, refuses_writes={self.refuses_writes}, "
            f"is_unreachable={self.is_unreachable})"
        )


class FaultBucket:
    """An ObjectStore around an adapter, with the faults that ``faults`` has at the time of each request."""

    def __init__(self, store: ObjectStore, faults: BucketFaults, clock: Clock) -> None:
        self._store = store
        self._faults = faults
        self._clock = clock

    @property
    def url(self) -> str:
        return self._store.url

    def put(self, key: str, buffers: Buffers) -> None:
        self._write(lambda: self._store.put(key, buffers))

    def put_if_absent(self, key: str, buffers: Buffers) -> None:
        self._write(lambda: self._store.put_if_absent(key, buffers))

    def get_range(self, key: str, start: int, end: int) -> bytes:
        return self._request(lambda: self._store.get_range(key, start, end))

    def get_pieces(self, key: str, start: int, ends: Sequence[int]) -> list[bytes]:
        return self._request(lambda: self._store.get_pieces(key, start, ends))

    def head(self, key: str) -> ObjectSummary:
        return self._request(lambda: self._store.head(key))

    def list(self, prefix: str = "", after: str = "") -> Iterator[ObjectSummary]:
        return self._request(lambda: self._store.list(prefix, after))

    def delete(self, keys: Sequence[str]) -> None:
        self._write(lambda: self._store.delete(keys))

    def start_multipart(self, key: str) -> MultipartUpload:
        return self._write(lambda: self._store.start_multipart(key))

    def upload_part(
        self, upload: MultipartUpload, part_number: int, position: int, buffers: Buffers
    ) -> UploadedPart:
        return self._write(lambda: self._store.upload_part(upload, part_number, position, buffers))

    def copy_part(
        self, upload: MultipartUpload, part_number: int, position: int, source_key: str, start: int, end: int
    ) -> UploadedPart:
        return self._write(
            lambda: self._store.copy_part(upload, part_number, position, source_key, start, end)
        )

    def complete_multipart(self, upload: MultipartUpload, parts: Sequence[UploadedPart]) -> None:
        self._write(lambda: self._store.complete_multipart(upload, parts))

    def abort_multipart(self, upload: MultipartUpload) -> None:
        self._write(lambda: self._store.abort_multipart(upload))

    def list_multipart(self) -> Iterator[MultipartUpload]:
        return self._request(self._store.list_multipart)

    def close(self) -> None:
        self._store.close()

    def _write(self, call: Callable[[], T]) -> T:
        self._faults.before_request(self.url, self._clock, is_write=True)
        return call()

    def _request(self, call: Callable[[], T]) -> T:
        self._faults.before_request(self.url, self._clock, is_write=False)
        return call()
