"""Ctrl-C and SIGTERM during a run of maintenance: the first one cancels, the second one ends the program at once."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from siltstone.cli.output import remarks


@contextmanager
def cancelled_by_signals(cancel: Callable[[str], None]) -> Iterator[Callable[[], None]]:
    """Calls ``cancel`` at the first signal. Yields a function that installs the handlers again, for after other code,
    such as Spark's driver, has replaced them."""
    heard: list[int] = []

    def hear(number: int, _frame: FrameType | None) -> None:
        if heard:
            raise KeyboardInterrupt
        heard.append(number)
        remarks().print("stopping: what is not committed is given up; once more to end at once", style="dim")
        cancel("Ctrl-C" if number == signal.SIGINT else "SIGTERM")

    def listen() -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, hear)

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    listen()
    try:
        yield listen
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
