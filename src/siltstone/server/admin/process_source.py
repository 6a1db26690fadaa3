"""Metrics of the process itself: version, start, CPU time, memory, garbage collection and the lag of its event loop."""

import gc
import logging
import os
import platform
import resource
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from siltstone.foundation.histogram import Histogram
from siltstone.model.version import VERSION
from siltstone.runtime.clock import Clock
from siltstone.server.admin.scrape import Collected

LAG_INTERVAL_MS = 250
"""Often enough to meet a pause of a quarter of a second, and four timers a second cost nothing."""

LAG_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)

_STATM = Path("/proc/self/statm")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")

log = logging.getLogger(__name__)


class ProcessSource:
    """``watch`` measures the lag for as long as it runs; ``close`` ends the watch of the garbage collector."""

    def __init__(self, is_ready: Callable[[], bool], clock: Clock) -> None:
        self._is_ready = is_ready
        self._clock = clock
        self._started_ms = clock.now_ms()
        self._lag = Histogram(LAG_SECONDS)
        self._gc_ms = self._gc_begun_ms = 0.0
        gc.callbacks.append(self._collection)

    async def watch(self) -> None:
        while True:
            asked_ms = self._clock.monotonic_ms() + LAG_INTERVAL_MS
            await self._clock.sleep_ms(LAG_INTERVAL_MS)
            self._lag.observe(max(0.0, (self._clock.monotonic_ms() - asked_ms) / 1000))

    def close(self) -> None:
        if self._collection in gc.callbacks:
            gc.callbacks.remove(self._collection)

    async def collect(self, collected: Collected) -> AsyncIterator[None]:
        collected.add("build", 1, VERSION, platform.python_version())
        collected.add("start_time_seconds", self._started_ms / 1000)
        collected.add("ready", int(self._is_ready()))
        collected.add("event_loop_lag_seconds", self._lag.counts())
        collected.add("gc_seconds", self._gc_ms / 1000)
        used = resource.getrusage(resource.RUSAGE_SELF)
        collected.add("process_cpu_seconds", used.ru_utime + used.ru_stime)
        if (resident_bytes := _resident_bytes()) is not None:
            collected.add("process_resident_memory_bytes", resident_bytes)
        yield

    def _collection(self, phase: str, _: dict[str, Any]) -> None:
        """Python calls this in whatever thread collects; there is one collection at a time."""
        if phase == "start":
            self._gc_begun_ms = self._clock.monotonic_ms()
        elif self._gc_begun_ms:
            self._gc_ms += self._clock.monotonic_ms() - self._gc_begun_ms


def _resident_bytes() -> int | None:
    """Returns None on a system without /proc."""
    try:
        return int(_STATM.read_text().split()[1]) * _PAGE_BYTES
    except OSError:
        return None
