"""Logs soon when a bucket refuses requests or does not answer, and when it answers again, with one line each.

A request is repeated for half a minute before its caller gets an error, and a request that hangs is not even repeated
for a while. The watch of a bucket knows the calls that are under way. Its owner calls ``look`` twice a second; when no
call was answered for SILENT_MS_MAX although calls were made, the watch logs it. A bucket that answers some calls and
lets others wait is slow, not silent. A refusal (StoreDenied) is an answer, and the caller says what to do about it.

A bucket that is silent while nobody asks it anything would stay so until the next request, which may come in an hour.
It is asked each ASK_INTERVAL_MS whether an object is there that never is.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Lock, Thread

from siltstone.foundation.quantity_words import seconds_words
from siltstone.model.limits import SECOND_MS
from siltstone.object_store.port import StoreTransient
from siltstone.runtime.clock import Clock
from siltstone.runtime.log_limit import LogLimit

SILENT_MS_MAX = 4 * SECOND_MS
"""A line within 5 seconds is promised. A request is answered in some ms, 16 MiB over a slow line in two seconds."""

BUCKET_LOOK_INTERVAL_MS = 500

ASK_INTERVAL_MS = 5 * SECOND_MS
"""How often a silent bucket is asked, one request at a time, while no other request is under way."""

log = logging.getLogger(__name__)


@contextmanager
def looking(look: Callable[[], None]) -> Iterator[None]:
    """Calls ``look`` once in BUCKET_LOOK_INTERVAL_MS in this block, from a thread, for programs without a loop."""
    ended = Event()

    def look_until_ended() -> None:
        while not ended.wait(BUCKET_LOOK_INTERVAL_MS / 1000):
            look()

    Thread(target=look_until_ended, name="look-at-buckets", daemon=True).start()
    try:
        yield
    finally:
        ended.set()


class WatchedCall:
    """A call under way. ``failure``: why its latest attempt failed; empty while the first one runs. The store may work
    for minutes on a call that ``may_take_long``, such as a copy of 5 GiB; it counts only once an attempt has failed."""

    def __init__(self, action: str, begun_ms: float, *, may_take_long: bool) -> None:
        self.action = action
        self.begun_ms = begun_ms
        self.may_take_long = may_take_long
        self.failure = ""


class BucketWatch:
    """The watch of one bucket. Any thread may use it."""

    def __init__(self, url: str, clock: Clock) -> None:
        self._url = url
        self._clock = clock
        self._changing = Lock()
        self._calls: dict[int, WatchedCall] = {}
        self._answered_ms = float("-inf")
        self._silent_since_ms: float | None = None
        self._is_said = False
        self._asked_ms = float("-inf")
        self._limit = LogLimit(clock)

    @contextmanager
    def watched(self, action: str, *, may_take_long: bool = False) -> Iterator[WatchedCall]:
        """Watches the block, which makes a call to the bucket with all its attempts. Any end but StoreTransient is an
        answer."""
        call = WatchedCall(action, self._clock.monotonic_ms(), may_take_long=may_take_long)
        with self._changing:
            self._calls[id(call)] = call
        is_answered = True
        try:
            yield call
        except StoreTransient:
            is_answered = False
            raise
        finally:
            with self._changing:
                del self._calls[id(call)]
            if is_answered:
                self._answered()

    @property
    def is_silent(self) -> bool:
        """Whether the bucket was silent when ``look`` was called last, and has not answered since."""
        return self._silent_since_ms is not None

    def is_to_be_asked(self) -> bool:
        """Returns whether the bucket is silent and nobody asks it, so that the caller is to make a watched call. True
        once in ASK_INTERVAL_MS."""
        now_ms = self._clock.monotonic_ms()
        with self._changing:
            if not self.is_silent or self._calls or now_ms - self._asked_ms < ASK_INTERVAL_MS:
                return False
            self._asked_ms = now_ms
            return True

    def look(self) -> None:
        """Logs that the bucket is silent, if it is, at most once a minute."""
        now_ms = self._clock.monotonic_ms()
        with self._changing:
            calls = [call for call in self._calls.values() if call.failure or not call.may_take_long]
            if self.is_silent or not calls:
                return
            oldest = min(calls, key=lambda call: call.begun_ms)
            since_ms = max(oldest.begun_ms, self._answered_ms)
            if now_ms - since_ms < SILENT_MS_MAX:
                return
            self._silent_since_ms = since_ms
            self._is_said = self._limit.is_due()
        if self._is_said:
            log.warning(
                "bucket %s has not answered for %s: %s (%s). Requests are repeated; check that it can "
                "be reached (endpoint, network, the server of the bucket)",
                self._url, seconds_words((now_ms - since_ms) / 1000), oldest.action,
                oldest.failure or "no answer to the first attempt",
            )  # fmt: skip

    def _answered(self) -> None:
        now_ms = self._clock.monotonic_ms()
        with self._changing:
            self._answered_ms = now_ms
            since_ms, self._silent_since_ms = self._silent_since_ms, None
            is_said, self._is_said = self._is_said, False
        if since_ms is not None and is_said:
            log.warning(
                "bucket %s answers again, after %s", self._url, seconds_words((now_ms - since_ms) / 1000)
            )
