"""Simulates a store that changes while scans of it are planned and read, in one thread, from one seed.

Batches are appended, segments close, all kinds of maintenance run, retention and DeleteRecords trim, topics are deleted
and made anew, time passes, and sweeps delete without a grace period. Between any two of these a scan is planned, and
running scans read on by a record batch. The rows that a scan has to give are settled at its plan: the records in the
objects of that image. The tests read them with their own reader of object files, which shares no code with scans, and
compare them with all records that were ever appended.

A scan may end with ScanOutdated once its lease is over, and never before.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import msgspec

from siltstone.carrying.pipeline.kind import Budget, Scope
from siltstone.carrying.pipeline.running import run
from siltstone.carrying.pipeline.watch import Watch
from siltstone.kafka_protocol.batch_header import Codec
from siltstone.maintenance.kinds import chosen_kinds
from siltstone.maintenance.sweep.sweeping import sweep
from siltstone.metadata.commands import PinScan
from siltstone.metadata.refusals import PinOutdated as PinGone
from siltstone.model.limits import HOUR_MS, MINUTE_MS
from siltstone.offline.settings import CompactionSettings, KindSettings, MaintenanceSettings
from siltstone.offline.tasks.runner import InProcessRunner
from siltstone.scanning.failures import PinOutdated
from siltstone.scanning.request import (
    EARLIEST,
    LATEST,
    Bound,
    BoundKind,
    Bounds,
    ScanRequest,
    Tail,
)
from siltstone.scanning.rows import unit_rows
from siltstone.scanning.scan import ScanPlan, plan_scan
from support.maintenance.keyed_world import SETTINGS, Found, KeyedWorld, kafka_batch

COLUMNS = ("key", "value", "topic", "partition", "offset")
PARTITIONS = 2
KEYS = 8
SCANS_AT_ONCE_MAX = 4
LEASES_MS = (0, 10 * MINUTE_MS, HOUR_MS)
TOPICS = {
    "log": {"cleanup.policy": "delete", "retention.bytes": "2000"},
    "plain": {"cleanup.policy": "delete"},
    "keyed": {"cleanup.policy": "compact"},
}
KINDS = KindSettings(
    grace_period_ms=0,
    compaction=CompactionSettings(split_size_bytes=600),
    maintenance=MaintenanceSettings(key_compaction=SETTINGS),
)
COPYING = ("sso-compaction", "so-compaction", "key-compaction", "minor-gc", "major-gc")

Place = tuple[str, int]
Rows = list[tuple[int, bytes | None, bytes | None]]


class RunningScan(msgspec.Struct):
    plan: ScanPlan
    expected: dict[Place, Rows]
    batches: Iterator[Any]
    token: str
    until_ms: int
    found: dict[Place, Rows] = {}


class ScannedLife(KeyedWorld):
    def __init__(self, seed: int) -> None:
        super().__init__()
        self.rng = Random(seed)
        self.counts: Counter[str] = Counter()
        self.appended: dict[int, dict[int, tuple[str | None, str | None]]] = {}
        self.scans: list[RunningScan] = []
        self._numbers = 0
        for name in TOPICS:
            self._make(name)

    def live(self, steps: int) -> None:
        acts: list[tuple[int, str, Callable[[], object]]] = [
            (8, "append", self._append), (3, "roll", self._roll), (6, "scan planned", self._plan),
            (12, "scan read on", self._read_on), (4, "copied", self._copy), (3, "retention", self._retain),
            (2, "trimmed", self._trim), (2, "dead objects", lambda: self._run("dead-objects")),
            (4, "swept", lambda: sweep(self.context, grace_period_ms=0)), (2, "time", self._pass_time),
            (1, "pin renewed", self._renew), (1, "topic made anew", self._make_anew),
        ]  # fmt: skip
        weights = [weight for weight, _, _ in acts]
        for _ in range(steps):
            ((_, name, act),) = self.rng.choices(acts, weights)
            if act() is not False:
                self.counts[name] += 1
        while self.scans:
            self._read_on()
        self.assert_sound()

    # -- what changes the store --------------------------------------------------------------------------

    def new_topic_id(self) -> str:
        self._numbers += 1
        return f"{self._numbers:032x}"

    def _make(self, name: str) -> None:
        configs = {key.replace(".", "_"): text for key, text in TOPICS[name].items()}
        for stream_id in self.topic(name, PARTITIONS, **configs):
            self.appended[stream_id] = {}

    def _streams(self, name: str) -> list[int]:
        return [each.data_stream_id for each in self.topic_named(name).partitions]

    def _some_stream(self) -> int:
        return self.rng.choice(self._streams(self.rng.choice(list(TOPICS))))

    def _append(self) -> None:
        """Appends one stream object, or a stream set object of several partitions."""
        alone = self.rng.random() < 0.3
        streams = {self._some_stream() for _ in range(1 if alone else 4)}
        made = []
        for stream_id in sorted(streams):
            end = self.stream(stream_id).end_offset
            for _ in range(self.rng.randint(1, 3)):
                pairs = [self._pair() for _ in range(self.rng.randint(1, 6))]
                codec = self.rng.choice(list(Codec))
                made.append(kafka_batch(stream_id, end, pairs, self.clock.now_ms(), codec))
                self.appended[stream_id].update({end + at: pair for at, pair in enumerate(pairs)})
                end += len(pairs)
        self.upload(made, alone=alone)

    def _pair(self) -> tuple[str, str | None]:
        value = None if self.rng.random() < 0.15 else f"v{self.rng.randrange(10**6)}" * self.rng.randint(1, 4)
        return f"k{self.rng.randrange(KEYS)}", value

    def _roll(self) -> bool:
        stream_id = self._some_stream()
        stream = self.stream(stream_id)
        if stream.end_offset == max(stream.active_offset, stream.start_offset):
            return False
        self.roll(stream_id)
        return True

    def _run(self, name: str) -> bool:
        (kind,) = chosen_kinds(KINDS, [name])
        report = run(
            self.context, kind, InProcessRunner, Scope(is_forced=True), Budget(), Watch(name, self.clock)
        )
        assert report.is_well, report
        return bool(report.done)

    def _copy(self) -> bool:
        name = self.rng.choice(COPYING)
        is_done = self._run(name)
        self.counts[name] += is_done
        return is_done

    def _retain(self) -> bool:
        return self._run("retention")

    def _trim(self) -> bool:
        stream = self.stream(self._some_stream())
        to = self.rng.randint(stream.start_offset, stream.end_offset)
        self.trim(stream.stream_id, to)
        return to > stream.start_offset

    def _pass_time(self) -> None:
        self.clock.advance_ms(self.rng.choice((1, MINUTE_MS, 5 * MINUTE_MS, 30 * MINUTE_MS)))

    def _make_anew(self) -> None:
        name = self.rng.choice(list(TOPICS))
        self.delete_topic(name)
        self._make(name)

    # -- scans -------------------------------------------------------------------------------------------

    def _plan(self) -> bool:
        if len(self.scans) == SCANS_AT_ONCE_MAX:
            return False
        names = self.rng.sample(list(TOPICS), self.rng.randint(1, len(TOPICS)))
        lease_ms = self.rng.choice(LEASES_MS)
        token = f"scan-{self.rng.randrange(10**9)}" if lease_ms and self.rng.random() < 0.5 else ""
        request = ScanRequest(
            topics=tuple(names), columns=COLUMNS, tail=Tail.COMMITTED, lease_ms=lease_ms, pin_token=token,
            unit_bytes_max=self.rng.choice((300, 1_000, 100_000)), by_object=self.rng.random() < 0.5,
            start=self._bounds(EARLIEST), end=self._bounds(LATEST), fail_on_data_loss=False,
        )  # fmt: skip
        plan = plan_scan(self.context, request)
        assert plan.version == self.image.version
        expected = {}
        for each in plan.cuts:
            rows = self.records(each.of.stream.stream_id)
            self._compare_with_appended(each.of.topic.name, each.of.stream.stream_id, rows)
            kept = [row for row in rows if each.start_offset <= row[0] < each.end_offset]
            expected[each.of.topic.name, each.of.partition] = [_bytes(row) for row in kept]
        batches = (batch for unit in plan.units for batch in unit_rows(unit, self.clock, Random(1)))
        self.scans.append(RunningScan(plan, expected, batches, token, plan.lease_until_ms))
        return True

    def _bounds(self, otherwise: Bound) -> Bounds:
        if self.rng.random() < 0.7:
            return Bounds(otherwise)
        return Bounds(Bound(BoundKind.OFFSET, self.rng.randrange(40)))

    def _compare_with_appended(self, name: str, stream_id: int, rows: list[Found]) -> None:
        """Compares the rows with all records that were appended and not trimmed; of a compacted topic at least the
        newest record of each key has to be there."""
        stream, appended = self.stream(stream_id), self.appended[stream_id]
        held = {offset: (key, value) for offset, key, value in rows}
        wanted = {at: pair for at, pair in appended.items() if at >= stream.start_offset}
        if "compact" not in TOPICS[name]["cleanup.policy"]:
            assert held == wanted, name
            return
        assert held.items() <= wanted.items(), name
        newest = {key: at for at, (key, _) in sorted(wanted.items())}
        assert {at for at in newest.values() if wanted[at][1] is not None} <= held.keys(), name

    def _read_on(self) -> bool:
        if not self.scans:
            return False
        scan = self.rng.choice(self.scans)
        try:
            batch = next(scan.batches, None)
        except PinOutdated:
            assert self.clock.now_ms() > scan.until_ms, "the lease was not over"
            self.scans.remove(scan)
            self.counts["scan outdated"] += 1
            return True
        if batch is not None:
            for row in batch.to_pylist():
                place = row["topic"], row["partition"]
                scan.found.setdefault(place, []).append((row["offset"], row["key"], row["value"]))
            return True
        self.scans.remove(scan)
        for place, rows in scan.expected.items():
            assert sorted(scan.found.pop(place, [])) == rows, (place, scan.plan.version)
        assert not scan.found
        self.counts["scan complete"] += 1
        self.counts["rows"] += sum(map(len, scan.expected.values()))
        return True

    def _renew(self) -> bool:
        own = [scan for scan in self.scans if scan.token]
        if not own:
            return False
        scan = self.rng.choice(own)
        try:
            scan.until_ms = self.metadata.execute(PinScan(scan.token, HOUR_MS, renews=True))
        except PinGone:
            assert self.clock.now_ms() > scan.until_ms
            return False
        return True


def _bytes(row: Found) -> tuple[int, bytes | None, bytes | None]:
    offset, key, value = row
    return offset, None if key is None else key.encode(), None if value is None else value.encode()
