"""Knows which partitions are being opened, and how many appends wait for them; reports an opening that takes too long.

An opening reads the bucket, so it lasts as long as the bucket does not answer. Its requests wait before the write-ahead
log, where neither the log nor the uploads know of them. Readiness, a metric and the log say so (rule 12).
"""

import logging
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager

from siltstone.foundation.quantity_words import counted, seconds_words
from siltstone.model.limits import SECOND_MS
from siltstone.runtime.clock import Clock
from siltstone.runtime.log_limit import LogLimit

SILENT_MS_MAX = 5 * SECOND_MS
"""By then the bucket's watch knows that the bucket does not answer, and a line was promised."""

SLOW_MS_MAX = 30 * SECOND_MS
"""Producers give a request up after it [Java: request.timeout.ms]. A broker that opens thousands of partitions after a
crash needs some of it."""

OPENING_LOOK_INTERVAL_MS = SECOND_MS

log = logging.getLogger(__name__)


def opening_trouble(partitions: int, lasting_ms: float, silent_urls: Sequence[str]) -> str:
    """Returns why requests wait while ``partitions`` are opened, the first for ``lasting_ms``; or nothing. Pure."""
    if not partitions or lasting_ms < (SILENT_MS_MAX if silent_urls else SLOW_MS_MAX):
        return ""
    what = f"requests wait: {counted(partitions, 'partition')} cannot be opened for {seconds_words(lasting_ms / 1000)}"
    if not silent_urls:
        return f"{what}: the bucket, the metadata log or this machine is slow; look at siltstone_store_request_seconds"
    verb = "does" if len(silent_urls) == 1 else "do"
    return (
        f"{what}, because {' and '.join(silent_urls)} {verb} not answer: check that the bucket can be reached "
        "(endpoint, network, the server of the bucket); the requests then continue by themselves"
    )


class OpeningWatch:
    """The openings of one broker. ``silent_urls`` returns the URLs of the buckets that do not answer."""

    def __init__(self, clock: Clock, silent_urls: Callable[[], Sequence[str]]) -> None:
        self._clock = clock
        self._silent_urls = silent_urls
        self._since_ms: dict[Hashable, float] = {}
        self._limit = LogLimit(clock)
        self._is_said = False
        self._is_looking = False
        self.appends_waiting = 0
        """Appends that wait for their partition to be opened."""

    @contextmanager
    def append_waits(self) -> Iterator[None]:
        self.appends_waiting += 1
        try:
            yield
        finally:
            self.appends_waiting -= 1

    def begin(self, key: Hashable) -> bool:
        """Notes that a partition is being opened. Returns whether the caller has to run ``look_while_there_are``
        now."""
        self._since_ms[key] = self._clock.monotonic_ms()
        was_looking, self._is_looking = self._is_looking, True
        return not was_looking

    def end(self, key: Hashable) -> None:
        """Notes that the opening has succeeded or failed."""
        self._since_ms.pop(key, None)

    @property
    def trouble(self) -> str:
        """Why requests wait for partitions that are being opened; empty while none waits for long."""
        if not self._since_ms:
            return ""
        lasting_ms = self._clock.monotonic_ms() - min(self._since_ms.values())
        return opening_trouble(len(self._since_ms), lasting_ms, self._silent_urls())

    async def look_while_there_are(self) -> None:
        """Logs the trouble of the openings, and its end. Returns when no partition is being opened any more."""
        try:
            while self._since_ms:
                self._look()
                await self._clock.sleep_ms(OPENING_LOOK_INTERVAL_MS)
            if self._is_said:
                self._is_said = False
                log.warning("the partitions that requests waited for are open, or their opening has failed")
        finally:
            self._is_looking = False

    def _look(self) -> None:
        trouble = self.trouble
        if trouble and self._limit.is_due():
            self._is_said = True
            log.error("%s", trouble)
