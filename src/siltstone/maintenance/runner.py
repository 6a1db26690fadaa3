"""The port between maintenance and whatever runs its tasks: threads here (tests, tiny installs), Spark in
``siltstone.spark``."""

from collections.abc import Callable, Sequence
from typing import Protocol

from siltstone.model.errors import Unavailable

Task = Callable[[bytes], bytes]
"""A module-level function of this package: an encoded unit in, an encoded result out. It may run in another
process, more than once, and at the same time as another attempt of itself: it writes the same bytes to the same
places each time."""


class RunFailed(Unavailable):
    """A unit failed for good, all retries included; the text holds its cause in one line. What other units wrote
    may be there or not, so the job is planned anew or given up."""


class Runner(Protocol):
    def run(
        self, task: Task, units: Sequence[bytes], on_progress: Callable[[int, int], None] | None = None
    ) -> list[bytes]:
        """The results, in the order of the units. ``on_progress`` hears (tasks done, tasks in all) from time to
        time. Raises RunFailed when a unit failed for good; nothing may be assumed of the others then."""
        ...

    def close(self) -> None: ...


def failure_in_one_line(failure: BaseException) -> str:
    """What a runner says of a task that failed: the kind of the failure and its text, for a terminal and a log."""
    return f"{type(failure).__name__}: {' '.join(str(failure).split())}"
