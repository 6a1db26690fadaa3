"""The directory of a node's write-ahead log: its names, the lock, one log file, reuse of log files, reading them back.

    LOCK                            locked while a process has the log open
    identity.json                   the store, node and node epoch of the log (``object_formats.identity``)
    <first position, 20 digits>.wal a log file
    <number>.spare                  a trimmed log file, to be used again

A spare holds stale records. They are distinguished from live records by their log position. Positions begin at 0 again
with a start of the node that has committed everything, and continue with any other (``keep``); the spares of an earlier
start are deleted before the first log file is created.

The identity names the oldest and the newest log file. A new one is named there after its header is durable and before
its first record is written, and the oldest one is named before an older one is retired. So a file that is missing is
noticed, also the newest; files that are not named hold no record, or only committed ones. All files before the newest
were synced whole before it was named, so no crash tears them.

The space of a log file is reserved when it is created, because a file that grows costs a journal commit with every
sync. Overwriting a file that was written before is the cheapest, so trimmed log files are used again.
``object_formats.log_file`` has the bytes of a log file.
"""

import fcntl
import os
from collections.abc import Iterator
from errno import ENOSPC
from pathlib import Path
from threading import RLock

from msgspec.structs import replace

from siltstone.model.buffers import Buffers
from siltstone.model.limits import KIB
from siltstone.object_formats.identity import (
    DamagedIdentity,
    IdentityOfNewerVersion,
    LogIdentity,
    decode_log_identity,
    encode_log_identity,
)
from siltstone.object_formats.log_file import (
    LOG_FILE_HEADER_BYTES,
    DamagedWal,
    LogFileHeader,
    WalRecord,
    damage_at,
    decode_log_file_header,
    decode_records,
    encode_log_file_header,
    newest_record,
)
from siltstone.runtime.files import (
    PRIVATE_FILE_MODE,
    PRIVATE_FOLDER_MODE,
    opened,
    replace_file,
    sync_directory,
    take_from_others,
    write_at,
)
from siltstone.stream_engine.wal.port import WalInUse, WalOfAnotherNode

IDENTITY_FILE = "identity.json"
SPARES_MAX = 4
"""The most trimmed log files kept to be used again: as many as the commit of a cache block of default size frees, and
some more."""

NAMES_BYTES = 64 * KIB
"""A spare that is reserved is larger by so much than the log file that is made of it. On a full disk the rest is given
back, so that the new file can be named in the identity."""

NO_FILE = -1
CLOSED = -1


class LogNotSynced(OSError):
    """A sync failed. What was written before may be lost, whatever a later sync says, so the log ends whatever the
    error number is."""


class LogFile:
    """One log file, open for writing at its end until it is full."""

    def __init__(self, path: Path, header: LogFileHeader) -> None:
        """Reserves the space and writes the header. A trimmed log file at ``path`` is overwritten."""
        self.path = path
        self.first_position = header.first_position
        self.size_bytes = size_bytes = header.reserved_bytes
        self._at = 0
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE_FILE_MODE)
        try:
            if (found_bytes := os.fstat(self._descriptor).st_size) > size_bytes:
                os.ftruncate(self._descriptor, size_bytes)
            elif found_bytes < size_bytes:
                os.posix_fallocate(self._descriptor, 0, size_bytes)
                self.sync()  # before the header: else a power failure may leave a file shorter than its header says
            self.write([encode_log_file_header(header)])
            self.sync()  # before the first record: else a power failure may leave new records after an old header
        except OSError:
            self.close()
            raise

    def has_room_for(self, record_bytes: int) -> bool:
        return self._at + record_bytes <= self.size_bytes

    def write(self, buffers: Buffers) -> None:
        self._at += write_at(self._descriptor, buffers, self._at)

    def sync(self) -> None:
        """Does nothing when the file is closed: it was synced before. Raises LogNotSynced."""
        if self._descriptor != CLOSED:
            try:
                os.fdatasync(self._descriptor)
            except OSError as trouble:
                raise LogNotSynced(trouble.errno, trouble.strerror, str(self.path)) from trouble

    def close(self) -> None:
        """May be called again."""
        descriptor, self._descriptor = self._descriptor, CLOSED
        if descriptor != CLOSED:
            os.close(descriptor)


