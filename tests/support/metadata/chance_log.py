"""A metadata log that by chance is busy, loses answers, or does late what it was asked."""

from collections.abc import Callable, Iterable
from contextlib import suppress
from random import Random

from siltstone.metadata.log_entry import LogPosition
from siltstone.metadata.store.port import (
    READ_BYTES_MAX,
    AppendUncertain,
    LogNews,
    LogUnavailable,
    MetadataLog,
    Snapshot,
    VersionMovedOn,
)


class ChanceLog:
    def __init__(self, log: MetadataLog, rng: Random, fault_rate: float) -> None:
        self.log = log
        self.fault_rate = fault_rate
        self._outage_left = 0
        self._rng = rng
        self._late: list[tuple[bytes, LogPosition]] = []

    def take_turn(self) -> bool:
        return self.log.take_turn()

    def append(self, entry: bytes, expected: LogPosition) -> LogPosition:
        self.land_late()
        if not self._fails():
            return self.log.append(entry, expected)
        match self._rng.choice(["busy", "lost", "done", "late"]):
            case "busy":
                raise LogUnavailable("busy")
            case "done":
                self.log.append(entry, expected)
            case "late":
                self._late.append((entry, expected))
        raise AppendUncertain("the answer was lost")

    def read_after(
        self, version: int, limit: int, bytes_max: int = READ_BYTES_MAX
    ) -> list[tuple[int, bytes]]:
        self.land_late()
        self._maybe_unavailable()
        return self.log.read_after(version, limit, bytes_max)

    def head(self) -> LogPosition:
        self._maybe_unavailable()
        return self.log.head()

    def save_snapshot(self, position: LogPosition, chunks: Iterable[bytes]) -> None:
        self._maybe_unavailable()
        self.log.save_snapshot(position, chunks)

    def snapshot_version(self) -> int | None:
        return self.log.snapshot_version()

    def load_snapshot(self) -> Snapshot | None:
        return self.log.load_snapshot()

    read_only_note = ""

    def listen(self, on_news: Callable[[], None]) -> LogNews | None:
        return self.log.listen(on_news)

    def clock_offset_ms(self) -> int:
        return self.log.clock_offset_ms()

    def close(self) -> None:
        """Many lives of a node share it."""

    def calm(self) -> None:
        self.fault_rate = 0.0
        self._outage_left = 0
        self.land_late(always=True)

    def _fails(self) -> bool:
        """Sometimes so often in a row that the client gives up."""
        if self._outage_left > 0:
            self._outage_left -= 1
            return True
        failed = self._rng.random() < self.fault_rate
        if failed and self._rng.random() < 0.1:
            self._outage_left = 12
        return failed

    def _maybe_unavailable(self) -> None:
        if self._fails():
            raise LogUnavailable("busy")

    def land_late(self, *, always: bool = False) -> None:
        if self._late and (always or self._rng.random() < 0.5):
            late, self._late = self._late, []
            for entry, expected in late:
                with suppress(VersionMovedOn):
                    self.log.append(entry, expected)
