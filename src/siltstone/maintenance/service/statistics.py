"""Counts what a maintenance service has done since it started, by kind, for its log and for programs."""

from collections.abc import Iterable
from threading import Lock

import msgspec

from siltstone.carrying.pipeline.running import RunReport
from siltstone.carrying.pipeline.watch import Watch
from siltstone.foundation.quantity_words import counted, seconds_words, size_words
from siltstone.offline.tasks.pacing import NO_RATE, RunRate
from siltstone.runtime.clock import Clock


class KindStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """The counts of one kind. ``runs`` counts runs that had units to do, ``troubles`` runs that ended early because of
    a failure that no unit has caused. ``unusable`` counts objects that the latest run could not read.
    ``last_success_ms`` is 0 before the first success; a run without units is a success, unless something could not be
    read. ``running_since_ms`` is 0 when the kind is not running. ``bytes_left``: the bytes that the last plan wanted to
    read and that are not done; None before the first plan. ``rate`` is the rate of the present run, or of the latest
    one; ``held_seconds``: how long tasks waited for it."""

    kind: str
    runs: int = 0
    units_done: int = 0
    units_failed: int = 0
    units_set_aside: int = 0
    unusable: int = 0
    troubles: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    bytes_freed: int = 0
    last_success_ms: int = 0
    running_since_ms: int = 0
    bytes_left: int | None = None
    rate: RunRate = NO_RATE
    held_seconds: float = 0.0

    def in_one_line(self, now_ms: int) -> str:
        age = "never" if not self.last_success_ms else f"{_age(now_ms, self.last_success_ms)} ago"
        if not (self.runs or self.troubles or self.unusable or self.running_since_ms):
            looked = f"nothing to do, last looked {age}" if self.last_success_ms else "not looked at yet"
            return f"{self.kind}: {looked}"
        facts = (
            f"{self.kind}: {counted(self.runs, 'run')}, {counted(self.units_done, 'unit')} done",
            f"{self.units_failed} failed" if self.units_failed else "",
            f"{self.units_set_aside} set aside" if self.units_set_aside else "",
            f"{self.unusable} cannot be read" if self.unusable else "",
            f"{counted(self.troubles, 'trouble')}" if self.troubles else "",
            f"{size_words(self.bytes_read)} read" if self.bytes_read else "",
            f"{size_words(self.bytes_written)} written" if self.bytes_written else "",
            f"{size_words(self.bytes_freed)} freed" if self.bytes_freed else "",
            f"{seconds_words(self.held_seconds)} held by its rate" if self.held_seconds >= 1 else "",
            f"last success {age}",
            f"running for {_age(now_ms, self.running_since_ms)}" if self.running_since_ms else "",
            self.rate.words if self.running_since_ms else "",
        )
        return ", ".join(filter(None, facts))


class MaintenanceStatistics(msgspec.Struct, frozen=True):
    """The counts of all kinds. ``metadata_lost_ms`` is the time since which the metadata cannot be reached; 0 when the
    last try reached them."""

    now_ms: int
    kinds: tuple[KindStatistics, ...]
    metadata_lost_ms: int = 0

    @property
    def lines(self) -> list[str]:
        return [each.in_one_line(self.now_ms) for each in self.kinds]


class Counters:
    """The counters of all lanes. Any thread may read and change them."""

    def __init__(self, kinds: Iterable[str], clock: Clock) -> None:
        self._clock = clock
        self._changing = Lock()
        self._kinds = {kind: KindStatistics(kind=kind) for kind in kinds}
        self._metadata_lost: dict[str, int] = {}
        self._watches: dict[str, Watch] = {}

    def statistics(self) -> MaintenanceStatistics:
        with self._changing:
            lost_ms = min(self._metadata_lost.values(), default=0)
            kinds = tuple(self._at_present(each) for each in self._kinds.values())
            return MaintenanceStatistics(self._clock.now_ms(), kinds, lost_ms)

    def _at_present(self, counts: KindStatistics) -> KindStatistics:
        """Returns the counts with the rate of the run that is under way, and with the time that its tasks have
        waited."""
        watch = self._watches.get(counts.kind)
        if watch is None:
            return counts
        held_seconds = counts.held_seconds + watch.held_ms / 1000
        return msgspec.structs.replace(counts, rate=watch.rate, held_seconds=held_seconds)

    def began(self, kind: str, watch: Watch) -> None:
        with self._changing:
            self._watches[kind] = watch
            self._set(kind, running_since_ms=self._clock.now_ms())

    def ended(self, report: RunReport, set_aside: int) -> None:
        with self._changing:
            before = self._at_present(self._kinds[report.kind])
            self._watches.pop(report.kind, None)
            self._set(
                report.kind,
                runs=before.runs + bool(report.units),
                units_done=before.units_done + len(report.done),
                units_failed=before.units_failed + len(report.failed),
                units_set_aside=set_aside,
                unusable=len(report.unusable),
                troubles=before.troubles
                + bool(report.trouble and not (report.is_cancelled or report.is_busy)),
                bytes_read=before.bytes_read + sum(each.bytes_read for each in report.units),
                bytes_written=before.bytes_written + sum(each.bytes_written for each in report.units),
                bytes_freed=before.bytes_freed + sum(each.bytes_freed for each in report.units),
                last_success_ms=self._clock.now_ms() if report.is_well else before.last_success_ms,
                running_since_ms=0,
                bytes_left=before.bytes_left if report.bytes_left is None else report.bytes_left,
                rate=before.rate,
                held_seconds=before.held_seconds,
            )

    def metadata_lost(self, lane: str) -> None:
        with self._changing:
            self._metadata_lost.setdefault(lane, self._clock.now_ms())

    def metadata_found(self, lane: str) -> None:
        with self._changing:
            self._metadata_lost.pop(lane, None)

    def _set(self, kind: str, **changed: float | RunRate | None) -> None:
        self._kinds[kind] = msgspec.structs.replace(self._kinds[kind], **changed)


def _age(now_ms: int, since_ms: int) -> str:
    return seconds_words(max(0, now_ms - since_ms) / 1000)
