"""GC17 and GC18 by way of the pipeline: a kind that copies plans nothing while there is no room, and says why."""

from pathlib import Path
from random import Random

import msgspec
import pytest

from siltstone.carrying.pipeline.kind import Kind, Plan, Scope
from siltstone.carrying.pipeline.running import plan_of
from siltstone.carrying.pipeline.watch import Watch
from siltstone.maintenance.kinds import chosen_kinds
from siltstone.object_store.folder.store import FolderStore
from siltstone.offline.context import MaintenanceContext
from siltstone.offline.kind_rows import COPYING, FREEING
from siltstone.offline.settings import KindSettings
from siltstone.runtime.clock import ManualClock
from support.maintenance.collecting_world import collected, collection
from support.maintenance.compaction_world import CompactionWorld


class _Disk:
    """The one disk of the machine, of 100,000,000 bytes."""

    def __init__(self, percent_used: int) -> None:
        self.percent_used = percent_used

    def space_of(self, folder: Path) -> tuple[int, int]:
        return self.percent_used * 1_000_000, 100_000_000


class _NoDisks:
    def space_of(self, folder: Path) -> tuple[int, int]:
        raise AssertionError("no bucket is a folder")


@pytest.fixture
def in_folder(tmp_path: Path) -> CompactionWorld:
    """A store with a sparse object, in a bucket that is a folder."""
    world = CompactionWorld(FolderStore(tmp_path, ManualClock(), Random(1)))
    sparse(world)
    return world


def sparse(world: CompactionWorld) -> None:
    world.upload({0: [(0, 10, 900)], 1: [(0, 10, 100)]})
    world.trim(0, 10)


def with_disk(world: CompactionWorld, disk: _Disk) -> MaintenanceContext:
    return msgspec.structs.replace(world.context, disks=disk)


def planned(context: MaintenanceContext, kind: Kind, *, is_forced: bool = False) -> Plan:
    return plan_of(context, kind, Scope(is_forced=is_forced), Watch(kind.name, context.clock))


def test_gc17_a_kind_that_copies_waits_and_goes_on_by_itself(in_folder: CompactionWorld) -> None:
    disk = _Disk(97)
    context = with_disk(in_folder, disk)
    for percent in (97, 91):
        disk.percent_used = percent
        plan = planned(context, collection())
        assert (plan.kind, plan.units, plan.has_remaining, plan.work) == ("major-gc", (), False, None)
        (unplanned,) = plan.unplanned
        assert (unplanned.name, f"{percent}.0% full" in unplanned.reason) == ("all", True)
        assert collected(context).in_one_line == "nothing to do"
    disk.percent_used = 80
    assert len(collected(context).done) == 1


def test_gc18_forced_it_does_what_there_is_room_for(in_folder: CompactionWorld) -> None:
    context = with_disk(in_folder, _Disk(99))
    assert collected(context).units == ()
    assert len(collected(context, is_forced=True).units) == 1


def test_the_quota_is_measured_against_the_newest_image(world: CompactionWorld) -> None:
    """An upload by another process counts as soon as a kind plans."""
    sparse(world)
    used = len(world.bytes_of(0))
    context = msgspec.structs.replace(world.another_context(), disks=_NoDisks(), quota_bytes=2 * used)
    (quota,) = context.space().spaces
    assert (quota.name, quota.capacity_bytes, quota.used_bytes) == ("the quota", 2 * used, used)
    assert planned(context, collection()).units
    (more,) = world.upload({1: [(10, 20, 1050)]})
    assert used + len(world.bytes_of(more)) > 0.95 * 2 * used
    plan = planned(context, collection())
    assert not plan.units and "the quota is" in plan.unplanned[0].reason


@pytest.mark.parametrize(
    ("percent_used", "waiting"), [(50, set()), (91, {"major-gc"}), (96, COPYING), (120, COPYING)]
)
def test_gc17_every_kind_that_copies_waits_for_room_and_no_other(
    in_folder: CompactionWorld, percent_used: int, waiting: set[str]
) -> None:
    context = with_disk(in_folder, _Disk(percent_used))
    waits = {
        kind.name
        for kind in chosen_kinds(KindSettings())
        if any("waits until there is more room" in each.reason for each in planned(context, kind).unplanned)
    }
    assert waits == waiting


def test_kinds_that_copy_and_kinds_that_free_are_all_kinds_in_this_order() -> None:
    names = [kind.name for kind in chosen_kinds(KindSettings())]
    assert set(names) == COPYING | FREEING
    assert not COPYING & FREEING
    assert names.index("minor-gc") < names.index("sso-compaction") < names.index("major-gc")
