"""What happened in each turn of the event loop, as lines: two runs of one seed are the same history only if all of it is
the same, in every process.

What differs between two processes is the order of sets: that of strings by PYTHONHASHSEED, that of futures and tasks by
their addresses. ``TracedTurns`` moves the addresses on purpose.
"""

import asyncio
from asyncio import events
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import Any, TextIO

HELD_MAX = 300


@contextmanager
def traced_turns(trace: TextIO, noise: int) -> Iterator[None]:
    """Writes a line for each callback that an event loop runs in the block. ``noise``: the seed of what is allocated
    between two callbacks, so that nothing stands at the same address in two runs; it changes nothing else."""
    run = events.Handle._run
    chance, held = Random(noise), deque[Any](maxlen=HELD_MAX)

    def traced(handle: events.Handle) -> None:
        trace.write(_named(handle) + "\n")
        held.append(bytearray(chance.randrange(16, 512)))
        held.append(asyncio.get_running_loop().create_future() if chance.random() < 0.5 else None)
        run(handle)

    events.Handle._run = traced  # type: ignore[method-assign]
    try:
        yield
    finally:
        events.Handle._run = run  # type: ignore[method-assign]


def _named(handle: Any) -> str:
    """The function that is called; of a task, each coroutine that it waits in, with its line."""
    task = getattr(handle._callback, "__self__", None)
    if not isinstance(task, asyncio.Task):
        return getattr(handle._callback, "__qualname__", type(handle._callback).__name__)
    names: list[str] = []
    waits: Any = task.get_coro()
    while (frame := getattr(waits, "cr_frame", None)) is not None:
        names.append(f"{waits.__qualname__}:{frame.f_lineno}")
        waits = waits.cr_await
    return " > ".join(names[-3:])
