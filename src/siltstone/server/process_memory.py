"""Has the C library keep the memory that a node frees, for its next use.

By default glibc gives freed memory back to the operating system as soon as a MiB or two of it lie together, and each
thread has a heap of its own, which other threads cannot use. A reader that catches up takes and frees half a MiB a
thousand times a second, in nine threads. On a virtual machine the first touch of a page costs several times the copy
into it: docs/decisions/0040-freed-memory.md.
"""

import ctypes
import os

from siltstone.model.limits import MIB

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8
"""The numbers of the options of ``mallopt``, from malloc.h."""

KEPT_BYTES_MAX = 128 * MIB
"""How much free memory is kept at the end of the heap: twice what one reader has in flight and in the block cache."""

TAKEN_APART_BYTES_MIN = 32 * MIB
"""Larger pieces are not in the heap, and go back to the operating system when they are freed."""


def keep_freed_memory() -> bool:
    """Changes the whole process, so only a program of our own calls this, before it starts threads. Returns whether
    memory is kept: not with another C library than glibc, nor if the environment has settings of glibc's own
    (``MALLOC_…``), which stay."""
    if any(name.startswith("MALLOC_") for name in os.environ):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    options = {
        M_ARENA_MAX: 1,
        M_MMAP_THRESHOLD: TAKEN_APART_BYTES_MIN,
        M_TRIM_THRESHOLD: KEPT_BYTES_MAX,
    }
    taken: int = sum(mallopt(option, value) for option, value in options.items())
    return taken == len(options)
