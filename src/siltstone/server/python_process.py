"""Tunes the Python process of a node: its event loop, its garbage collector and its memory.

The event loop is uvloop's where it is installed, otherwise asyncio's own. Both work; uvloop takes less CPU time for
small requests: docs/decisions/0007-network.md.

The garbage collector searches for reference cycles, which a broker hardly ever makes; but every batch in the tail
cache and every request that waits for the disk is a handful of objects, which live for seconds. With its default
thresholds CPython scans all of them again and again. Measured with 0.4 to 0.9 GB of batches of 16 KiB, this takes 20
to 40 % of the broker's CPU time, with pauses of 0.2 to 0.6 s; with the thresholds below, 3 to 10 %, with pauses of
some tens of ms.

A reader that catches up takes and frees half a MiB a thousand times a second, in nine threads, so freed memory is kept:
``runtime.freed_memory``.

uvloop takes 256 KiB for each connection with TLS, and an idle connection uses a page or two. From a heap with freed
memory such a piece is dirty and counts whole; so while a connection is made, large pieces are mappings of their own.
"""

import asyncio
import gc
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from siltstone.model.limits import KIB, MIB
from siltstone.runtime.freed_memory import (
    M_MMAP_THRESHOLD,
    TAKEN_APART_BYTES_MIN,
    Mallopt,
    keep_freed_memory,
)

try:
    from uvloop import new_event_loop
except ImportError:  # Windows, PyPy
    from asyncio import new_event_loop  # type: ignore[assignment]

T = TypeVar("T")


def run(main: Coroutine[Any, Any, T], heap: "KeptHeap | None" = None) -> T:
    """Runs a coroutine like ``asyncio.run``, on uvloop where it is installed. With a ``heap``, connections with TLS
    take their buffers beside it."""

    def new_loop() -> asyncio.AbstractEventLoop:
        loop = new_event_loop()
        if heap is not None:
            spared = heap.spared(loop.connect_accepted_socket)
            loop.connect_accepted_socket = spared  # type: ignore[method-assign]
        return loop

    with asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(main)


YOUNG_OBJECTS_MAX = 20_000
"""A collection of the youngest generation begins when this many more objects were created than freed (CPython: 700 or
2,000, depending on the version). At 1,000 batches a second that takes some seconds, in which most of the objects are
freed anyway; the collection takes about 10 ms."""

YOUNG_COLLECTIONS_MAX = 10
"""The number of collections of the youngest generation before the middle generation is collected, as in CPython."""

MIDDLE_COLLECTIONS_MAX = 100
"""The number of collections of the middle generation before all objects are scanned (CPython: 10). That is the longest
pause, and it grows with the tail cache."""


@contextmanager
def tuned_garbage_collection() -> Iterator[None]:
    """Sets the garbage collector's thresholds for a process that only serves; enter it when the node is ready.

    Objects that exist by then are exempt from collection (``gc.freeze``), without a collection before: that would
    free 800 of 39,000 objects and delay the first requests by 50 ms. Leaving the context restores the previous
    thresholds.
    """
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS_MAX, YOUNG_COLLECTIONS_MAX, MIDDLE_COLLECTIONS_MAX)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


KEPT_BYTES_MAX = 128 * MIB
"""How much free memory is kept at the end of the heap: twice what one reader has in flight and in the block cache."""

BUFFER_BYTES_MIN = 128 * KIB
"""While a connection is made, pieces from this size on are mappings of their own: half of uvloop's buffer."""

Connect = Callable[..., Coroutine[Any, Any, Any]]


class KeptHeap:
    """The heap of a process that keeps freed memory. ``mallopt`` is that of glibc."""

    def __init__(self, mallopt: Mallopt) -> None:
        self._mallopt = mallopt
        self._is_spared = False

    def spared(self, connect: Connect) -> Connect:
        """Returns ``loop.connect_accepted_socket`` that takes no large piece from the heap for TLS. The event loop
        takes its buffer in the first step, before it waits for anything, so the next turn of the loop is late enough to
        end that. A block that is read meanwhile is a mapping, too, which costs its pages and nothing else."""

        async def connect_sparing(*arguments: Any, **words: Any) -> Any:
            if words.get("ssl") is not None and not self._is_spared:
                self._is_spared = True
                self._mallopt(M_MMAP_THRESHOLD, BUFFER_BYTES_MIN)
                asyncio.get_running_loop().call_soon(self._use)
            return await connect(*arguments, **words)

        return connect_sparing

    def _use(self) -> None:
        self._is_spared = False
        self._mallopt(M_MMAP_THRESHOLD, TAKEN_APART_BYTES_MIN)


def kept_heap() -> KeptHeap | None:
    """Has this process keep the memory that it frees. Returns None where that is not possible."""
    mallopt = keep_freed_memory(KEPT_BYTES_MAX)
    return None if mallopt is None else KeptHeap(mallopt)
