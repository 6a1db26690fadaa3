"""The sweep and scan pins: objects in the image of a live pin are kept, whatever the clocks say, and are deleted when
the pin ends."""

from collections.abc import Callable

import pytest

from siltstone.maintenance.checking.check import check
from siltstone.maintenance.checking.repair_plan import plan_repair
from siltstone.maintenance.checking.repairing import repair
from siltstone.maintenance.sweep.sweeping import sweep
from siltstone.metadata.client import MetadataClient
from siltstone.metadata.commands import SHARED_PIN, PinScan, UnpinScan
from siltstone.metadata.refusals import PinOutdated
from siltstone.model.limits import (
    COMPACTION_TIME_LIMIT_MS,
    GRACE_PERIOD_MS,
    HOUR_MS,
    MINUTE_MS,
    SCAN_PIN_OVERDUE_MS,
)
from siltstone.model.objects import object_key
from siltstone.object_store.buckets import Buckets
from siltstone.offline.context import MaintenanceContext
from siltstone.runtime.clock import ManualClock
from siltstone.runtime.randomness import seeded_randomness
from support.engine.batches import batch
from support.maintenance.collecting_world import all_dead_destroyed
from support.maintenance.maintained_store import MaintainedStore


def driver(world: MaintainedStore, ahead_ms: int = 0) -> MaintenanceContext:
    """Another process, whose clock is ahead of the world's."""
    clock = ManualClock(world.clock.now_ms() + ahead_ms)
    client = MetadataClient(world.log, clock, seeded_randomness(7))
    return MaintenanceContext(client, Buckets(world.stores), clock, seeded_randomness(8))


def planned(world: MaintainedStore, context: MaintenanceContext, token: str = "q") -> set[str]:
    """What a scan would read that pins, refreshes and plans now."""
    context.metadata.execute(PinScan(token, HOUR_MS, "a query"))
    return {
        object_key(held.object_id)
        for stream in context.metadata.refresh().streams.values()
        for held in stream.ranges
    }


def compacted(world: MaintainedStore, stream_id: int) -> None:
    world.compact((0, 1), [batch(stream_id, 0, 60, 100)])


def trimmed(world: MaintainedStore, stream_id: int) -> None:
    world.trim(stream_id, 60)
    all_dead_destroyed(world.context)


def deleted(world: MaintainedStore, stream_id: int) -> None:
    world.delete_stream(stream_id)
    all_dead_destroyed(world.context)


@pytest.mark.parametrize("destroyed", [compacted, trimmed, deleted])
def test_sr8_what_a_scan_has_planned_is_there_until_its_pin_ends(
    destroyed: Callable[[MaintainedStore, int], None],
) -> None:
    world = MaintainedStore()
    stream_id = world.new_stream()
    world.append(stream_id)
    world.append(stream_id)
    plan = planned(world, world.context)
    destroyed(world, stream_id)
    assert len(world.image.destroyed) == 2
    report = sweep(world.context, grace_period_ms=0)
    assert (report.objects_deleted, report.objects_pinned, report.pins_ended) == (0, 2, 0)
    assert report.bytes_pinned == sum(world.image.objects[number].size_bytes for number in (0, 1)) > 0
    assert plan <= world.keys()
    world.clock.advance_ms(HOUR_MS + SCAN_PIN_OVERDUE_MS - 1)
    sweep(world.context, grace_period_ms=0)
    assert plan <= world.keys()
    world.clock.advance_ms(1)
    report = sweep(world.context, grace_period_ms=0)
    assert (report.objects_deleted, report.objects_pinned, report.pins_ended) == (2, 0, 1)
    assert not plan & world.keys() and world.keys() == world.committed_keys()
    assert not world.image.pins


def test_sr9_a_scan_whose_pin_was_ended_is_told_when_it_renews() -> None:
    world = MaintainedStore()
    scan = driver(world)
    planned(world, scan)
    world.clock.advance_ms(HOUR_MS + SCAN_PIN_OVERDUE_MS)
    sweep(world.context)
    with pytest.raises(PinOutdated, match="plan the scan again"):
        scan.metadata.execute(PinScan("q", HOUR_MS, renews=True))


