"""The metadata log in memory, for tests and simulations."""

import threading
from collections.abc import Iterable

from siltstone.metadata.store.port import LogEndsTooEarly, LogTruncated, Snapshot, VersionMovedOn


class MemoryLog:
    def __init__(self, entries_kept: int = 1_000) -> None:
        self._lock = threading.Lock()
        self._entries: list[bytes] = []
        self._dropped = 0
        self._entries_kept = entries_kept
        self._snapshot: tuple[int, tuple[bytes, ...]] | None = None

    def append(self, entry: bytes, expected_version: int) -> int:
        with self._lock:
            head = self._head()
            if head != expected_version:
                raise VersionMovedOn(f"the log is at version {head}, not {expected_version}; read on")
            self._entries.append(entry)
            return head + 1

    def read_after(self, version: int, limit: int) -> list[tuple[int, bytes]]:
        with self._lock:
            if version > self._head():
                raise LogEndsTooEarly(
                    f"the metadata log ends at version {self._head()}, and version {version} was read from it before; "
                    "restore the newest copy"
                )
            if version < self._dropped:
                raise LogTruncated(f"entries up to version {self._dropped} were dropped; load the snapshot")
            first = version - self._dropped
            found = self._entries[first : first + limit]
            return list(enumerate(found, start=version + 1))

    def head_version(self) -> int:
        with self._lock:
            return self._head()

    def save_snapshot(self, version: int, chunks: Iterable[bytes]) -> None:
        saved = tuple(chunks)
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

    def close(self) -> None:
        return None

    def _head(self) -> int:
        return self._dropped + len(self._entries)
