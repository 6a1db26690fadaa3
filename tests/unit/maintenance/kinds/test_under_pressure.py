"""GC17, by way of the kinds: what waits plans nothing, and says why."""

from pathlib import Path

from siltstone.maintenance.kinds.settings import KindSettings
from siltstone.maintenance.kinds.table import FREEING, all_kinds
from siltstone.maintenance.kinds.under_pressure import UnderPressure, measuring
from siltstone.maintenance.pipeline.scope import Scope
from siltstone.maintenance.pipeline.watch import Watch
from siltstone.maintenance.pressure import COPYING, Measured, Space
from support.collecting_world import collected, collection
from support.compaction_world import CompactionWorld


def sparse(world: CompactionWorld) -> None:
    world.upload({0: [(0, 10, 900)], 1: [(0, 10, 100)]})
    world.trim(0, 10)


def test_gc17_a_kind_that_copies_waits_and_goes_on_by_itself(world: CompactionWorld) -> None:
    sparse(world)
    used = [97, 91, 80]
    kind = UnderPressure(collection(), lambda context: Measured((Space("the disk", used[0], 100),)))
    assert (kind.name, kind.lease_ms) == ("major-gc", collection().lease_ms)
    for use in (97, 91):
        used[0] = use
        plan = kind.plan(world.context, Scope(), Watch("major-gc", world.clock))
        assert (plan.kind, plan.units, plan.has_remaining) == ("major-gc", (), False)
        assert f"{use}.0% full" in plan.unplanned[0].reason
        assert collected(world.context, kind).in_one_line == "nothing to do"
    used[0] = 80
    assert len(collected(world.context, kind).done) == 1


def test_gc18_forced_it_does_what_there_is_room_for(world: CompactionWorld) -> None:
    sparse(world)
    kind = UnderPressure(collection(), lambda context: Measured((Space("the disk", 99, 100),)))
    assert collected(world.context, kind).units == ()
    assert len(collected(world.context, kind, is_forced=True).units) == 1


class _NoDisks:
    def space_of(self, folder: Path) -> tuple[int, int]:
        raise AssertionError("no bucket is a folder")


def test_the_quota_is_measured_against_the_image(world: CompactionWorld) -> None:
    sparse(world)
    measured = measuring(_NoDisks(), 10_000)(world.context)
    (quota,) = measured.spaces
    assert (quota.name, quota.capacity_bytes) == ("the quota", 10_000)
    assert quota.used_bytes == len(world.bytes_of(0))


def test_every_kind_that_copies_waits_for_room_and_no_other() -> None:
    kinds = all_kinds(KindSettings())
    assert {kind.name for kind in kinds if isinstance(kind, UnderPressure)} == COPYING
    assert {kind.name for kind in kinds if not isinstance(kind, UnderPressure)} <= FREEING
    names = [kind.name for kind in kinds]
    assert names.index("minor-gc") < names.index("sso-compaction") < names.index("major-gc")
