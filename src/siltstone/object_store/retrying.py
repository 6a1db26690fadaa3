"""``RetryingStore`` retries the transient failures of any adapter, limits its requests in flight, and counts them.

A put whose answer was lost may have taken effect. Before the next attempt the store is asked for the object: if it
has the same bytes, the put succeeded. A ``put_if_absent`` that finds an object after a lost answer compares the bytes
as well, to learn whether it wrote the object itself. Two callers that put equal bytes therefore both succeed; a caller
that needs a single winner must put bytes that differ per caller. Completing an upload never replaces an object either:
an object of the right size that is found after a lost answer is the upload's own.

Before its first attempt a request passes the limiter of the process (``bandwidth``), which counts or holds its bytes;
a task of maintenance holds those of a folder while the request is made (``bandwidth.passage``).

All other writes of the port are idempotent and are simply repeated. ``Attempts`` decides how long to wait: the waits
grow exponentially, with full jitter.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from copy import copy
from threading import BoundedSemaphore, Lock
from typing import Self, TypeVar

import msgspec
from msgspec.structs import replace

from siltstone.foundation.histogram import Histogram, HistogramCounts
from siltstone.foundation.quantity_words import seconds_words
from siltstone.model.buffers import Buffers, total_bytes
from siltstone.model.errors import SiltstoneError
from siltstone.model.limits import (
    STORE_ANSWER_MS_MAX,
    STORE_ATTEMPTS_MAX,
    STORE_BACKOFF_MS_MAX,
    STORE_BACKOFF_MS_MIN,
    STORE_DEADLINE_MS,
    STORE_REQUESTS_IN_FLIGHT_MAX,
)
from siltstone.object_store.bandwidth.passage import UNCOUNTED, Passage, in_pieces
from siltstone.object_store.bucket_watch import BucketWatch
from siltstone.object_store.health import PROBE_PREFIX, WRITES, Breaker
from siltstone.object_store.keys import has_content, size_of_parts
from siltstone.object_store.port import (
    MultipartUpload,
    ObjectAlreadyExists,
    ObjectNotFound,
    ObjectStore,
    ObjectSummary,
    StoreDenied,
    StoreTransient,
    UploadedPart,
)
from siltstone.runtime.clock import Clock
from siltstone.runtime.randomness import Random


class StoreStatistics(msgspec.Struct, frozen=True):
    requests: dict[str, int]
    """The number of requests by method of the port, retries included. A listing counts as one, however many pages it
    has."""
    retries: int
    bytes_read: int
    bytes_written: int

    def requests_of(self, kind: str) -> int:
        return self.requests.get(kind, 0)

    def __add__(self, other: "StoreStatistics") -> "StoreStatistics":
        return StoreStatistics(
            dict(Counter(self.requests) + Counter(other.requests)),
            self.retries + other.retries,
            self.bytes_read + other.bytes_read,
            self.bytes_written + other.bytes_written,
        )

    def __sub__(self, earlier: "StoreStatistics") -> "StoreStatistics":
        """Returns the counts since ``earlier``."""
        return StoreStatistics(
            dict(Counter(self.requests) - Counter(earlier.requests)),
            self.retries - earlier.retries,
            self.bytes_read - earlier.bytes_read,
            self.bytes_written - earlier.bytes_written,
        )


class RequestCounter:
    """Counts the requests of all threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._requests: Counter[str] = Counter()
        self._retries = self._bytes_read = self._bytes_written = 0
        self._seconds: defaultdict[str, Histogram] = defaultdict(Histogram)

    def count_request(self, kind: str, *, is_retry: bool = False) -> None:
        with self._lock:
            self._requests[kind] += 1
            self._retries += is_retry

    def observe(self, kind: str, seconds: float) -> None:
        with self._lock:
            self._seconds[kind].observe(seconds)

    def seconds(self) -> dict[str, HistogramCounts]:
        """Returns the seconds of requests by method of the port, failed ones included. Listings are not timed: their
        pages are requested one by one, as their caller reads on."""
        with self._lock:
            return {kind: histogram.counts() for kind, histogram in self._seconds.items()}

    def count_bytes(self, *, read: int = 0, written: int = 0) -> None:
        """Counts the bytes of a call that succeeded. The bytes that failed attempts transferred are unknown."""
        with self._lock:
            self._bytes_read += read
            self._bytes_written += written

    def statistics(self) -> StoreStatistics:
        with self._lock:
            return StoreStatistics(dict(self._requests), self._retries, self._bytes_read, self._bytes_written)


