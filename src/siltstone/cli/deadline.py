"""Ends a process that was asked to stop after a time limit, whatever hangs.

A program in Python waits at its end for every thread of its pools, and a thread may wait for a bucket that never
answers, for a database that another process has locked, or for a disk. Nothing can interrupt it. A thread that waits
for nothing but this deadline therefore ends the process; the write-ahead log has the acknowledged records.
"""

import logging
import math
import os
import select
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Thread

from siltstone.runtime.clock import Clock, SystemClock

SIGNALS = (signal.SIGINT, signal.SIGTERM)

Limit = tuple[float, str]
"""In how many milliseconds the process ends, and the reason that is logged then."""

log = logging.getLogger(__name__)

ONE_SIGNAL_MS_MAX = 200
"""Signals that follow the first one within this time count as one: ``timeout``, for example, signals its child and then
the group to which the child belongs. A person takes longer to press a key again."""

LAST_WORDS_SECONDS_MAX = 0.5
"""How long the last lines may take: stderr may be a pipe that nobody reads."""


def counted_signals(
    clock: Clock | None = None, one_signal_ms_max: float = ONE_SIGNAL_MS_MAX
) -> Callable[[], int]:
    """Returns a function for a signal handler: 1 when it is called for the first signal, 2 for a later one, and 0 for
    one that is the first one sent twice."""
    now_ms = (clock or SystemClock()).monotonic_ms
    first_ms = float("inf")

    def count() -> int:
        nonlocal first_ms
        arrived_ms = now_ms()
        if first_ms > arrived_ms:
            first_ms = arrived_ms
            return 1
        return 2 if arrived_ms - first_ms >= one_signal_ms_max else 0

    return count


class ProcessDeadline:
    """``status``: returns the exit status of a process that this deadline ends. ``close`` it when the process ends by
    itself."""

    def __init__(
        self,
        status: Callable[[], int],
        clock: Clock | None = None,
        end_process: Callable[[int], object] = os._exit,
        *,
        one_signal_ms_max: float = ONE_SIGNAL_MS_MAX,
        last_words_seconds_max: float = LAST_WORDS_SECONDS_MAX,
    ) -> None:
        self._one_signal_ms_max = one_signal_ms_max
        self._last_words_seconds_max = last_words_seconds_max
        self._status = status
        self._end_process = end_process
        self._clock = clock or SystemClock()
        self._ends_ms = float("inf")
        self._reason = ""
        self._is_closed = False
        self._on_signal: Callable[[], None] = lambda: None
        self._wake_end, self._waker = os.pipe()
        os.set_blocking(self._waker, False)
        self._thread = Thread(target=self._wait, name="deadline", daemon=True)
        self._thread.start()

    @property
    def is_set(self) -> bool:
        return self._ends_ms < float("inf")

    def set(self, milliseconds: float, reason: str) -> None:
        """Sets the deadline: the process ends in this time, or earlier if an earlier deadline was set before. A signal
        handler may call it: it takes no lock."""
        if self._is_closed:
            return
        self._ends_ms = min(self._ends_ms, self._clock.monotonic_ms() + milliseconds)
        self._reason = reason
        os.write(self._waker, b"!")

    @contextmanager
    def set_by_signals(self, first: Limit, second: Limit) -> Iterator[None]:
        """In this block SIGINT and SIGTERM set the deadline by themselves, besides what their handlers do: Python runs
        handlers in the main thread only, which may be inside a call that hangs. Only the main thread may enter it, and
        no event loop may run in it, because loops use the same mechanism."""
        count = counted_signals(self._clock, self._one_signal_ms_max)

        def arrived() -> None:
            if (number := count()) > 0:
                self.set(*(first if number == 1 else second))

        self._on_signal = arrived
        before = signal.set_wakeup_fd(self._waker, warn_on_full_buffer=False)
        try:
            yield
        finally:
            signal.set_wakeup_fd(before)

    def close(self) -> None:
        """Removes the deadline: the process is no longer ended. Only the main thread may call it, in which handlers of
        signals run, so none of them writes to a file that is closed."""
        if self._is_closed:
            return
        self._is_closed = True
        os.write(self._waker, b"!")
        self._thread.join()
        os.close(self._waker)
        os.close(self._wake_end)

    def _wait(self) -> None:
        waking = select.poll()  # not ``select.select``, which refuses files numbered 1,024 and higher
        waking.register(self._wake_end, select.POLLIN)
        while not self._is_closed:
            left_ms = self._ends_ms - self._clock.monotonic_ms()
            if left_ms <= 0:
                self._end()
                return
            if (
                waking.poll(math.ceil(left_ms) if self.is_set else None)
                and os.read(self._wake_end, 1)[0] in SIGNALS
            ):
                self._on_signal()

    def _end(self) -> None:
        last_words = Thread(target=self._say, daemon=True)
        last_words.start()
        last_words.join(self._last_words_seconds_max)
        self._end_process(self._status())

    def _say(self) -> None:
        log.error("%s", self._reason)
        sys.stdout.flush()
        sys.stderr.flush()
