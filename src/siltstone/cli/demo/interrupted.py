"""Ctrl-C in the demo. A client's C code may drop the KeyboardInterrupt that a signal has raised in it, or end with an
error of its own; so the signal is noted, and whatever the demo raises or begins after it is Ctrl-C."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def noted_interrupts() -> Iterator[Callable[[], None]]:
    """Yields a function that raises KeyboardInterrupt if Ctrl-C has arrived in this block. An exception that ends the
    block after Ctrl-C becomes a KeyboardInterrupt. Only the main thread receives signals; in another one nothing is
    noted."""
    has_arrived = False

    def arrived(_number: int, _frame: FrameType | None) -> None:
        nonlocal has_arrived
        has_arrived = True
        raise KeyboardInterrupt

    def check() -> None:
        if has_arrived:
            raise KeyboardInterrupt

    try:
        before = signal.signal(signal.SIGINT, arrived)
    except ValueError:  # not the main thread
        yield check
        return
    try:
        yield check
        check()
    except Exception as failure:
        if has_arrived:
            raise KeyboardInterrupt from failure
        raise
    finally:
        signal.signal(signal.SIGINT, before)
