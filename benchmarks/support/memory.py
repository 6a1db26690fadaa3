"""Touching the memory of the machine once, before anything is measured.

A virtual machine gives a page to its guest at the first touch, page cache included, and that costs some CPU seconds a
GB: whoever is measured first pays for all.
"""

import mmap

from siltstone.model.limits import GIB, MIB

BYTES = 15 * GIB
PIECE = 256 * MIB


def touch(size_bytes: int = BYTES) -> None:
    """As much of it as is available."""
    kept: list[mmap.mmap] = []
    zeros = bytes(PIECE)
    for _ in range(min(size_bytes, available_bytes()) // PIECE):
        piece = mmap.mmap(-1, PIECE)
        piece.write(zeros)
        kept.append(piece)
    for piece in kept:
        piece.close()


def available_bytes() -> int:
    """Less a GiB for everybody else. Raises OSError where there is no /proc."""
    with open("/proc/meminfo", encoding="ascii") as lines:
        kib = next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable:"))
    return max(0, kib * 1024 - GIB)
