"""Has glibc keep the memory that a process frees, for the next pieces of that size.

By default glibc gives freed memory back to the operating system as soon as a MiB or two of it lie together, and each
thread has a heap of its own, which other threads cannot use. A process that reads blocks takes and frees as many MiB a
second as it reads. On a virtual machine the first touch of a page costs several times the copy into it:
docs/decisions/0040-freed-memory.md.
"""

import ctypes
import os
from collections.abc import Callable
from typing import TypeAlias

from siltstone.model.limits import MIB

Mallopt: TypeAlias = Callable[[int, int], int]

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8
"""The numbers of the options of ``mallopt``, from malloc.h."""

TAKEN_APART_BYTES_MIN = 32 * MIB
"""Larger pieces are not in the heap, and go back to the operating system when they are freed."""


def keep_freed_memory(kept_bytes_max: int) -> Mallopt | None:
    """Has glibc keep up to ``kept_bytes_max`` of free memory at the end of one heap for all threads. It changes the
    whole process, so only a program of our own calls it, or a worker that Spark has started for a task, before it
    starts threads. Returns ``mallopt``; None, and changes nothing, if the environment has settings of glibc
    (``MALLOC_…``), or the C library is another one."""
    if any(name.startswith("MALLOC_") for name in os.environ):
        return None
    mallopt: Mallopt | None = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return None
    options = {
        M_ARENA_MAX: 1,
        M_MMAP_THRESHOLD: TAKEN_APART_BYTES_MIN,
        M_TRIM_THRESHOLD: kept_bytes_max,
    }
    taken = sum(mallopt(option, value) for option, value in options.items())
    return mallopt if taken == len(options) else None
