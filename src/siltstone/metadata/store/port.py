"""The metadata log port: one ordered log of entries, extended by compare-and-append, and a snapshot before it.

The version of a log is the number of entries ever appended; entry v is the one that made it v. An entry is durable
when ``append`` returns. A log is used by any number of processes and threads at once.
"""

from collections.abc import Iterable, Iterator
from typing import Protocol

import msgspec

from siltstone.model.errors import CorruptData, InvalidRequest, Stale, Unavailable


class VersionMovedOn(Stale):
    """Somebody else appended first: read on, decide again. Nothing was written."""


class LogTruncated(Stale):
    """The entries asked for were dropped: load the snapshot."""


class LogUnavailable(Unavailable):
    """Busy, full, not reachable. Nothing was written."""


class AppendUncertain(Unavailable):
    """The answer to an append was lost: it happened, will happen, or never will. Appending the very same entry
    under the very same version again is safe, since of all such attempts at most one succeeds."""


class LogEndsTooEarly(CorruptData):
    """The log is shorter than a version that was read from it before: it was replaced or restored."""


class LogDamaged(CorruptData):
    """The database itself says that its file is not whole."""


class LogReplaced(CorruptData):
    """The log that was opened is not the one in its place any more: what is appended to it nobody will find."""


class NotMetadataLog(CorruptData):
    """What the URL names holds something else."""


class LogVersionUnknown(CorruptData):
    """The log was made by another version of this program."""


class LogNotFound(InvalidRequest):
    """There is no log, and it was not asked to create one."""


class Snapshot(msgspec.Struct, frozen=True):
    """The image at ``version``, in chunks. The iterator may raise LogTruncated: a newer snapshot replaced this one."""

    version: int
    chunks: Iterator[bytes]


class MetadataLog(Protocol):
    def append(self, entry: bytes, expected_version: int) -> int:
        """The new version, ``expected_version + 1``. Raises VersionMovedOn, LogUnavailable, AppendUncertain,
        LogReplaced."""
        ...

    def read_after(self, version: int, limit: int) -> list[tuple[int, bytes]]:
        """The entries ``version + 1`` and on, with their versions, at most ``limit``. Raises LogTruncated,
        LogEndsTooEarly, LogUnavailable."""
        ...

    def head_version(self) -> int:
        """0 when nothing was ever appended. Raises LogUnavailable."""
        ...

    def save_snapshot(self, version: int, chunks: Iterable[bytes]) -> None:
        """Replaces an older snapshot and drops old entries, but keeps the newest ``entries_kept`` of those before
        the snapshot, so that followers need not load it. Appends go on meanwhile. Nothing happens when a newer
        snapshot exists. Raises LogUnavailable."""
        ...

    def snapshot_version(self) -> int | None: ...

    def load_snapshot(self) -> Snapshot | None: ...

    def close(self) -> None: ...
