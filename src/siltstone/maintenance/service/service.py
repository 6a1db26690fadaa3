"""The lanes side by side: what frees space has a thread of its own, so that no long run keeps it waiting (GC14)."""

import logging
from collections.abc import Sequence
from threading import Event, Thread

from siltstone.maintenance.service.lane import Lane
from siltstone.maintenance.service.statistics import Counters, ServiceStatistics

log = logging.getLogger(__name__)

STATISTICS_LOGGED_SECONDS = 600.0
BROKEN_MS = 60_000
STOP_SECONDS_MAX = 20.0
"""Spark answers a cancel in less than a second; one that died never does."""


class MaintenanceService:
    """``lanes`` in the order that frees space first."""

    def __init__(self, lanes: Sequence[Lane], counters: Counters) -> None:
        self._lanes = lanes
        self._counters = counters
        self._stopping = Event()

    def statistics(self) -> ServiceStatistics:
        return self._counters.statistics()

    def run_once(self) -> None:
        """Every kind once, whatever its schedule, one lane after another."""
        for lane in self._lanes:
            if not self._stopping.is_set():
                lane.turn(is_everything_due=True)

    def run(self) -> None:
        """Returns when somebody has called ``stop``, and what was under way has ended."""
        threads = [
            Thread(target=self._take_turns, args=(lane,), name=lane.name, daemon=True) for lane in self._lanes
        ]
        for thread in threads:
            thread.start()
        while not self._stopping.wait(STATISTICS_LOGGED_SECONDS):
            self.log_statistics()
        for thread in threads:
            thread.join(STOP_SECONDS_MAX)
            if thread.is_alive():
                log.warning("%s is still at work; what it has not committed is collected later", thread.name)

    def stop(self, reason: str) -> None:
        """Any thread may call it, a signal's handler too."""
        self._stopping.set()
        for lane in self._lanes:
            lane.cancel(reason)

    def log_statistics(self) -> None:
        for line in self.statistics().lines:
            log.info("%s", line)

    def _take_turns(self, lane: Lane) -> None:
        wait_ms = 0.0
        while not self._stopping.wait(wait_ms / 1000):
            try:
                wait_ms = lane.turn()
            except Exception:
                wait_ms = BROKEN_MS
                log.exception("this is a bug; %s goes on in a minute", lane.name)
