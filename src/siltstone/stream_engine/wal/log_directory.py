"""The directory of a node's segments: names, the lock, using trimmed segments again, scanning.

    LOCK                            held while a process has the log open
    identity.json                   whose log it is, and which life's (``object_formats.identity``)
    <first position, 20 digits>.wal a segment of the log
    <number>.spare                  a trimmed segment of this life of the log, to be used again

Spares hold stale records. They are told from live ones by position, and positions only grow within one life, so
spares of a former life are deleted before the first segment is made.

One segment file: made with its space reserved, written at its end, synced.

The space is reserved because a file that grows costs a journal commit with every sync; a file that was written
before costs least of all, so trimmed segments are used again (``segment_directory``).
"""

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from siltstone.model.buffers import Buffers
from siltstone.object_formats.identity import (
    DamagedIdentity,
    LogIdentity,
    decode_log_identity,
    encode_log_identity,
)
from siltstone.object_formats.log_file import (
    SEGMENT_HEADER_BYTES,
    DamagedWal,
    LogFileHeader,
    WalRecord,
    decode_log_file_header,
    decode_records,
    encode_log_file_header,
)
from siltstone.runtime.files import replace_file, sync_directory, write_at
from siltstone.stream_engine.wal.port import WalInUse, WalOfAnotherNode


class LogFile:
    def __init__(self, path: Path, header: LogFileHeader, size_bytes: int) -> None:
        """``path`` may hold a trimmed segment, which is overwritten."""
        self.path = path
        self.first_position = header.first_position
        self.size_bytes = size_bytes
        self._at = 0
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            os.posix_fallocate(self._descriptor, 0, size_bytes)
            self.write([encode_log_file_header(header)])
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


IDENTITY_FILE = "identity.json"
SPARES_MAX = 4
"""Trimmed segments kept for use again: what one committed cache block of default size frees, and some."""


class LogDirectory:
    def __init__(self, directory: Path, node_id: int) -> None:
        """Raises WalInUse."""
        self._directory = directory
        self._node_id = node_id
        self._spares: list[Path] = []
        self._spare_number = 0
        directory.mkdir(parents=True, exist_ok=True)
        self._lock = _locked(directory / "LOCK")

    # -- whose it is -------------------------------------------------------------------------------------

    def identity(self) -> LogIdentity | None:
        """Raises DamagedIdentity."""
        path = self._directory / IDENTITY_FILE
        try:
            return decode_log_identity(path.read_bytes())
        except FileNotFoundError:
            return None
        except DamagedIdentity as damage:
            raise DamagedIdentity(f"{path}: {damage}; restore it, or delete it if you are sure") from damage

    def is_empty(self) -> bool:
        return not self._segment_paths()

    def claim(self, identity: LogIdentity) -> None:
        """The file is there whole, as it was before, or as it is to be."""
        replace_file(self._directory / IDENTITY_FILE, encode_log_identity(identity))

    # -- a former life -----------------------------------------------------------------------------------

    def recover(self) -> Iterator[list[WalRecord]]:
        """The records of each segment, in order. Raises DamagedWal, WalOfAnotherNode."""
        expected: int | None = None
        torn_at: int | None = None
        for path in self._segment_paths():
            data = path.read_bytes()
            header = self._own_header(path, data)
            if header is None:
                continue
            if expected is not None and header.first_position != expected and torn_at is None:
                torn_at = expected
            records = list(_records_of(data, header))
            if torn_at is not None:
                _refuse_confirmed_beyond(torn_at, records)
                continue
            expected = records[-1].end_position if records else header.first_position
            yield records

    def clear(self) -> None:
        """Delete all segments and spares of a former life."""
        for path in [*self._segment_paths(), *self._directory.glob("*.spare")]:
            path.unlink()
        sync_directory(self._directory)

    def _own_header(self, path: Path, data: bytes) -> LogFileHeader | None:
        """None for a segment that was being made when the process ended."""
        if not any(data[:SEGMENT_HEADER_BYTES]):
            return None
        try:
            header = decode_log_file_header(data)
        except DamagedWal as damage:
            raise DamagedWal(f"{path}: {damage}") from damage
        if header.first_position > _named_position(path):
            raise DamagedWal(f"{path} is the segment at {header.first_position}: give it back its name")
        if header.first_position < _named_position(path):
            return None  # a spare that was to become this segment
        if header.node_id != self._node_id:
            raise WalOfAnotherNode(
                f"{path} belongs to node {header.node_id}, this is node {self._node_id}: "
                "give each node its own write-ahead log folder"
            )
        return header

    def _segment_paths(self) -> list[Path]:
        return sorted(self._directory.glob("*.wal"))

    # -- this life ---------------------------------------------------------------------------------------

    def new_segment(self, node_epoch: int, first_position: int, size_bytes: int) -> LogFile:
        path = self._directory / f"{first_position:020d}.wal"
        if self._spares and self._spares[-1].stat().st_size >= size_bytes:
            self._spares.pop().rename(path)
        header = LogFileHeader(self._node_id, node_epoch, first_position)
        segment = LogFile(path, header, max(size_bytes, SEGMENT_HEADER_BYTES))
        sync_directory(self._directory)
        return segment

    def retire(self, segment: LogFile) -> None:
        """The segment is trimmed: keep its file for use again, or delete it."""
        if len(self._spares) >= SPARES_MAX:
            segment.path.unlink()
            return
        self._spare_number += 1
        spare = self._directory / f"{self._spare_number}.spare"
        segment.path.rename(spare)
        self._spares.append(spare)

    def close(self) -> None:
        os.close(self._lock)


def _named_position(path: Path) -> int:
    if not (path.stem.isascii() and path.stem.isdigit()):
        raise DamagedWal(f"{path} is no segment of a write-ahead log: move it away")
    return int(path.stem)


def _records_of(data: bytes, header: LogFileHeader) -> Iterator[WalRecord]:
    return decode_records(memoryview(data)[SEGMENT_HEADER_BYTES:], header.first_position)


def _refuse_confirmed_beyond(torn_at: int, records: list[WalRecord]) -> None:
    """A tear is a tear only if nothing later says that the log was durable beyond it."""
    if any(record.confirmed_position > torn_at for record in records):
        raise DamagedWal(f"acknowledged records after log position {torn_at} are missing")


def _locked(path: Path) -> int:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        raise WalInUse(f"{path.parent} is in use by another process: stop it first") from error
    return descriptor