class RetrySettings(msgspec.Struct, frozen=True):
    attempts_max: int = STORE_ATTEMPTS_MAX
    backoff_ms_min: int = STORE_BACKOFF_MS_MIN
    backoff_ms_max: int = STORE_BACKOFF_MS_MAX
    deadline_ms: int = STORE_DEADLINE_MS
    answer_ms_max: int = STORE_ANSWER_MS_MAX
    requests_in_flight_max: int = STORE_REQUESTS_IN_FLIGHT_MAX

    def backoff_ms(self, failures: int, rng: Random) -> float:
        """Returns the random wait after the n-th failure of a request, counted from 1."""
        doublings = min(failures, 30)  # beyond any maximum; 2**30 still converts to a float
        return rng.uniform(0, min(self.backoff_ms_max, self.backoff_ms_min * 2**doublings))


class Attempts:
    """Counts the failures of one call, and waits between its attempts."""

    def __init__(self, action: str, settings: RetrySettings, clock: Clock, rng: Random) -> None:
        self._action = action
        self._settings = settings
        self._clock = clock
        self._rng = rng
        self._failures = 0
        self._began_ms = clock.monotonic_ms()
        self.uncertain = False
        """Whether an attempt that failed may have taken effect in the store."""

    @property
    def action(self) -> str:
        return self._action

    @property
    def failures(self) -> int:
        return self._failures

    def wait_after(self, failure: StoreTransient) -> None:
        """Blocks until the next attempt may begin. Raises StoreTransient when the attempts or the time are used up; the
        error is ``uncertain`` when any attempt was."""
        self._failures += 1
        self.uncertain |= failure.uncertain
        pause_ms = self._settings.backoff_ms(self._failures, self._rng)
        spent_ms = self._clock.monotonic_ms() - self._began_ms
        if self._failures >= self._settings.attempts_max or spent_ms + pause_ms > self._settings.deadline_ms:
            last = str(failure).removeprefix(f"{self._action}: ")
            raise StoreTransient(
                f"{self._action} failed {self._failures} times in {seconds_words(spent_ms / 1000)}; the last failure: "
                f"{last}",
                uncertain=self.uncertain,
            ) from failure
        self._clock.block_ms(pause_ms)

    def restart(self) -> None:
        """Forgets the failures so far, because the call made progress. A long listing may survive many failures."""
        self._failures = 0
        self._began_ms = self._clock.monotonic_ms()


T = TypeVar("T")

NO_OBJECT = f"{PROBE_PREFIX}is-it-there"
"""No object has this key: the key of a probe is the prefix and a random token."""


