"""A process that starts while its metadata database is down waits for it, as one that runs does.

A rolling restart during an outage would otherwise end every broker. What a server refuses, for example a wrong
password, ends the start at once, and so does every other error: see ``store.postgres.reach``.
"""

import logging
from collections.abc import Callable
from typing import TypeVar

from siltstone.metadata.store.port import LogOutOfReach
from siltstone.model.limits import SECOND_MS
from siltstone.runtime.blocking import BlockingCalls
from siltstone.runtime.clock import Clock
from siltstone.runtime.tasks import REPORT_INTERVAL_MS

T = TypeVar("T")

ATTEMPT_INTERVAL_MS = SECOND_MS
"""How long a start waits after an attempt. A refused connection costs a server that is about to come up nothing."""

log = logging.getLogger(__name__)


class OutageReport:
    """Says that a start waits, at the first attempt that failed and every REPORT_INTERVAL_MS."""

    def __init__(self, who: str, clock: Clock) -> None:
        self._who = who
        self._clock = clock
        self._said_ms: float | None = None

    def failed(self, trouble: LogOutOfReach) -> None:
        now_ms = self._clock.monotonic_ms()
        if self._said_ms is None or now_ms - self._said_ms >= REPORT_INTERVAL_MS:
            self._said_ms = now_ms
            log.warning("%s waits for its metadata and tries again every second: %s", self._who, trouble)

    def succeeded(self) -> None:
        if self._said_ms is not None:
            log.warning("%s has reached its metadata and starts", self._who)


async def once_reached(opening: Callable[[], T], calls: BlockingCalls, clock: Clock, who: str) -> T:
    """Returns what ``opening`` returns, which runs in ``calls``; it is repeated while it raises LogOutOfReach."""
    report = OutageReport(who, clock)
    while True:
        try:
            opened = await calls.run(opening)
        except LogOutOfReach as trouble:
            report.failed(trouble)
        else:
            report.succeeded()
            return opened
        await clock.sleep_ms(ATTEMPT_INTERVAL_MS)


def blocked_until_reached(opening: Callable[[], T], clock: Clock, who: str) -> T:
    """Does the same as ``once_reached`` in this thread, for a process without an event loop."""
    report = OutageReport(who, clock)
    while True:
        try:
            opened = opening()
        except LogOutOfReach as trouble:
            report.failed(trouble)
        else:
            report.succeeded()
            return opened
        clock.block_ms(ATTEMPT_INTERVAL_MS)
