"""Writes from memory to the disk without the page cache of the operating system (O_DIRECT).

A byte that is written through the page cache takes a page of memory that was free. On a virtual machine the first use
of such a page costs ten times the copy into it. At the sync the disk gets all pages at once, and every other sync waits
for them. A direct write passes the disk one piece at a time and takes no page.

The disk wants addresses, positions and lengths that are multiples of DIRECT_UNIT_BYTES. Bytes are therefore copied into
a *slab*, memory that begins at a page, is used again and again, and is limited in bytes. ``object_store.folder`` writes
large objects in this way.
"""

import errno
import fcntl
import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

from siltstone.model.buffers import Buffers
from siltstone.model.limits import KIB

DIRECT_UNIT_BYTES = 4 * KIB
"""The sectors of disks have 512 bytes or 4 KiB, and pages of memory are at least as large."""

NOT_DIRECT = {errno.EINVAL, errno.EOPNOTSUPP}
"""The errors of a file system that has no direct writes, or that needs larger units."""


def set_direct(descriptor: int, is_direct: bool) -> bool:
    """Makes the following writes of the open file direct, or ordinary again. Returns False if the file system has no
    direct writes; the file is then as it was."""
    flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
    wanted = flags | os.O_DIRECT if is_direct else flags & ~os.O_DIRECT
    try:
        fcntl.fcntl(descriptor, fcntl.F_SETFL, wanted)
    except OSError as refused:
        if refused.errno not in NOT_DIRECT:
            raise
        return False
    return True


def new_slab(size_bytes: int) -> memoryview:
    """Allocates memory that begins at a page. The memory is returned to the operating system when nothing refers to it.
    A process that is forked has a copy of its own."""
    return memoryview(mmap.mmap(-1, size_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))


class Slabs:
    """A pool of slabs of one size. Safe for threads.

    At most ``kept_max`` are kept; a caller that finds none gets a new one, which is not kept if there are enough. So
    the memory is limited by the number of callers at a time, and falls back to ``kept_max`` slabs after them.
    """

    def __init__(self, slab_bytes: int, kept_max: int) -> None:
        self._slab_bytes = slab_bytes
        self._kept_max = kept_max
        self._kept: list[memoryview] = []
        self._lock = Lock()

    @property
    def kept_bytes(self) -> int:
        return len(self._kept) * self._slab_bytes

    @contextmanager
    def taken(self) -> Iterator[memoryview]:
        """Yields a slab that belongs to the block; its bytes are undefined."""
        with self._lock:
            slab = self._kept.pop() if self._kept else None
        if slab is None:
            slab = new_slab(self._slab_bytes)
        try:
            yield slab
        finally:
            with self._lock:
                if len(self._kept) < self._kept_max:
                    self._kept.append(slab)


def gathered(buffers: Buffers, slab: memoryview) -> Iterator[memoryview]:
    """Copies the buffers into the slab, one after another. Yields the slab each time it is full, and at last the part
    that the rest has filled, if there is a rest. The next step overwrites the slab."""
    slab_bytes, filled = len(slab), 0
    for buffer in buffers:
        size_bytes = len(buffer)
        # pyarrow's buffers are of signed bytes, which a slab refuses
        view, start = memoryview(buffer).cast("B"), 0
        if filled + size_bytes < slab_bytes:
            slab[filled : filled + size_bytes] = view
            filled += size_bytes
            continue
        while start < size_bytes:
            count = min(slab_bytes - filled, size_bytes - start)
            slab[filled : filled + count] = view[start : start + count]
            filled += count
            start += count
            if filled == slab_bytes:
                yield slab
                filled = 0
    if filled:
        yield slab[:filled]