class KeptLogFile:
    """A log file of an earlier start whose records are not committed yet. It is only deleted, when it is trimmed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.first_position = _named_position(path)

    def sync(self) -> None:
        """Does nothing: ``LogDirectory.keep`` has synced the file."""

    def close(self) -> None:
        return None


class LogDirectory:
    def __init__(self, directory: Path, node_id: int) -> None:
        """Creates the directory if it does not exist, and locks it. Only the user that owns its files may read them.
        Raises WalInUse."""
        self._directory = directory
        self._node_id = node_id
        self._spares: list[Path] = []
        self._spare_number = 0
        self._identity: LogIdentity | None = None
        self._files: tuple[int, ...] | None = None
        self._is_identity_read = False
        self._naming = RLock()  # trims and new files may be on their way in two threads
        directory.mkdir(PRIVATE_FOLDER_MODE, parents=True, exist_ok=True)
        self._lock = _locked(directory / "LOCK")
        for path in (
            directory / "LOCK",
            directory / IDENTITY_FILE,
            *directory.glob("*.wal"),
            *directory.glob("*.spare"),
        ):
            take_from_others(path)

    # -- identity ----------------------------------------------------------------------------------------

    def identity(self) -> LogIdentity | None:
        """Returns the identity of the log; None if no node has claimed it. Raises DamagedIdentity."""
        path = self._directory / IDENTITY_FILE
        try:
            identity = decode_log_identity(path.read_bytes())
        except FileNotFoundError:
            return None
        except IdentityOfNewerVersion as newer:
            raise IdentityOfNewerVersion(f"{path}: {newer}") from newer
        except DamagedIdentity as damage:
            raise DamagedIdentity(
                f"{path}: {damage}; restore it, or delete it if you are sure that the log in this folder is this node's"
            ) from damage
        return identity

    def is_empty(self) -> bool:
        return not self._paths()

    def claim(self, identity: LogIdentity) -> None:
        """Writes the identity durably, with the log files that the folder has now. A crash leaves the old file or the
        new one, never a part of one."""
        with self._naming:
            files = self._named_files()
            if files is None and self.is_empty():
                files = ()
            self._write(replace(identity, files=files))

    def _named_files(self) -> tuple[int, ...] | None:
        """Returns the oldest and the newest log file by the identity; None when it does not say. Raises
        DamagedIdentity."""
        if not self._is_identity_read:
            self._identity = self.identity()
            self._files = None if self._identity is None else self._identity.files
            self._is_identity_read = True
        return self._files

    def _name_files(self, *files: int) -> None:
        """Records durably which log files there are. A log that nobody has claimed yet is named by its claim."""
        if self._named_files() == files:
            return
        if self._identity is None:
            self._files = files
        else:
            self._write(replace(self._identity, files=files))

    def _write(self, identity: LogIdentity) -> None:
        """On a full disk a spare makes room: trimming, which frees space, needs a block itself first."""
        path, content = self._directory / IDENTITY_FILE, encode_log_identity(identity)
        try:
            replace_file(path, content)
        except OSError as trouble:
            if trouble.errno != ENOSPC or not (spares := list(self._directory.glob("*.spare"))):
                raise
            for spare in spares:
                spare.unlink()
            self._spares.clear()
            replace_file(path, content)
        self._identity, self._files, self._is_identity_read = identity, identity.files, True

    # -- an earlier start --------------------------------------------------------------------------------

    def recover(self) -> Iterator[list[WalRecord]]:
        """Yields the records of each log file, in order, up to a tear. Raises DamagedWal, WalOfAnotherNode."""
        oldest, newest = self._named_files() or (0, NO_FILE)
        self._refuse_missing()
        expected: int | None = None
        torn_at: int | None = None
        for path in self._paths():
            if _named_position(path) < oldest:
                continue  # it was to be retired: its records are committed
            data = path.read_bytes()
            header = self._own_header(path, data)
            if _named_position(path) <= newest:
                self._refuse_gap(path, header, expected)
            if header is None:
                continue
            if expected is not None and header.first_position != expected and torn_at is None:
                torn_at = expected
            records = _records_of(path, data, header)
            if torn_at is not None:
                _refuse_confirmed_beyond(torn_at, records)
                continue
            expected = records[-1].end_position if records else header.first_position
            yield records

    def newest_record(self) -> WalRecord | None:
        """Returns the last record before a tear in the newest log file that has one; None when there is none, or the
        file is damaged."""
        for path in reversed(self._paths()):
            try:
                data = path.read_bytes()
                header = self._own_header(path, data)
                records = memoryview(data)[LOG_FILE_HEADER_BYTES:]
                newest = None if header is None else newest_record(records, header.first_position)
            except DamagedWal:
                return None
            if newest is not None:
                return newest
        return None

    def _refuse_missing(self) -> None:
        for path in self._paths():
            _named_position(path)  # one that was renamed is named, rather than the one that is missed for it
        for position in self._named_files() or ():
            if not (path := self._path(position)).exists():
                raise DamagedWal(f"{path} of the write-ahead log is missing: restore the file")

    def _refuse_gap(self, path: Path, header: LogFileHeader | None, expected: int | None) -> None:
        """Raises DamagedWal when a log file up to the newest one does not follow the one before it."""
        if header is None:
            raise DamagedWal(f"{path} of the write-ahead log has lost its header: restore the file")
        if expected in (None, header.first_position):
            return
        missing = self._path(expected)
        what = "the end of the file before it is damaged" if missing.exists() else f"{missing} is missing"
        raise DamagedWal(
            f"{path} of the write-ahead log does not follow the file before it, which ends at log position {expected}: "
            f"{what}; restore the file"
        )

    def clear(self) -> None:
        """Deletes all log files and spares of earlier starts."""
        self._name_files()
        for path in [*self._paths(), *self._directory.glob("*.spare")]:
            path.unlink()
        sync_directory(self._directory)

    def keep(self, end_position: int) -> list[KeptLogFile]:
        """Keeps the log files of an earlier start up to a position, the end of the last record that ``recover`` has
        yielded, and deletes the others and the spares. What was read is synced first: the next records will be
        acknowledged as if it were durable."""
        oldest, _ = self._named_files() or (0, NO_FILE)
        kept, dropped = [], []
        for path in self._paths():
            if not oldest <= _named_position(path) < end_position:
                dropped.append(path)
                continue
            with path.open("rb") as file:
                os.fsync(file.fileno())
            kept.append(KeptLogFile(path))
        self._name_files(kept[0].first_position, kept[-1].first_position)
        for path in [*dropped, *self._directory.glob("*.spare")]:
            path.unlink()
        sync_directory(self._directory)
        return kept

    def _own_header(self, path: Path, data: bytes) -> LogFileHeader | None:
        """Returns the header of a log file; None for one that was being created when the process ended. Raises
        DamagedWal, WalOfAnotherNode."""
        if not any(data[:LOG_FILE_HEADER_BYTES]):
            return None
        try:
            header = decode_log_file_header(data)
        except DamagedWal as damage:
            raise damage_at(str(path), damage, "file") from damage
        if header.first_position > _named_position(path):
            raise DamagedWal(
                f"{path} begins at log position {header.first_position}: it was renamed; give it its old name, "
                f"{header.first_position:020d}.wal"
            )
        if header.first_position < _named_position(path):
            return None  # a spare that was being made into this log file
        if header.node_id != self._node_id:
            raise WalOfAnotherNode(
                f"{path} belongs to node {header.node_id}, this is node {self._node_id}: "
                "give each node its own write-ahead log folder"
            )
        return header

    def _paths(self) -> list[Path]:
        return sorted(self._directory.glob("*.wal"))

    def _path(self, first_position: int) -> Path:
        return self._directory / f"{first_position:020d}.wal"

    # -- this start --------------------------------------------------------------------------------------

    def new_file(self, node_epoch: int, first_position: int, size_bytes: int) -> LogFile:
        """Returns a new log file, which the identity names, so that its records are missed when it is gone."""
        path = self._path(first_position)
        if self._spares and self._spares[-1].stat().st_size >= size_bytes:
            self._spares.pop().rename(path)
        reserved_bytes = max(size_bytes, LOG_FILE_HEADER_BYTES)
        segment = LogFile(path, LogFileHeader(self._node_id, node_epoch, first_position, reserved_bytes))
        try:
            sync_directory(self._directory)
            with self._naming:
                oldest_position, *_ = self._named_files() or (first_position,)
                self._name_files(oldest_position, first_position)
        except OSError:
            segment.close()
            raise
        return segment

    def reserve(self, size_bytes: int) -> None:
        """Makes sure that there is a spare that is large enough for a log file of this size. Raises OSError; then
        nothing is left of the try."""
        if self._spares and self._spares[-1].stat().st_size >= size_bytes:
            return
        self._spare_number += 1
        spare = self._directory / f"{self._spare_number}.spare"
        try:
            with opened(spare, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE_FILE_MODE) as descriptor:
                os.posix_fallocate(descriptor, 0, size_bytes + NAMES_BYTES)
                os.fdatasync(descriptor)
        except OSError:
            spare.unlink(missing_ok=True)
            raise
        self._spares.append(spare)

    def begin_with(self, oldest_position: int) -> None:
        """Records that the log files below this position hold nothing that is needed, before they are retired."""
        with self._naming:
            _, newest_position = self._named_files() or (oldest_position, oldest_position)
            self._name_files(oldest_position, newest_position)

    def retire(self, segment: LogFile | KeptLogFile, *, is_used_again: bool = True) -> None:
        """Keeps the file of a trimmed log file as a spare, or deletes it when there are SPARES_MAX spares, when an
        earlier start wrote it, or when it is not to be used again."""
        if isinstance(segment, KeptLogFile) or len(self._spares) >= SPARES_MAX or not is_used_again:
            segment.path.unlink()
            return
        self._spare_number += 1
        spare = self._directory / f"{self._spare_number}.spare"
        segment.path.rename(spare)
        self._spares.append(spare)

    def delete_spares(self) -> None:
        """Deletes the spares, which hold stale records."""
        while self._spares:
            self._spares.pop().unlink()
        sync_directory(self._directory)

    def close(self) -> None:
        """May be called again."""
        descriptor, self._lock = self._lock, CLOSED
        if descriptor != CLOSED:
            os.close(descriptor)


def _named_position(path: Path) -> int:
    if not (path.stem.isascii() and path.stem.isdigit()):
        raise DamagedWal(f"{path} is not named like a file of a write-ahead log: move it away")
    return int(path.stem)


def _records_of(path: Path, data: bytes, header: LogFileHeader) -> list[WalRecord]:
    """Raises DamagedWal, with the path of the file."""
    if len(data) < header.reserved_bytes:
        raise DamagedWal(
            f"file {path} of the write-ahead log has {len(data):,} bytes, and {header.reserved_bytes:,} were reserved "
            "for it: its end is missing, and with it perhaps acknowledged records; restore the file"
        )
    try:
        return list(decode_records(memoryview(data)[LOG_FILE_HEADER_BYTES:], header.first_position))
    except DamagedWal as damage:
        raise damage_at(str(path), damage, "file") from damage


def _refuse_confirmed_beyond(torn_at: int, records: list[WalRecord]) -> None:
    """Raises DamagedWal when a record after the tear confirms that the log was durable beyond the tear: then the
    missing records were acknowledged."""
    if any(record.confirmed_position > torn_at for record in records):
        raise DamagedWal(
            f"acknowledged records of the write-ahead log after log position {torn_at} are missing: restore the log's "
            "folder"
        )


def _locked(path: Path) -> int:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE_FILE_MODE)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        raise WalInUse(
            f"the write-ahead log in {path.parent} is in use by another process: stop that process first"
        ) from error
    return descriptor
