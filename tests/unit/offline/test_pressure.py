"""GC17, GC18: what stops when there is no room, and what never does."""

from pathlib import Path

import msgspec
import pytest

from siltstone.carrying.pipeline.kind import Outcome
from siltstone.metadata.image import MetadataImage
from siltstone.offline.kind_rows import COPYING
from siltstone.offline.pressure import Measured, Pressure, Space, measure
from support.maintenance.collecting_world import all_dead_destroyed, collected, collection, settings
from support.maintenance.compaction_world import CompactionWorld

FREEING = {"sweep", "retention", "dead-objects"}


def at(use: float) -> Measured:
    return Measured((Space("the disk", round(use * 1000), 1000),))


def running(measured: Measured, *, is_forced: bool = False) -> set[str]:
    return {kind for kind in COPYING | FREEING if not measured.why_waits(kind, is_forced=is_forced)}


def test_gc17_what_stops_and_what_goes_on_again() -> None:
    seen = [(at(use).pressure, running(at(use))) for use in (0.5, 0.899, 0.90, 0.949, 0.95, 1.2, 0.92, 0.80)]
    everything, no_major, deleting = COPYING | FREEING, (COPYING | FREEING) - {"major-gc"}, FREEING
    none, warn, full = Pressure
    assert seen == [
        (none, everything),
        (none, everything),
        (warn, no_major),
        (warn, no_major),
        (full, deleting),
        (full, deleting),
        (warn, no_major),
        (none, everything),
    ]


def test_it_is_said_why() -> None:
    assert at(0.95).why_waits("minor-gc") == (
        "the disk is 95.0% full: minor-gc copies data, so it waits until there is more room"
    )


def test_gc18_forced_at_full_everything_is_tried_as_far_as_there_is_room() -> None:
    assert running(at(0.96), is_forced=True) == COPYING | FREEING
    assert at(0.96).room_bytes == 40
    assert at(1.3).room_bytes == 0


def test_gc18_forced_at_full_deletes_then_the_lowest_ratio_if_space_allows(world: CompactionWorld) -> None:
    for first, kept in ((0, 100), (2, 200), (4, 0)):
        world.upload({first: [(0, 10, 1000)], **({first + 1: [(0, 10, kept)]} if kept else {})})
        world.trim(first, 10)
    full = measure(world.metadata.image, {}, _Disks({}), quota_bytes=_total(world) + 150)
    assert full.pressure is Pressure.FULL and full.room_bytes == 150
    assert all_dead_destroyed(world.context, is_forced=True).units[0].outcome is Outcome.DONE
    limited = msgspec.structs.replace(world.context, quota_bytes=_total(world) + 150)
    assert limited.space() == full, "destroyed objects are not deleted yet"
    (done,) = collected(limited, collection(settings=settings(round_bytes=1)), is_forced=True).units
    assert (done.name, done.bytes_read) == ("objects from 0", 100)


def test_the_fullest_space_counts_for_pressure_and_the_smallest_room_for_copies() -> None:
    small, large = Space("small", 80, 100), Space("large", 9500, 10_000)
    both = Measured((small, large))
    assert (both.fullest, both.pressure, both.room_bytes) == (large, Pressure.FULL, 20)


def test_nothing_measured_is_no_pressure() -> None:
    nothing = Measured()
    assert (nothing.pressure, nothing.room_bytes, nothing.fullest) == (Pressure.NONE, None, None)
    assert running(nothing) == COPYING | FREEING


class _Disks:
    def __init__(self, spaces: dict[str, tuple[int, int]]) -> None:
        self._spaces = spaces

    def space_of(self, folder: Path) -> tuple[int, int]:
        try:
            return self._spaces[str(folder)]
        except KeyError:
            raise FileNotFoundError(folder) from None


def test_the_disks_of_buckets_that_are_folders() -> None:
    urls = {0: "file:///with%20space", 1: "s3://bucket/prefix", 2: "file:///gone", 3: "file:///with%20space"}
    measured = measure(MetadataImage(), urls, _Disks({"/with space": (96, 100)}))
    assert measured.spaces == (Space("the disk of /with space", 96, 100),)


def test_the_quota_counts_all_objects(world: CompactionWorld) -> None:
    world.upload({0: [(0, 10, 1000)]}, {0: [(10, 20, 1000)]})
    world.trim(0, 10)
    all_dead_destroyed(world.context)
    measured = measure(world.metadata.image, {}, _Disks({}), quota_bytes=5000)
    assert measured.spaces == (Space("the quota", _total(world), 5000),)


def _total(world: CompactionWorld) -> int:
    return sum(each.size_bytes for each in world.store.store.list())


@pytest.mark.parametrize("capacity", [0, -1])
def test_a_space_of_nothing_is_full(capacity: int) -> None:
    space = Space("odd", 0, capacity)
    assert (space.use, space.room_bytes) == (1.0, 0)
    assert msgspec.json.encode(space)
