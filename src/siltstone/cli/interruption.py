"""Ctrl-C and SIGTERM during maintenance: the first one cancels the run, the second one ends the program at once.
A thread that hangs, for instance in the metadata database, keeps the program no longer than STOP_MS_MAX (``deadline``).
"""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

import click

from siltstone.cli.deadline import ProcessDeadline
from siltstone.cli.failures import INTERRUPTED
from siltstone.cli.output import remarks

STOP_MS_MAX = 10_000
"""A healthy Spark ends its jobs within a second after they were cancelled; what then still runs, hangs."""

SECOND_SIGNAL_MS_MAX = 1_000
"""How long the clean-up after KeyboardInterrupt may take."""


@contextmanager
def cancelled_by_signals(cancel: Callable[[str], None]) -> Iterator[Callable[[], None]]:
    """Calls ``cancel`` with the name of the signal at the first signal, raises KeyboardInterrupt at the second.

    Yields a function that installs the handlers again: a caller uses it after Spark's driver has replaced them."""
    deadline = ProcessDeadline(lambda: INTERRUPTED)

    def handle(number: int, _frame: FrameType | None) -> None:
        if deadline.is_set:
            deadline.set(
                SECOND_SIGNAL_MS_MAX, "a second signal ended the process; a sweep deletes what it left"
            )
            raise KeyboardInterrupt
        deadline.set(
            STOP_MS_MAX, f"the process did not end within {STOP_MS_MAX} ms after the signal and was ended"
        )
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
        context = click.get_current_context(silent=True)
        if context is None or not deadline.is_set:
            deadline.close()
        else:  # what the command closes after its run may hang as well
            context.find_root().call_on_close(deadline.close)
        for number, handler in before.items():
            signal.signal(number, handler)
