import msgspec
import pytest

from siltstone.carrying.pipeline.set_aside import MAINTENANCE_LATE_MS, note_run, why_late
from siltstone.model.limits import DAY_MS
from support.maintenance.compaction_world import CompactionWorld


def late(world: CompactionWorld) -> str | None:
    return why_late(world.metadata.refresh(), world.clock.now_ms())


def test_an_empty_store_is_never_late(world: CompactionWorld) -> None:
    world.clock.advance_ms(100 * DAY_MS)
    assert late(world) is None


def test_a_store_that_nobody_has_ever_maintained(world: CompactionWorld) -> None:
    world.upload({0: [(0, 5, 100)]}, data_time_ms=world.clock.now_ms())
    world.clock.advance_ms(MAINTENANCE_LATE_MS - 1)
    assert late(world) is None
    world.clock.advance_ms(1)
    words = late(world)
    assert words is not None
    assert words.startswith(
        "No maintenance has ever run on this store, which has 1 object. The store only grows"
    )
    assert "siltstone maintain serve" in words and "--with-maintenance" in words


@pytest.mark.parametrize("was_idle", [True, False])
def test_the_latest_run_of_any_kind_counts(world: CompactionWorld, was_idle: bool) -> None:
    world.upload({0: [(0, 5, 100)]}, data_time_ms=0)
    note_run(world.context, "sweep", "nothing to do", was_idle=was_idle)
    world.clock.advance_ms(DAY_MS)
    note_run(world.context, "retention", "nothing to do", was_idle=was_idle)
    world.clock.advance_ms(MAINTENANCE_LATE_MS - 1)
    assert late(world) is None
    world.clock.advance_ms(1)
    assert (late(world) or "").startswith("No maintenance has run on this store for 2 days. ")
    world.clock.advance_ms(DAY_MS + 1000)
    assert (late(world) or "").startswith("No maintenance has run on this store for 3 days. ")


def test_a_run_noted_by_a_clock_that_was_ahead_is_no_lateness(world: CompactionWorld) -> None:
    world.clock.advance_ms(10 * DAY_MS)
    note_run(world.context, "sweep", "nothing to do", was_idle=False)
    image = world.metadata.refresh()
    assert why_late(image, world.clock.now_ms() - 5 * DAY_MS) is None
    assert msgspec.json.encode(why_late(image, world.clock.now_ms())) == b"null"
