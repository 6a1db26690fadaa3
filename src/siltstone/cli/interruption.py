"""Ctrl-C and SIGTERM during maintenance: the first one cancels the run, the second one ends the program at once.
A thread that hangs, for instance in the metadata database, keeps the program no longer than STOP_MS_MAX (``deadline``).
"""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

import click

from siltstone.cli.deadline import ProcessDeadline, counted_signals
from siltstone.cli.failures import INTERRUPTED
from siltstone.cli.output import remark

STOP_MS_MAX = 10_000
"""A healthy Spark ends its jobs within a second after they were cancelled; what then still runs, hangs."""

SECOND_SIGNAL_MS_MAX = 1_000
"""How long the clean-up after KeyboardInterrupt may take."""

AFTER_FIRST = (
    STOP_MS_MAX,
    f"the process did not end within {STOP_MS_MAX} ms after the signal and was ended",
)
AFTER_SECOND = (SECOND_SIGNAL_MS_MAX, "a second signal ended the process; a sweep deletes what it left")


@contextmanager
def cancelled_by_signals(
    cancel: Callable[[str], None], *, is_silent: bool = False
) -> Iterator[Callable[[], None]]:
    """Calls ``cancel`` with the name of the signal at the first signal, raises KeyboardInterrupt at the second. Prints
    what the next signal does, unless ``is_silent``, because another process has said it.

    Yields a function that installs the handlers again: a caller uses it after Spark's driver has replaced them."""
    deadline = ProcessDeadline(lambda: INTERRUPTED)
    count = counted_signals()

    def handle(number: int, _frame: FrameType | None) -> None:
        arrived = count()
        if arrived == 0:
            return
        if arrived > 1:
            deadline.set(*AFTER_SECOND)
            raise KeyboardInterrupt
        deadline.set(*AFTER_FIRST)
        if not is_silent:
            remark("stopping: uncommitted work is discarded; press again to exit now", dim=True)
        cancel("Ctrl-C" if number == signal.SIGINT else "SIGTERM")

    def install() -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, handle)

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    install()
    try:
        with deadline.set_by_signals(AFTER_FIRST, AFTER_SECOND):
            yield install
    finally:
        context = click.get_current_context(silent=True)
        if context is None or not deadline.is_set:
            deadline.close()
        else:  # what the command closes after its run may hang as well
            context.find_root().call_on_close(deadline.close)
        for number, handler in before.items():
            signal.signal(number, handler)
