"""Moves the metadata of a store from one log to another: ``siltstone metadata copy``.

The copy has the image at the head of the old log, as a snapshot, and the newest entry. So versions and append ids
continue in the new log: write-ahead logs, marks in buckets and scan pins refer to them. The steps. Each may be the last
one before a crash:

1. The new log is written. No program can open it yet, because its identity is missing.
2. The record LogMoved ends the old log. Appended after the entry that was copied last, it is refused if the old log
   has moved on meanwhile; then the first step is repeated.
3. The new log is completed.

So at any moment at most one of the two logs can be opened, and repeating the command carries on where it ended: the
second attempt finds LogMoved in the old log, and copies what is before it.
"""

import logging
from collections.abc import Callable, Iterator
from typing import Protocol

import msgspec

from siltstone.metadata.client import MetadataClient
from siltstone.metadata.image import MetadataImage
from siltstone.metadata.log_entry import LogEntry, LogPosition, decode_entry, encode_entry
from siltstone.metadata.records import LogMoved
from siltstone.metadata.snapshot import encode_snapshot
from siltstone.metadata.store.port import READ_BYTES_MAX, AppendUncertain, MetadataLog, VersionMovedOn
from siltstone.model.errors import InvalidRequest, Unavailable
from siltstone.runtime.clock import Clock
from siltstone.runtime.randomness import Random, random_token

logger = logging.getLogger(__name__)

COPY_ATTEMPTS_MAX = 8
"""If the log changes this many times during the copy, some process is using it, and the copy is refused."""


class NothingToCopy(InvalidRequest):
    """The old log has no entries."""


class CopyTaken(InvalidRequest):
    """There is a metadata log at the new place, and it is not the copy of the old one."""


class LogInUse(Unavailable):
    """Other processes append to the old log while it is copied."""


class CopyDiffers(Unavailable):
    """What was read back from the new log is not what was written."""


class LogCopy(Protocol):
    """A metadata log that is being written. No program can open it before it is complete."""

    def is_complete(self) -> bool:
        """Raises LogUnavailable."""
        ...

    def write(self, position: LogPosition, entry: bytes, chunks: Iterator[bytes]) -> None:
        """Writes a log with one snapshot and the entry at its position, in place of what an earlier attempt has left.
        Raises NotMetadataLog, LogUnavailable, also when the log was completed meanwhile."""
        ...

    def chunks(self) -> Iterator[bytes]:
        """Reads the snapshot back. Raises LogUnavailable."""
        ...

    def complete(self, position: LogPosition) -> None:
        """Makes the log valid if it is what was written at ``position``, else raises LogUnavailable."""
        ...

    def close(self) -> None: ...


class Copied(msgspec.Struct, frozen=True):
    """``was_done``: an earlier attempt had completed the copy, and nothing was written."""

    image: MetadataImage
    was_done: bool


def copy_log(
    old: MetadataLog,
    new: LogCopy,
    url: str,
    clock: Clock,
    rng: Random,
    *,
    on_step: Callable[[str], None] = lambda _: None,
) -> Copied:
    """Moves the log and returns the image that was copied. ``url``: where the new log is, without a password. Both logs
    stay open. Raises NothingToCopy, CopyTaken, LogInUse, CopyDiffers, MetadataMoved, NotMetadataLog, LogUnavailable,
    CorruptData."""
    for _ in range(COPY_ATTEMPTS_MAX):
        on_step("reading the metadata")
        ended = LogBeforeMove(old)
        image = MetadataClient(ended, clock, rng).image
        if image.version == 0:
            raise NothingToCopy("the metadata log is empty; there is nothing to copy")
        if ended.moved_to is not None and ended.moved_to != url:
            raise CopyTaken(f"this metadata was moved to {ended.moved_to} already: copy from there")
        if new.is_complete():
            if ended.moved_to == url:
                return Copied(image, was_done=True)
            raise CopyTaken(f"{url} holds a metadata log already; name an empty schema, with ?schema=NAME")
        on_step(f"writing version {image.version} to {url}")
        _write(old, new, image)
        on_step("ending the old log")
        if ended.moved_to == url or _end(old, url, image.position, rng):
            new.complete(image.position)
            return Copied(image, was_done=False)
    raise LogInUse(
        f"the metadata log has moved on {COPY_ATTEMPTS_MAX} times while it was copied; stop every process of the store"
    )


def _write(old: MetadataLog, new: LogCopy, image: MetadataImage) -> None:
    ((_, newest),) = old.read_after(image.version - 1, 1)
    chunks = list(encode_snapshot(image))
    new.write(image.position, newest, iter(chunks))
    if list(new.chunks()) != chunks:
        raise CopyDiffers("the copy of the metadata is not what was written; repeat the command")


def _end(old: MetadataLog, url: str, position: LogPosition, rng: Random) -> bool:
    """Appends LogMoved. Returns false when other entries came first, or when it is unknown whether it was appended: the
    next attempt finds out."""
    entry = LogEntry(random_token(rng), (LogMoved(url),), position.append_id)
    try:
        old.append(encode_entry(entry), position)
    except (VersionMovedOn, AppendUncertain) as reason:
        logger.info("the metadata is copied again: %s", reason)
        return False
    return True


class LogBeforeMove:
    """A log as it was before LogMoved ended it. ``moved_to`` is the record's URL once the log was read to its head."""

    def __init__(self, log: MetadataLog) -> None:
        self._log = log
        self.read_only_note = log.read_only_note
        self.take_turn = log.take_turn
        self.listen = log.listen
        self.append = log.append
        self.head = log.head
        self.save_snapshot = log.save_snapshot
        self.snapshot_version = log.snapshot_version
        self.load_snapshot = log.load_snapshot
        self.clock_offset_ms = log.clock_offset_ms
        self.close = log.close
        self.moved_to: str | None = None

    def read_after(
        self, version: int, limit: int, bytes_max: int = READ_BYTES_MAX
    ) -> list[tuple[int, bytes]]:
        entries = self._log.read_after(version, limit, bytes_max)
        if entries:
            *_, last = decode_entry(entries[-1][1]).records or (None,)
            if isinstance(last, LogMoved):
                self.moved_to = last.url
                return entries[:-1]
        return entries