@pytest.mark.parametrize("ahead_ms", [20 * MINUTE_MS, -20 * MINUTE_MS, -HOUR_MS - SCAN_PIN_OVERDUE_MS + 1])
def test_sr27_versions_decide_and_no_clock(ahead_ms: int) -> None:
    """The scan's clock is ahead, or behind; the objects are destroyed in the entry right after its pin."""
    world = MaintainedStore()
    stream_id = world.new_stream()
    world.append(stream_id)
    world.append(stream_id)
    plan = planned(world, driver(world, ahead_ms))
    compacted(world, stream_id)
    sweep(world.context, grace_period_ms=0)
    assert plan <= world.keys()


def test_sr27_a_pin_that_was_ended_early_by_a_clock_was_ended_by_a_record() -> None:
    """A scan that is far behind loses its pin to the sweep. The sweep deletes nothing before it has recorded that, and
    the scan gets an error."""
    world = MaintainedStore()
    stream_id = world.new_stream()
    world.append(stream_id)
    world.append(stream_id)
    scan = driver(world, ahead_ms=-2 * HOUR_MS)
    plan = planned(world, scan)
    compacted(world, stream_id)
    stood: list[bool] = []
    world.store.before = lambda name, _: (
        stood.append("q" in scan.metadata.refresh().pins) if name == "delete" else None
    )
    sweep(world.context, grace_period_ms=0)
    assert stood == [False] and not plan & world.keys()
    with pytest.raises(PinOutdated):
        scan.metadata.execute(PinScan("q", HOUR_MS, renews=True))


def test_a_renewal_between_the_sweep_s_look_and_its_record_keeps_the_pin() -> None:
    world = MaintainedStore()
    stream_id = world.new_stream()
    world.append(stream_id)
    world.append(stream_id)
    scan = driver(world)
    plan = planned(world, scan)
    compacted(world, stream_id)
    world.clock.advance_ms(HOUR_MS + SCAN_PIN_OVERDUE_MS)
    scan.clock.advance_ms(HOUR_MS)
    world.log.before_append.append(lambda: scan.metadata.execute(PinScan("q", HOUR_MS, renews=True)))
    assert sweep(world.context, grace_period_ms=0).pins_ended == 0
    assert plan <= world.keys() and "q" in world.image.pins


def test_a_pin_that_is_put_during_a_sweep_stops_neither_it_nor_its_record() -> None:
    """The objects were destroyed before the pin, so no scan under it names them."""
    world = MaintainedStore()
    stream_id = world.new_stream()
    world.append(stream_id)
    world.append(stream_id)
    compacted(world, stream_id)
    scan = driver(world)
    plans: list[set[str]] = []
    world.store.before = lambda name, _: (
        plans.append(planned(world, scan, f"q{len(plans)}")) if name == "delete" else None
    )
    assert sweep(world.context, grace_period_ms=0).objects_deleted == 2
    assert plans[0] <= world.keys() and not world.image.destroyed


def test_sr28_scans_that_share_a_pin_are_held_from_the_first_on() -> None:
    world = MaintainedStore()
    stream_id = world.new_stream()
    world.append(stream_id)
    world.append(stream_id)
    first = planned(world, world.context, SHARED_PIN)
    compacted(world, stream_id)
    second = planned(world, driver(world), SHARED_PIN)
    assert len(world.image.pins) == 1 and first != second
    sweep(world.context, grace_period_ms=0)
    assert first | second <= world.keys()
    world.clock.advance_ms(HOUR_MS + MINUTE_MS + SCAN_PIN_OVERDUE_MS)
    sweep(world.context, grace_period_ms=0)
    assert world.keys() == world.committed_keys()


def test_sr8_a_repair_leaves_what_a_scan_holds() -> None:
    """However old: an object that a pin holds stays in the metadata, so it is no orphan."""
    world = MaintainedStore()
    stream_id = world.new_stream()
    world.append(stream_id)
    world.append(stream_id)
    plan = planned(world, world.context)
    compacted(world, stream_id)
    world.clock.advance_ms(COMPACTION_TIME_LIMIT_MS + GRACE_PERIOD_MS)
    image = world.image
    found = check(world.context)
    assert [finding.text for finding in found.findings if "scans that hold it" in finding.text]
    repair(world.context, plan_repair(found, image.objects, world.clock.now_ms()))
    assert plan <= world.keys()
    world.metadata.execute(UnpinScan("q"))
    sweep(world.context)
    assert world.keys() == world.committed_keys()
