"""A metadata log that fails on order, in every way a real one does."""

from collections import deque
from collections.abc import Callable, Iterable
from enum import Enum, auto

from siltstone.metadata.log_entry import LogPosition
from siltstone.metadata.store.port import (
    READ_BYTES_MAX,
    AppendUncertain,
    LogNews,
    LogUnavailable,
    MetadataLog,
    Snapshot,
)


class Fault(Enum):
    UNAVAILABLE = auto()
    LOST = auto()
    """The entry was not written, and the answer does not say so."""
    DONE = auto()
    """The entry was written, and the answer does not say so."""
    LATE = auto()
    """The entry is under way, and is written just before the next append is tried; the answer does not say so."""


class FaultyLog:
    def __init__(self, log: MetadataLog) -> None:
        self.log = log
        self.faults: deque[Fault | None] = deque()
        """The faults of the next appends; afterwards appends succeed."""
        self.before_append: deque[Callable[[], object]] = deque()
        """What another client does just before each of the next appends."""
        self.snapshot_fails = self.read_fails = False
        self.clock_is_ahead_ms = 0
        self.appends = self.turns = 0
        self.turn_is_new = True
        self.heads = 0
        self._late: list[tuple[bytes, LogPosition]] = []

    def take_turn(self) -> bool:
        self.turns += 1
        return self.turn_is_new

    def append(self, entry: bytes, expected: LogPosition) -> LogPosition:
        self.appends += 1
        for late in self._late:
            self.log.append(*late)
        self._late = []
        if self.before_append:
            self.before_append.popleft()()
        match self.faults.popleft() if self.faults else None:
            case Fault.UNAVAILABLE:
                raise LogUnavailable("busy")
            case Fault.LOST:
                raise AppendUncertain("connection lost")
            case Fault.DONE:
                self.log.append(entry, expected)
                raise AppendUncertain("connection lost")
            case Fault.LATE:
                self._late.append((entry, expected))
                raise AppendUncertain("connection lost")
        return self.log.append(entry, expected)

    def read_after(
        self, version: int, limit: int, bytes_max: int = READ_BYTES_MAX
    ) -> list[tuple[int, bytes]]:
        if self.read_fails:
            raise LogUnavailable("no answer")
        return self.log.read_after(version, limit, bytes_max)

    def head(self) -> LogPosition:
        self.heads += 1
        return self.log.head()

    def save_snapshot(self, position: LogPosition, chunks: Iterable[bytes]) -> None:
        if self.snapshot_fails:
            raise LogUnavailable("disk full")
        self.log.save_snapshot(position, chunks)

    def snapshot_version(self) -> int | None:
        return self.log.snapshot_version()

    def load_snapshot(self) -> Snapshot | None:
        return self.log.load_snapshot()

    read_only_note = ""

    def listen(self, on_news: Callable[[], None]) -> LogNews | None:
        return self.log.listen(on_news)

    def clock_offset_ms(self) -> int:
        return self.clock_is_ahead_ms

    def close(self) -> None:
        self.log.close()
