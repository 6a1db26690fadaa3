import pytest

from siltstone.maintenance.sweep.sweeping import sweep
from siltstone.metadata.store_id import put_store_id
from siltstone.model.limits import GRACE_PERIOD_MS
from siltstone.model.objects import ObjectState
from siltstone.object_store.bucket_identity import mark
from siltstone.object_store.port import MultipartUpload
from siltstone.offline.settings import CompactionSettings
from siltstone.offline.tasks.runner import InProcessRunner
from siltstone.runtime.randomness import seeded_randomness
from support.maintenance.compacting import RoundNotDone, compact
from support.maintenance.compaction_sources import F1
from support.maintenance.compaction_world import CompactionWorld, scaled

SETTINGS = CompactionSettings(
    split_size_bytes=400, memory_bytes=1200, part_bytes_min=1, merged_block_bytes_max=1_000_000
)


@pytest.fixture
def foreign(world: CompactionWorld) -> CompactionWorld:
    """A store with objects, whose settings name a bucket that is another's."""
    world.upload(*scaled(F1, 4))
    world.metadata.execute(put_store_id(seeded_randomness(1)))
    mark(world.store, "f" * 32)
    return world


def calls_that_change(world: CompactionWorld) -> list[str]:
    return [
        name for name, _ in world.store.history if name not in ("head", "get_range", "list", "list_multipart")
    ]


def test_a_round_writes_nothing_into_another_store_s_bucket(foreign: CompactionWorld) -> None:
    foreign.store.history.clear()
    with pytest.raises(RoundNotDone, match="belongs to store"):
        compact(foreign.context, InProcessRunner(), SETTINGS)
    assert calls_that_change(foreign) == []
    assert {each.state for each in foreign.metadata.image.objects.values()} == {ObjectState.COMMITTED}


def test_a_sweep_deletes_and_aborts_nothing_in_another_store_s_bucket(foreign: CompactionWorld) -> None:
    foreign.upload({99: [(0, 10, 1000)]})
    foreign.delete_stream(99)
    upload = foreign.store.start_multipart("00/objects/00000000000000000000")
    foreign.clock.advance_ms(GRACE_PERIOD_MS)
    foreign.store.history.clear()
    report = sweep(foreign.context)
    assert "belongs to store" in report.passed_over[0]
    assert (report.objects_deleted, report.uploads_aborted) == (0, 0)
    assert calls_that_change(foreign) == []
    assert isinstance(upload, MultipartUpload)


def test_in_its_own_bucket_maintenance_does_its_work(world: CompactionWorld) -> None:
    world.upload(*scaled(F1, 4))
    store_id = world.metadata.execute(put_store_id(seeded_randomness(1))).decode()
    mark(world.store, store_id)
    assert compact(world.context, InProcessRunner(), SETTINGS).committed
    world.clock.advance_ms(GRACE_PERIOD_MS)
    report = sweep(world.context)
    assert report.passed_over == () and report.objects_deleted > 0
