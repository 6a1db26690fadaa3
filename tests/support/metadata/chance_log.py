"""A metadata log that by chance is busy, loses answers, or does late what it was asked."""

from collections.abc import Iterable
from contextlib import suppress
from random import Random

from siltstone.metadata.store.port import (
    AppendUncertain,
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
        self._late: list[tuple[bytes, int]] = []

    def append(self, entry: bytes, expected_version: int) -> int:
        self.land_late()
        if not self._fails():
            return self.log.append(entry, expected_version)
        match self._rng.choice(["busy", "lost", "done", "late"]):
            case "busy":
                raise LogUnavailable("busy")
            case "done":
                self.log.append(entry, expected_version)
            case "late":
                self._late.append((entry, expected_version))
        raise AppendUncertain("the answer was lost")

    def read_after(self, version: int, limit: int) -> list[tuple[int, bytes]]:
        self.land_late()
        self._maybe_unavailable()
        return self.log.read_after(version, limit)

    def head_version(self) -> int:
        self._maybe_unavailable()
        return self.log.head_version()

    def save_snapshot(self, version: int, chunks: Iterable[bytes]) -> None:
        self._maybe_unavailable()
        self.log.save_snapshot(version, chunks)

    def snapshot_version(self) -> int | None:
        return self.log.snapshot_version()

    def load_snapshot(self) -> Snapshot | None:
        return self.log.load_snapshot()

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
            for entry, version in late:
                with suppress(VersionMovedOn):
                    self.log.append(entry, version)
