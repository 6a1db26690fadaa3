"""Ctrl-C and SIGTERM, which wait while records are being printed.

Between the writing of a record and the note that it was written, an exception would make the two differ. There the
first signal waits until both are done; a second one ends even a write that nobody reads.
"""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class HeldSignals:
    """Raises KeyboardInterrupt at Ctrl-C and SIGTERM, in ``held`` not before its end."""

    def __init__(self) -> None:
        self._is_held = False
        self._is_waiting = False
        self._signals = 0

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Handles the signals in this block; in a thread other than the main one, which gets none, it does nothing."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self._handle) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Lets the first signal wait until the end of the block, where KeyboardInterrupt is raised."""
        self._is_held = True
        try:
            yield
        finally:
            self._is_held = False
        if self._is_waiting:
            self._is_waiting = False
            raise KeyboardInterrupt

    def _handle(self, _number: int, _frame: FrameType | None) -> None:
        self._signals += 1
        if self._is_held and self._signals == 1:
            self._is_waiting = True
            return
        raise KeyboardInterrupt
