"""One segment file: made with its space reserved, written at its end, synced.

The space is reserved because a file that grows costs a journal commit with every sync; a file that was written
before costs least of all, so trimmed segments are used again (``segment_directory``).
"""

import os
from pathlib import Path

from siltstone.model.buffers import Buffers
from siltstone.object_formats.wal_segment import SegmentHeader, encode_segment_header
from siltstone.runtime.durable_files import write_at


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
        self._at += write_at(self._descriptor, buffers, self._at)

    def sync(self) -> None:
        os.fdatasync(self._descriptor)

    def close(self) -> None:
        os.close(self._descriptor)
