"""Scans pin, renew and end, objects are destroyed, and several drivers sweep whose clocks differ by up to an hour.

The model is as plain as can be: for each pin that stands it has the set of objects that the scan planned, and looks
after every step, and in the middle of every sweep, whether all of them are in the bucket. When all pins have ended,
every destroyed object is deleted in the end.
"""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from siltstone.maintenance.sweep.sweeping import sweep
from siltstone.metadata.client import MetadataClient
from siltstone.metadata.commands import (
    SHARED_PIN,
    CommitCompaction,
    CommitUpload,
    CreateStream,
    NewObject,
    OpenStream,
    PinScan,
    PrepareObjects,
    RegisterNode,
    StartJob,
    UnpinScan,
)
from siltstone.metadata.image import MetadataImage
from siltstone.metadata.log_entry import decode_entry
from siltstone.metadata.records import ScanPinned, ScanUnpinned
from siltstone.metadata.refusals import PinOutdated
from siltstone.metadata.store.memory import MemoryLog
from siltstone.model.limits import DAY_MS, HOUR_MS, MINUTE_MS
from siltstone.model.objects import ObjectRange, ObjectState, object_key
from siltstone.object_store.buckets import Buckets
from siltstone.offline.context import MaintenanceContext
from siltstone.runtime.clock import ManualClock
from siltstone.runtime.randomness import seeded_randomness
from support.maintenance.maintained_store import WatchedStore
from support.values.examples import examples

GRACE_MS = 5 * MINUTE_MS
STEPS = 60


class Driver:
    """A process with a clock of its own, which sweeps and scans."""

    def __init__(self, log: MemoryLog, bucket: WatchedStore, number: int, ahead_ms: int) -> None:
        self.clock = ManualClock(1_700_000_000_000 + ahead_ms)
        self.metadata = MetadataClient(log, self.clock, seeded_randomness(number))
        self.context = MaintenanceContext(
            self.metadata, Buckets({0: bucket}), self.clock, seeded_randomness(number + 100)
        )
        self.scans: list[str] = []


