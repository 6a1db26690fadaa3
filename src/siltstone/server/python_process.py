"""The event loop a node runs on: uvloop where there is one, asyncio's own elsewhere.

Everything works on both; uvloop needs less of the processor for small requests: docs/decisions/0007-network.md.

Python's collector of cycles, set for a broker: few cycles, many objects that live for seconds.

Every batch in the tail cache and every request that waits for its disk is a handful of objects. By its defaults CPython
looks at all of them again and again, for cycles that are hardly ever there. Measured with batches of 16 KiB, 0.4 to 0.9
GB of them: 20 to 40 % of the broker's processor time, and pauses of 0.2 to 0.6 s; with the numbers below 3 to 10 %, and
pauses of some tens of ms.
"""

import asyncio
import gc
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

try:
    from uvloop import new_event_loop
except ImportError:  # Windows, PyPy
    from asyncio import new_event_loop  # type: ignore[assignment]

T = TypeVar("T")


def run(main: Coroutine[Any, Any, T]) -> T:
    """As ``asyncio.run``."""
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(main)


YOUNG_OBJECTS_MAX = 20_000
"""A collection of the youngest begins when so many more were made than have gone (CPython: 700 or 2,000, by version).
At 1,000 batches a second that is some seconds, after which most have gone by themselves; it takes about 10 ms."""

YOUNG_COLLECTIONS_MAX = 10
"""Collections of the youngest before those that survived them are looked at once more, as in CPython."""

MIDDLE_COLLECTIONS_MAX = 100
"""Collections of these before everything is looked at (CPython: 10): the longest pause, and the one that grows with the
tail cache."""


@contextmanager
def tuned_garbage_collection() -> Iterator[None]:
    """For a process that does nothing else than serve, entered when it is ready: what was loaded until then stays, and
    is never looked at again. Nor is it now: of 39,000 objects 800 could go, and the first requests would wait 50 ms for
    it. Afterwards all is as it was."""
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS_MAX, YOUNG_COLLECTIONS_MAX, MIDDLE_COLLECTIONS_MAX)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
