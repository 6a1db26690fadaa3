"""The time by which a process that was asked to stop has ended, whatever hangs.

A program in Python waits at its end for every thread of its pools, and a thread may wait for a bucket that never
answers, for a database that another process has locked, or for a disk. Nothing can interrupt it. A thread that waits
for nothing but this deadline therefore ends the process; the write-ahead log has what was acknowledged.
"""

import logging
import os
import select
import sys
from collections.abc import Callable
from threading import Thread

from siltstone.runtime.clock import Clock, SystemClock

log = logging.getLogger(__name__)

LAST_WORDS_SECONDS_MAX = 0.5
"""How long the last lines may take: stderr may be a pipe that nobody reads."""


class ProcessDeadline:
    """``status``: returns the exit status of a process that this deadline ends. ``close`` it when the process ends by
    itself."""

    def __init__(
        self,
        status: Callable[[], int],
        clock: Clock | None = None,
        end_process: Callable[[int], object] = os._exit,
    ) -> None:
        self._status = status
        self._end_process = end_process
        self._clock = clock or SystemClock()
        self._ends_ms = float("inf")
        self._reason = ""
        self._is_closed = False
        self._wake_end, self._waker = os.pipe()
        os.set_blocking(self._waker, False)
        Thread(target=self._wait, name="deadline", daemon=True).start()

    @property
    def is_set(self) -> bool:
        return self._ends_ms < float("inf")

    def set(self, milliseconds: float, reason: str) -> None:
        """The process ends in so much time, or earlier if that was said before. A signal handler may call it: it takes
        no lock."""
        self._ends_ms = min(self._ends_ms, self._clock.monotonic_ms() + milliseconds)
        self._reason = reason
        os.write(self._waker, b"!")

    def close(self) -> None:
        """The process is not ended any more."""
        self._is_closed = True
        os.write(self._waker, b"!")

    def _wait(self) -> None:
        while not self._is_closed:
            left_ms = self._ends_ms - self._clock.monotonic_ms()
            if left_ms <= 0:
                self._end()
                return
            ready, _, _ = select.select([self._wake_end], [], [], left_ms / 1000 if self.is_set else None)
            if ready:
                os.read(self._wake_end, 1)

    def _end(self) -> None:
        last_words = Thread(target=self._say, daemon=True)
        last_words.start()
        last_words.join(LAST_WORDS_SECONDS_MAX)
        self._end_process(self._status())

    def _say(self) -> None:
        log.error("%s", self._reason)
        sys.stdout.flush()
        sys.stderr.flush()