class Walk:
    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.log = MemoryLog()
        self.bucket = WatchedStore(ManualClock())
        self.drivers = [
            Driver(self.log, self.bucket, number, rng.randint(-HOUR_MS, HOUR_MS) // 2) for number in range(3)
        ]
        self.planned: dict[str, set[int]] = {}
        """Token → ids of all objects that scans under the pin have planned to read."""
        self.seen_version = 0
        self.is_amid_sweep = False
        self.tokens = 0
        self.first = self.drivers[0].metadata
        self.first.execute(RegisterNode(0, "first", ""))
        self.stream_id = self.first.execute(CreateStream(0, 1))
        self.first.execute(OpenStream(0, 1, self.stream_id, 0))
        self.job_id = self.first.execute(StartJob("compaction", "test", 1_000 * DAY_MS))
        self.bucket.before = self.amid_sweep
        for _ in range(3):
            self.upload()

    # -- what happens ------------------------------------------------------------------------------------

    def driver(self) -> Driver:
        return self.rng.choice(self.drivers)

    def new_object(self, object_id: int, start: int, end: int) -> NewObject:
        self.bucket.put(object_key(object_id), [b"bytes"])
        return NewObject(object_id, 5, (ObjectRange(self.stream_id, object_id, start, end, 5, 0),))

    def upload(self) -> None:
        object_id = self.first.execute(PrepareObjects(1, 100 * DAY_MS, node_id=0, node_epoch=1))
        end = self.first.image.streams[self.stream_id].end_offset
        self.first.execute(CommitUpload(0, 1, None, (self.new_object(object_id, end, end + 10),)))

    def destroy(self) -> None:
        """One or two neighbouring objects are rewritten as one; the scan's plans name the old ones."""
        ranges = self.first.refresh().streams[self.stream_id].ranges
        at = self.rng.randrange(len(ranges))
        chosen = ranges[at : at + self.rng.randint(1, 2)]
        object_id = self.first.execute(PrepareObjects(1, 100 * DAY_MS, job_id=self.job_id))
        new = self.new_object(object_id, chosen[0].start_offset, chosen[-1].end_offset)
        ids = tuple(held.object_id for held in chosen)
        self.first.execute(CommitCompaction(self.job_id, ids, None, (new,)))

    def scan(self) -> None:
        """Pin, refresh, plan."""
        driver = self.driver()
        token = SHARED_PIN
        if self.rng.random() < 0.6:
            self.tokens += 1
            token = f"q{self.tokens}"
            driver.scans.append(token)
        before = driver.metadata.refresh()
        until_ms = driver.metadata.execute(PinScan(token, self.rng.choice([1, 5, 60, 90]) * MINUTE_MS))
        image = driver.metadata.refresh()
        self.follow()
        held = {one.object_id for one in image.streams[self.stream_id].ranges}
        if token == SHARED_PIN:
            new = set(image.pins) - set(before.pins)
            (token,) = new or {
                pin.token for pin in image.pins.values() if pin.until_ms == until_ms and "-" in pin.token
            }
        self.planned[token] |= held

    def renew(self) -> None:
        driver = self.driver()
        if not driver.scans:
            return
        token = self.rng.choice(driver.scans)
        try:
            driver.metadata.execute(PinScan(token, 30 * MINUTE_MS, renews=True))
        except PinOutdated:
            self.follow()
            assert token not in self.planned
            driver.scans.remove(token)

    def end(self) -> None:
        driver = self.driver()
        if driver.scans:
            driver.metadata.execute(UnpinScan(driver.scans.pop()))

    def sweep(self) -> None:
        sweep(self.driver().context, self.rng.choice([0, GRACE_MS]))

    def amid_sweep(self, name: str, key: str) -> None:
        """Others continue between what a sweep has read and what it deletes."""
        if name == "delete" and not self.is_amid_sweep and self.rng.random() < 0.7:
            self.is_amid_sweep = True
            for _ in range(self.rng.randint(1, 3)):
                self.rng.choice([self.scan, self.renew, self.end, self.destroy, self.sweep])()
                self.check()
            self.is_amid_sweep = False

    def time_passes(self) -> None:
        passed_ms = self.rng.choice([1_000, MINUTE_MS, 10 * MINUTE_MS, 40 * MINUTE_MS])
        for driver in self.drivers:
            driver.clock.advance_ms(passed_ms)

    # -- what holds --------------------------------------------------------------------------------------

    def follow(self) -> None:
        """The model reads the log entry by entry; a pin stands from its first record to the one that ends it."""
        while entries := self.log.read_after(self.seen_version, 1):
            ((self.seen_version, encoded),) = entries
            for record in decode_entry(encoded).records:
                if isinstance(record, ScanPinned):
                    self.planned.setdefault(record.token, set())
                elif isinstance(record, ScanUnpinned):
                    del self.planned[record.token]

    def there(self) -> set[str]:
        return {summary.key for summary in self.bucket.list()}

    def check(self) -> None:
        self.follow()
        there = self.there()
        for token, ids in self.planned.items():
            gone = sorted(object_id for object_id in ids if object_key(object_id) not in there)
            assert not gone, f"pin {token} stands, and objects {gone} of its plan were deleted"

    def check_images(self) -> None:
        """Drivers that were behind applied many entries at once; a new one applies all of them."""
        self.follow()
        newest = MetadataClient(self.log, ManualClock(), seeded_randomness(9)).image
        images: list[MetadataImage] = [driver.metadata.refresh() for driver in self.drivers]
        assert all(image == newest for image in images)
        assert set(newest.pins) == set(self.planned)

    def finish(self) -> None:
        """The scans are gone without a word. The sweeps of every driver continue."""
        self.bucket.before = lambda name, key: None
        for driver in self.drivers:
            driver.clock.advance_ms(DAY_MS + 2 * HOUR_MS)
        for driver in self.drivers:
            sweep(driver.context, GRACE_MS)
        self.check_images()
        image = self.first.image
        assert not image.pins and not image.destroyed
        committed = {
            object_key(each.object_id)
            for each in image.objects.values()
            if each.state is ObjectState.COMMITTED
        }
        assert self.there() == committed


WEIGHTS = {
    Walk.upload: 2,
    Walk.destroy: 8,
    Walk.scan: 5,
    Walk.renew: 4,
    Walk.end: 2,
    Walk.sweep: 8,
    Walk.time_passes: 6,
}


@settings(max_examples=examples(15))
@given(seed=st.integers(0, 2**32 - 1))
def test_sr27_no_object_of_a_standing_pin_is_deleted_and_all_are_in_the_end(seed: int) -> None:
    walk = Walk(random.Random(seed))
    for _ in range(STEPS):
        walk.rng.choices([*WEIGHTS], [*WEIGHTS.values()])[0](walk)
        walk.check()
    walk.check_images()
    walk.finish()
