"""Repeats what a bucket or the metadata log refuses or does not answer, at growing intervals, and reports the outage.

An attempt that is not answered for HANGING_MS is an outage, too: it has no error yet, and may never have one.
An attempt is repeated after Unavailable and after StoreDenied: credentials expire and are renewed, a folder is mounted
read-only and writable again, a node that was silent for a while resumes (NodeSuspended). Meanwhile the log and the tail
cache hold the records. The causes that do not pass (another process has registered as this node, the metadata service
has failed) are raised at once.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

import msgspec

from siltstone.foundation.quantity_words import seconds_words
from siltstone.metadata.refusals import NodeSuspended
from siltstone.metadata.service import ServiceClosed
from siltstone.model.errors import SiltstoneError, Unavailable
from siltstone.object_store.port import StoreDenied
from siltstone.runtime.clock import Clock
from siltstone.runtime.log_limit import LogLimit

log = logging.getLogger(__name__)

T = TypeVar("T")

RETRY_INTERVAL_MS_MIN = 1_000
"""Before the second attempt. The first one has failed although the bucket and the metadata log make several attempts
of their own."""

RETRY_INTERVAL_MS_MAX = 10_000
"""A bucket that grants again is used again within this time, before a log of the default size fills up."""

HANGING_MS = 60_000
"""An object of 100 MiB is put in less on any line that carries a broker. A request that fails ends sooner."""

LOG_INTERVAL_MS = 30_000
"""The shortest time between two lines about the same outage, however many uploads it stops."""

METADATA_LOG = "the metadata log"


class PreparedTooLongAgo(Exception):
    """The time limit of the prepared objects has passed: prepare new ones."""


class AttemptUnanswered(Unavailable):
    """An upload or a commit has had no answer for so long that it is an outage."""

    def __init__(self, waited_ms: float) -> None:
        super().__init__(f"no answer for {seconds_words(waited_ms / 1000)}")
        self.waited_ms = waited_ms


class Outage(msgspec.Struct, frozen=True):
    """What stops the uploads of a node. ``place`` is the URL of the bucket, or METADATA_LOG."""

    place: str
    since_ms: int
    cause: str
    remedy: str


class OutageWatch:
    """The outage of one node's uploads, and the attempts that wait for its end. It ends with the first attempt that
    succeeds at the same place."""

    def __init__(self, clock: Clock, node_id: int, on_change: Callable[[], None] = lambda: None) -> None:
        self._clock = clock
        self._node_id = node_id
        self._on_change = on_change
        self._limit = LogLimit(clock, LOG_INTERVAL_MS)
        self.outage: Outage | None = None

    async def persist(
        self,
        attempt: Callable[[], Awaitable[T]],
        place: str,
        until_ms: float | None = None,
        is_silent: Callable[[], bool] = lambda: True,
    ) -> T:
        """Repeats ``attempt`` until it succeeds. An attempt that takes HANGING_MS begins an outage if the place
        ``is_silent``: a large object may take as long where the bandwidth is limited. Raises PreparedTooLongAgo when
        the attempt has failed and the monotonic clock has passed ``until_ms``, ServiceClosed, and every error that
        does not pass."""
        interval_ms = RETRY_INTERVAL_MS_MIN
        while True:
            try:
                async with self._said_if_it_hangs(place, is_silent):
                    result = await attempt()
            except ServiceClosed:
                raise  # the metadata service is not started again in this process
            except (Unavailable, StoreDenied) as trouble:
                self._began(place, trouble)
            else:
                self._ended(place)
                return result
            await self._clock.sleep_ms(interval_ms)
            if until_ms is not None and self._clock.monotonic_ms() >= until_ms:
                raise PreparedTooLongAgo
            interval_ms = min(2 * interval_ms, RETRY_INTERVAL_MS_MAX)

    @asynccontextmanager
    async def _said_if_it_hangs(self, place: str, is_silent: Callable[[], bool]) -> AsyncIterator[None]:
        begun_ms = self._clock.monotonic_ms()

        async def said() -> None:
            await self._clock.sleep_ms(HANGING_MS)
            while True:
                if is_silent():
                    self._began(place, AttemptUnanswered(self._clock.monotonic_ms() - begun_ms))
                await self._clock.sleep_ms(RETRY_INTERVAL_MS_MAX)

        task = asyncio.ensure_future(said())
        try:
            yield
        finally:
            task.cancel()

    def _began(self, place: str, trouble: SiltstoneError) -> None:
        since_ms = self.outage.since_ms if self.outage is not None else self._clock.now_ms()
        is_new = self.outage is None
        self.outage = Outage(place, since_ms, str(trouble), _remedy(place, trouble))
        if self._limit.is_due():
            log.error(
                "node %d cannot upload to %s and tries again: %s. Appends are accepted as long as the write-ahead log "
                "and the tail cache have room. %s",
                self._node_id, place, trouble, self.outage.remedy,
            )  # fmt: skip
        if is_new:
            self._on_change()

    def _ended(self, place: str) -> None:
        outage = self.outage
        if outage is None or outage.place != place:
            return
        lasted_ms = self._clock.now_ms() - outage.since_ms
        log.warning(
            "node %d uploads to %s again, after %s", self._node_id, place, seconds_words(lasted_ms / 1000)
        )
        self.outage = None
        self._limit.forget()
        self._on_change()


def _remedy(place: str, trouble: SiltstoneError) -> str:
    if isinstance(trouble, StoreDenied):
        return (
            "Give the node the permission to write to the bucket (credentials, bucket policy, a folder mounted "
            "read-only); the uploads then continue by themselves"
        )
    if isinstance(trouble, NodeSuspended):
        return (
            "The node resumes by itself when it can beat again; check the disk or server of its lease board"
        )
    if place == METADATA_LOG:
        return (
            "Find the process that holds the metadata database, or free space on its disk; with PostgreSQL, look "
            "whether the server and its synchronous standby can be reached"
        )
    return "Check that the bucket can be reached (endpoint, network, space); the uploads then continue by themselves"
