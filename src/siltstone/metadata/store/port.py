"""The metadata log port: an ordered log of entries, extended by compare-and-append, and a snapshot of its older part.

The version of a log is the number of entries ever appended; the first entry makes it version 1. The entries form a
chain (``log_entry``): an append names the version and the append id of the entry that it follows. An entry is durable
when ``append`` returns. Any number of processes and threads may use a log at the same time.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

import msgspec

from siltstone.metadata.log_entry import LogPosition
from siltstone.model.errors import CorruptData, InvalidRequest, Stale, Unavailable

READ_BYTES_MAX = 8 << 20
"""What one read of entries takes in memory, and one entry more. Entries have 100 bytes to some MiB (a compaction of a
hundred thousand streams), so a limit of their number alone is none."""


class VersionMovedOn(Stale):
    """Another process appended first, and nothing was written: read its entries and decide again."""


class LogTruncated(Stale):
    """The entries to read were dropped: load the snapshot."""


class LogUnavailable(Unavailable):
    """The log is busy, full or not reachable. Nothing was written."""


class LogOutOfReach(LogUnavailable):
    """No server of the log can be reached, or none answers. Nobody has refused the call, so a start may wait for it."""


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


class LogUrlMalformed(InvalidRequest):
    """The URL names no metadata log."""


class LogNotFound(InvalidRequest):
    """The log does not exist, and ``create`` was not set."""


class Snapshot(msgspec.Struct, frozen=True):
    """The image at ``version``, in chunks. The iterator raises LogTruncated when a newer snapshot replaces this one."""

    version: int
    chunks: Iterator[bytes]


def until_bytes(entries: Iterable[tuple[int, bytes]], bytes_max: int) -> Iterator[tuple[int, bytes]]:
    """Yields the entries up to the one with which they reach ``bytes_max`` bytes together."""
    left = bytes_max
    for version, entry in entries:
        yield version, entry
        left -= len(entry)
        if left <= 0:
            return


class LogReadOnly(InvalidRequest):
    """The log was opened for reading only, because its file cannot be written."""


class LogNews(Protocol):
    """Tells when another process may have appended. Only a read counts: a notice may be late, lost, or for nothing."""

    @property
    def is_heard(self) -> bool:
        """Whether notices come at present."""
        ...

    def close(self) -> None: ...


class MetadataLog(Protocol):
    @property
    def read_only_note(self) -> str:
        """Why every append is refused with LogReadOnly, because the log's file or its disk cannot be written, and how
        old the log is; empty if it can be written."""
        ...

    def take_turn(self) -> bool:
        """Waits until it is this process's turn to append, so that no other appends in between; the turn lasts for some
        milliseconds. Returns False when it was this process's turn already, and nobody else has appended since. It is
        a courtesy: the turn may not come, and only the check of ``expected`` protects the log."""
        ...

    def append(self, entry: bytes, expected: LogPosition) -> LogPosition:
        """Appends the entry (``log_entry.encode_entry``) if the head of the log is ``expected``; returns the new head.
        Raises VersionMovedOn, LogUnavailable, AppendUncertain, LogReplaced, LogReadOnly."""
        ...

    def read_after(
        self, version: int, limit: int, bytes_max: int = READ_BYTES_MAX
    ) -> list[tuple[int, bytes]]:
        """Returns at most ``limit`` entries from version ``version + 1`` on, each with its version. The entry with
        which they reach ``bytes_max`` bytes together is the last one, so there is at least one if the log has more.
        Raises LogTruncated, LogEndsTooEarly, LogUnavailable."""
        ...

    def head(self) -> LogPosition:
        """Returns the head of the log: version 0 when nothing was ever appended. Raises LogUnavailable."""
        ...

    def save_snapshot(self, position: LogPosition, chunks: Iterable[bytes]) -> None:
        """Saves the image at ``position``. Replaces an older snapshot and drops old entries, but keeps the newest
        ``entries_kept`` entries before the snapshot, so that clients which are not far behind need not load it. Does
        nothing when a newer snapshot exists. Other appends are not blocked while the chunks are written. Raises
        LogUnavailable."""
        ...

    def snapshot_version(self) -> int | None: ...

    def load_snapshot(self) -> Snapshot | None: ...

    def listen(self, on_news: Callable[[], None]) -> LogNews | None:
        """From now on ``on_news`` is called, in another thread, when another process that listens has appended, and
        when ``is_heard`` changes. Returns None if this log has no notices. The log closes what it returns."""
        ...

    def clock_offset_ms(self) -> int:
        """Returns how far the clock of the log is ahead of this machine's, as last measured. It is 0 for a log without
        a clock of its own. Sends no request."""
        ...

    def close(self) -> None: ...
