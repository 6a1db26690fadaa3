"""Measures the first use of memory on this machine. A virtual machine may give pages to its guest at the first
touch, and take them back when they are free: then every byte that any broker receives, keeps or writes to a file
costs that, too."""

import mmap
import time

from siltstone.model.limits import GIB, MIB

PIECE = 256 * MIB


def first_use_seconds_per_gb(size_bytes: int = 2 * GIB) -> float:
    """Returns CPU seconds."""
    zeros = bytes(PIECE)
    begin = time.process_time()
    pieces = []
    for _ in range(size_bytes // PIECE):
        pieces.append(mmap.mmap(-1, PIECE))
        pieces[-1].write(zeros)
    seconds = time.process_time() - begin
    for piece in pieces:
        piece.close()
    return seconds / (size_bytes / 1e9)
