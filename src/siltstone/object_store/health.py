"""Knows whether a bucket takes writes, as one process has seen it: a breaker for each bucket, and the probe that closes
it.

    closed ──5 failures in a row over 3 s, or none succeeded for 15 s, or a put was given up──▶ open
    open   ──3 good probes in a row, not before 30 s──▶ closed

While a breaker is open, new objects go to another bucket if there is one; with a single bucket it has no effect. Nor
has it on reads and deletions: an object is read from the bucket that its metadata names, or not at all.
"""

from threading import Lock

from siltstone.model.limits import DELETE_BATCH_KEYS_MAX, MINUTE_MS, SECOND_MS
from siltstone.object_store.port import ObjectStore

FAILURES_IN_A_ROW = 5
FAILING_MS = 3 * SECOND_MS
"""Several requests side by side fail within a moment when one connection breaks: that is no outage."""

WITHOUT_SUCCESS_MS = 15 * SECOND_MS
PROBE_INTERVAL_MS = 5 * SECOND_MS
GOOD_PROBES_MIN = 3
OPEN_MS_MIN = 30 * SECOND_MS

PROBE_PREFIX = "probe/"
"""The keys of the objects that probes put and delete begin with it."""

PROBE_BYTES = 1024
"""A disk without a free block, or a store that takes only small metadata, is found out by more than a byte."""

PROBE_MS_MAX = 10 * MINUTE_MS
"""An older probe was left behind."""

WRITES = frozenset({"put", "put_if_absent", "start_multipart", "upload_part", "complete_multipart"})
"""The requests of RetryingStore whose outcomes count for a breaker."""


class Breaker:
    """The breaker of one bucket. Times are those of the monotonic clock. Any thread may use it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._failures = 0
        self._failing_since_ms = 0.0
        self._opened_ms = 0.0
        self._probed_ms = float("-inf")
        self._good_probes = 0
        self.is_open = False
        self.closed_ms: float | None = None
        """When it was closed last; None: it has never been open."""
        self.cause = ""
        """Why it is open."""

    def succeeded(self) -> None:
        with self._lock:
            self._failures = 0

    def failed(self, now_ms: float, cause: str) -> None:
        """Counts an attempt of a write that has failed for a reason that may pass."""
        with self._lock:
            if not self._failures:
                self._failing_since_ms = now_ms
            self._failures += 1
            failing_ms = now_ms - self._failing_since_ms
            is_over = self._failures >= FAILURES_IN_A_ROW and failing_ms >= FAILING_MS
        if is_over or failing_ms >= WITHOUT_SUCCESS_MS:
            self.trip(now_ms, cause)

    def trip(self, now_ms: float, cause: str) -> bool:
        """Opens the breaker, if it is closed. Returns whether it was."""
        with self._lock:
            was_closed = not self.is_open
            if was_closed:
                self.is_open, self._opened_ms, self.cause = True, now_ms, cause
                self._good_probes, self._probed_ms = 0, now_ms
            return was_closed

    def probe_is_due(self, now_ms: float) -> bool:
        return self.is_open and now_ms - self._probed_ms >= PROBE_INTERVAL_MS

    def probed(self, now_ms: float, *, is_good: bool) -> bool:
        """Takes the outcome of a probe. Returns whether the breaker was closed by it."""
        with self._lock:
            self._probed_ms = now_ms
            self._good_probes = self._good_probes + 1 if is_good else 0
            if self._good_probes < GOOD_PROBES_MIN or now_ms - self._opened_ms < OPEN_MS_MIN:
                return False
            self.is_open, self.closed_ms, self._failures = False, now_ms, 0
            return True


def probe(store: ObjectStore, token: str) -> None:
    """Puts an object, reads it and deletes it, and also deletes what processes that died during a probe left.
    ``token`` is random, so no two probes use one key. Raises what the store raises."""
    key = f"{PROBE_PREFIX}{token}"
    content = token.encode().ljust(PROBE_BYTES, b".")
    store.put(key, [content])
    done = [key]
    try:
        store.get_range(key, 0, PROBE_BYTES)
        done += _left_behind(store, key)
    finally:
        store.delete(done)


def _left_behind(store: ObjectStore, newest_key: str) -> list[str]:
    """Probes that are much older than the newest, by the clock of the store."""
    modified_ms = {each.key: each.modified_ms for each in store.list(PROBE_PREFIX)}
    before_ms = modified_ms.get(newest_key, 0) - PROBE_MS_MAX
    return [key for key, at_ms in modified_ms.items() if at_ms < before_ms][:DELETE_BATCH_KEYS_MAX]