class RetryingStore:
    """An ObjectStore around an adapter. It is thread-safe when the adapter is. The wait between two attempts blocks the
    calling thread and does not count as a request in flight."""

    def __init__(
        self,
        store: ObjectStore,
        clock: Clock,
        rng: Random,
        settings: RetrySettings,
        passage: Passage = UNCOUNTED,
    ) -> None:
        self._store = store
        self._passage = passage
        self._clock = clock
        self._rng = rng
        self._settings = settings
        self._slots = BoundedSemaphore(settings.requests_in_flight_max)
        self._counter = RequestCounter()
        self._is_closed = False
        self.watch = BucketWatch(store.url, clock)
        self.breaker = Breaker()

    @property
    def url(self) -> str:
        return self._store.url

    def without_retries(self) -> "RetryingStore":
        """Returns the same bucket, each of whose requests is tried once. The requests are counted here, and do not
        change this breaker."""
        settings = replace(self._settings, attempts_max=1)
        once = RetryingStore(self._store, self._clock, self._rng, settings, self._passage)
        once._counter, once._slots, once.watch = self._counter, self._slots, self.watch
        return once

    def ask(self) -> None:
        """Asks once for an object that never exists. Any answer is news for the watch. Raises nothing."""
        with suppress(SiltstoneError):
            self.without_retries().head(NO_OBJECT)

    def passing(self, passage: Passage) -> Self:
        """Returns the same bucket with the same counts; the bytes of its requests pass as ``passage`` says."""
        other = copy(self)
        other._passage = passage
        return other

    def statistics(self) -> StoreStatistics:
        return self._counter.statistics()

    def seconds(self) -> dict[str, HistogramCounts]:
        """Returns the seconds of the requests, as RequestCounter.seconds does."""
        return self._counter.seconds()

    def put(self, key: str, buffers: Buffers) -> None:
        self._passage.write(total_bytes(buffers))
        attempts = self._attempts(f"put {key}")

        def attempt() -> None:
            try:
                self._request("put", attempts, lambda: self._store.put(key, buffers))
            except StoreTransient as failure:
                if not (failure.uncertain and _answered(lambda: self._has_content(key, buffers))):
                    raise

        self._repeat(attempts, attempt)
        self._counter.count_bytes(written=total_bytes(buffers))

    def put_if_absent(self, key: str, buffers: Buffers) -> None:
        self._passage.write(total_bytes(buffers))
        attempts = self._attempts(f"put {key} if absent")

        def attempt() -> None:
            try:
                self._request("put_if_absent", attempts, lambda: self._store.put_if_absent(key, buffers))
            except ObjectAlreadyExists:
                if not (attempts.uncertain and self._has_content(key, buffers)):
                    raise
            except StoreTransient as failure:
                if not (failure.uncertain and _answered(lambda: self._has_content(key, buffers))):
                    raise

        self._repeat(attempts, attempt)
        self._counter.count_bytes(written=total_bytes(buffers))

    def get_range(self, key: str, start: int, end: int) -> bytes:
        self._passage.read(end - start)
        content = self._retried("get_range", key, lambda: self._store.get_range(key, start, end))
        self._counter.count_bytes(read=len(content))
        return content

    def get_pieces(self, key: str, start: int, ends: Sequence[int]) -> list[bytes]:
        self._passage.read(ends[-1] - start)
        pieces = self._retried("get_range", key, lambda: self._store.get_pieces(key, start, ends))
        self._counter.count_bytes(read=ends[-1] - start)
        return pieces

    def head(self, key: str) -> ObjectSummary:
        return self._retried("head", key, lambda: self._store.head(key))

    def list(self, prefix: str = "", after: str = "") -> Iterator[ObjectSummary]:
        """Lists as the port does. After a transient failure the listing continues after the last key that was
        yielded."""
        attempts = self._attempts(f"list {prefix}")
        listing: Iterator[ObjectSummary] | None = None

        def attempt() -> ObjectSummary | None:
            nonlocal listing
            try:
                if listing is None:
                    self._counter.count_request("list", is_retry=attempts.failures > 0)
                    listing = self._store.list(prefix, after)
                with self._slots:
                    return next(listing, None)
            except StoreTransient:
                listing = None
                raise

        while (summary := self._repeat(attempts, attempt)) is not None:
            attempts.restart()
            after = summary.key
            yield summary

    def delete(self, keys: Sequence[str]) -> None:
        self._retried("delete", f"{len(keys)} keys", lambda: self._store.delete(keys))

    def start_multipart(self, key: str) -> MultipartUpload:
        """Starts an upload. When an answer is lost, its empty upload remains until ``list_multipart`` finds it and
        the caller aborts it."""
        return self._retried("start_multipart", key, lambda: self._store.start_multipart(key))

    def upload_part(
        self, upload: MultipartUpload, part_number: int, position: int, buffers: Buffers
    ) -> UploadedPart:
        self._passage.write(total_bytes(buffers))
        part = self._retried(
            "upload_part",
            f"{part_number} of {upload.key}",
            lambda: self._store.upload_part(upload, part_number, position, buffers),
        )
        self._counter.count_bytes(written=part.size_bytes)
        return part

    def copy_part(
        self, upload: MultipartUpload, part_number: int, position: int, source_key: str, start: int, end: int
    ) -> UploadedPart:
        self._passage.copy(end - start)
        return self._retried(
            "copy_part",
            f"{part_number} of {upload.key}",
            lambda: self._store.copy_part(upload, part_number, position, source_key, start, end),
            may_take_long=True,
        )

    def complete_multipart(self, upload: MultipartUpload, parts: Sequence[UploadedPart]) -> None:
        attempts = self._attempts(f"complete_multipart {upload.key}")

        def attempt() -> None:
            try:
                self._request(
                    "complete_multipart", attempts, lambda: self._store.complete_multipart(upload, parts)
                )
            except ObjectAlreadyExists:
                if not (attempts.uncertain and self._has_size(upload.key, size_of_parts(upload, parts))):
                    raise

        self._repeat(attempts, attempt, may_take_long=True)

    def abort_multipart(self, upload: MultipartUpload) -> None:
        self._retried("abort_multipart", upload.key, lambda: self._store.abort_multipart(upload))

    def list_multipart(self) -> Iterator[MultipartUpload]:
        yield from self._retried("list_multipart", "uploads", lambda: [*self._store.list_multipart()])

    def close(self) -> None:
        """Closes the adapter. Calls under way in other threads make no further attempt."""
        self._is_closed = True
        self._store.close()

    def _attempts(self, action: str) -> Attempts:
        return Attempts(action, self._settings, self._clock, self._rng)

    def _retried(self, kind: str, subject: str, call: Callable[[], T], *, may_take_long: bool = False) -> T:
        attempts = self._attempts(f"{kind} {subject}")
        return self._repeat(
            attempts, lambda: self._request(kind, attempts, call), may_take_long=may_take_long
        )

    def _repeat(self, attempts: Attempts, attempt: Callable[[], T], *, may_take_long: bool = False) -> T:
        with self.watch.watched(attempts.action, may_take_long=may_take_long) as call:
            while True:
                try:
                    return attempt()
                except StoreTransient as failure:
                    call.failure = str(failure)
                    if self._is_closed:
                        raise
                    attempts.wait_after(failure)

    def _request(self, kind: str, attempts: Attempts, call: Callable[[], T]) -> T:
        with self._slots:
            self._counter.count_request(kind, is_retry=attempts.failures > 0)
            return self._judged(kind, call) if kind in WRITES else self._timed(kind, call)

    def _judged(self, kind: str, call: Callable[[], T]) -> T:
        """Makes the request, and reports its outcome to the breaker."""
        try:
            result = self._timed(kind, call)
        except StoreTransient as failure:
            self.breaker.failed(self._clock.monotonic_ms(), str(failure))
            raise
        except StoreDenied as failure:
            self.breaker.trip(self._clock.monotonic_ms(), str(failure))
            raise
        self.breaker.succeeded()
        return result

    def _timed(self, kind: str, call: Callable[[], T]) -> T:
        begun_ms = self._clock.monotonic_ms()
        try:
            with in_pieces(self._passage.pieces):
                return call()
        finally:
            self._counter.observe(kind, (self._clock.monotonic_ms() - begun_ms) / 1000)

    def _has_size(self, key: str, size_bytes: int) -> bool:
        try:
            return self._head_once(key).size_bytes == size_bytes
        except ObjectNotFound:
            return False

    def _has_content(self, key: str, buffers: Buffers) -> bool:
        return has_content(self._head_once, self._get_range_once, key, buffers)

    def _head_once(self, key: str) -> ObjectSummary:
        with self._slots:
            self._counter.count_request("head")
            return self._timed("head", lambda: self._store.head(key))

    def _get_range_once(self, key: str, start: int, end: int) -> bytes:
        with self._slots:
            self._counter.count_request("get_range")
            return self._timed("get_range", lambda: self._store.get_range(key, start, end))


def passing(store: ObjectStore, passage: Passage) -> ObjectStore:
    """Returns the same store; the bytes of its requests pass as ``passage`` says, and no longer as before. A bare
    adapter, which only tests have, is returned as it is."""
    return store.passing(passage) if isinstance(store, RetryingStore) else store


def _answered(look: Callable[[], bool]) -> bool:
    """Returns the result of ``look``; False when the look failed as well, so that the write is repeated."""
    try:
        return look()
    except StoreTransient:
        return False
