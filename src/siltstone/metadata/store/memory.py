"""The metadata log in memory, for tests and simulations."""

import threading
from collections.abc import Callable, Iterable

from siltstone.metadata.log_entry import LogPosition, link_of
from siltstone.metadata.store.port import (
    READ_BYTES_MAX,
    LogEndsTooEarly,
    LogNews,
    LogTruncated,
    Snapshot,
    VersionMovedOn,
    until_bytes,
)


class MemoryLog:
    read_only_note = ""

    def __init__(self, entries_kept: int = 1_000) -> None:
        self._lock = threading.Lock()
        self._entries: list[bytes] = []
        self._dropped = 0
        self._head = LogPosition()
        self._entries_kept = entries_kept
        self._snapshot: tuple[int, tuple[bytes, ...]] | None = None

    def take_turn(self) -> bool:
        return True

    def append(self, entry: bytes, expected: LogPosition) -> LogPosition:
        with self._lock:
            if self._head != expected:
                raise VersionMovedOn(
                    f"the log is at version {self._head.version}, not {expected.version}; read on"
                )
            self._entries.append(entry)
            self._head = LogPosition(expected.version + 1, link_of(entry).append_id)
            return self._head

    def read_after(
        self, version: int, limit: int, bytes_max: int = READ_BYTES_MAX
    ) -> list[tuple[int, bytes]]:
        with self._lock:
            if version > self._head.version:
                raise LogEndsTooEarly(
                    f"the metadata log ends at version {self._head.version}, and version {version} was read from it "
                    "before; restore the newest copy"
                )
            if version < self._dropped:
                raise LogTruncated(f"entries up to version {self._dropped} were dropped; load the snapshot")
            first = version - self._dropped
            found = self._entries[first : first + limit]
            return list(until_bytes(enumerate(found, start=version + 1), bytes_max))

    def head(self) -> LogPosition:
        with self._lock:
            return self._head

    def save_snapshot(self, position: LogPosition, chunks: Iterable[bytes]) -> None:
        version, saved = position.version, tuple(chunks)
        with self._lock:
            if self._snapshot is not None and self._snapshot[0] > version:
                return
            self._snapshot = (version, saved)
            drop_until = max(self._dropped, version - self._entries_kept)
            del self._entries[: drop_until - self._dropped]
            self._dropped = drop_until

    def snapshot_version(self) -> int | None:
        with self._lock:
            return None if self._snapshot is None else self._snapshot[0]

    def load_snapshot(self) -> Snapshot | None:
        with self._lock:
            return None if self._snapshot is None else Snapshot(self._snapshot[0], iter(self._snapshot[1]))

    def listen(self, on_news: Callable[[], None]) -> LogNews | None:
        return None

    def clock_offset_ms(self) -> int:
        return 0

    def close(self) -> None:
        return None
