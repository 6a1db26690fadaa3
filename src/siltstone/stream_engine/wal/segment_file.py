"""One segment file: made with its space reserved, written at its end, synced.

The space is reserved because a file that grows costs a journal commit with every sync; a file that was written
before costs least of all, so trimmed segments are used again (``segment_directory``).
"""

import os
from pathlib import Path

from siltstone.model.buffers import Buffer, Buffers, total_bytes
from siltstone.object_formats.wal_segment import SegmentHeader, encode_segment_header

IOV_MAX = 1024
"""Buffers in one vectored write: the limit of Linux."""


class SegmentFile:
    def __init__(self, path: Path, header: SegmentHeader, size_bytes: int) -> None:
        """``path`` may hold a trimmed segment, which is overwritten."""
        self.path = path
        self.first_position = header.first_position
        self.size_bytes = size_bytes
        self._at = 0
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            os.posix_fallocate(self._descriptor, 0, size_bytes)
            self.write([encode_segment_header(header)])
            self.sync()  # before any record: else a power failure may leave new records under an old header
        except OSError:
            self.close()
            raise

    def has_room_for(self, record_bytes: int) -> bool:
        return self._at + record_bytes <= self.size_bytes

    def write(self, buffers: Buffers) -> None:
        for first in range(0, len(buffers), IOV_MAX):
            self._write_fully(buffers[first : first + IOV_MAX])

    def sync(self) -> None:
        os.fdatasync(self._descriptor)

    def close(self) -> None:
        os.close(self._descriptor)

    def _write_fully(self, buffers: Buffers) -> None:
        wanted = total_bytes(buffers)
        written = os.pwritev(self._descriptor, buffers, self._at)
        self._at += written
        if written < wanted:
            self._write_fully(_remainder(buffers, written))


def _remainder(buffers: Buffers, written: int) -> list[Buffer]:
    """What is left of a gather list after its first ``written`` bytes."""
    rest: list[Buffer] = []
    for buffer in buffers:
        if written >= len(buffer):
            written -= len(buffer)
        else:
            rest.append(memoryview(buffer)[written:])
            written = 0
    return rest


def sync_directory(directory: Path) -> None:
    """Make names in the directory durable."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
