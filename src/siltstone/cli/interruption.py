"""Ctrl-C and SIGTERM during maintenance: the first one cancels the run, the second one ends the program at once."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from siltstone.cli.output import remarks


@contextmanager
def cancelled_by_signals(cancel: Callable[[str], None]) -> Iterator[Callable[[], None]]:
    """Calls ``cancel`` with the name of the signal at the first signal, raises KeyboardInterrupt at the second.

    Yields a function that installs the handlers again: a caller uses it after Spark's driver has replaced them."""
    received: list[int] = []

    def handle(number: int, _frame: FrameType | None) -> None:
        if received:
            raise KeyboardInterrupt
        received.append(number)
        remarks().print("stopping: uncommitted work is discarded; press again to exit now", style="dim")
        cancel("Ctrl-C" if number == signal.SIGINT else "SIGTERM")

    def install() -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, handle)

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    install()
    try:
        yield install
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
