"""The metadata log port: an ordered log of entries, extended by compare-and-append, and a snapshot of its older part.

The version of a log is the number of entries ever appended; the first entry makes it version 1. An entry is durable
when ``append`` returns. Any number of processes and threads may use a log at the same time.
"""

from collections.abc import Iterable, Iterator
from typing import Protocol

import msgspec

from siltstone.model.errors import CorruptData, InvalidRequest, Stale, Unavailable


class VersionMovedOn(Stale):
    """Another process appended first, and nothing was written: read its entries and decide again."""


class LogTruncated(Stale):
    """The entries to read were dropped: load the snapshot."""


class LogUnavailable(Unavailable):
    """The log is busy, full or not reachable. Nothing was written."""


class AppendUncertain(Unavailable):
    """The answer to an append was lost: the entry is written, may still be written, or never will be. It is safe to
    append the same entry under the same expected version again, since of all such attempts at most one succeeds."""


class LogEndsTooEarly(CorruptData):
    """The log is shorter than a version that was read from it before: it was replaced or restored."""


class LogDamaged(CorruptData):
    """The database reports that its file is damaged."""


class LogReplaced(CorruptData):
    """The file of the open log was deleted, moved or replaced: no other process would see what is appended to it."""


class NotMetadataLog(CorruptData):
    """The file that the URL names is not a metadata log."""


class LogVersionUnknown(CorruptData):
    """The log was created by another version of this program."""


class LogNotFound(InvalidRequest):
    """The log does not exist, and ``create`` was not set."""


class Snapshot(msgspec.Struct, frozen=True):
    """The image at ``version``, in chunks. The iterator raises LogTruncated when a newer snapshot replaces this one."""

    version: int
    chunks: Iterator[bytes]


class MetadataLog(Protocol):
    def append(self, entry: bytes, expected_version: int) -> int:
        """Appends the entry if the log is at ``expected_version``; returns the new version. Raises VersionMovedOn,
        LogUnavailable, AppendUncertain, LogReplaced."""
        ...

    def read_after(self, version: int, limit: int) -> list[tuple[int, bytes]]:
        """Returns at most ``limit`` entries from version ``version + 1`` on, each with its version. Raises
        LogTruncated, LogEndsTooEarly, LogUnavailable."""
        ...

    def head_version(self) -> int:
        """Returns the version of the log; 0 when nothing was ever appended. Raises LogUnavailable."""
        ...

    def save_snapshot(self, version: int, chunks: Iterable[bytes]) -> None:
        """Replaces an older snapshot and drops old entries, but keeps the newest ``entries_kept`` entries before the
        snapshot, so that clients which are not far behind need not load it. Does nothing when a newer snapshot
        exists. Other appends are not blocked while the chunks are written. Raises LogUnavailable."""
        ...

    def snapshot_version(self) -> int | None: ...

    def load_snapshot(self) -> Snapshot | None: ...

    def close(self) -> None: ...
