import pytest
from msgspec.structs import replace

from siltstone.maintenance.key_compaction.planning.binding import Binding, input_of, outputs_max
from siltstone.maintenance.key_compaction.task_input import CODEC
from siltstone.model.limits import COMPACTION_STREAM_OBJECTS_MAX
from siltstone.offline.settings import KeyCompactionSettings
from support.maintenance.keyed_metadata import KeyedMetadata

SETTINGS = KeyCompactionSettings(map_bytes_max=1, memory_bytes=2, object_bytes=3, block_bytes=4)
BINDING = Binding(
    pass_ms_max=70,
    start_offset=0,
    now_ms=1_000,
    latest_ms=1_500,
    first_object_id=70,
    object_count_max=8,
    output_bucket_id=0,
    bucket_urls={0: "memory://a", 1: "memory://b"},
    hash_key=bytes(16),
)


def test_everything_finds_its_place(world: KeyedMetadata) -> None:
    world.filled(world.topic(delete_retention_ms="20"), 100)
    plan = world.the_plan()
    given = input_of(plan, BINDING, SETTINGS)
    assert CODEC.decode_input(CODEC.encode_input(given)) == given
    assert (given.map_bytes_max, given.memory_bytes, given.object_bytes, given.block_bytes) == (1, 2, 3, 4)
    assert (given.now_ms, given.horizon_ms) == (1_000, 1_520), "tombstones' time begins at the latest commit"
    assert (given.first_object_id, given.object_count_max, given.hash_key) == (70, 8, bytes(16))
    assert (given.dirty_offset, given.bound, given.sources) == (0, 100, plan.sources)
    assert given.bucket_urls == {0: "memory://a"}, "a task is given what it needs"


def test_for_ever_is_as_long_as_64_bits_count(world: KeyedMetadata) -> None:
    world.filled(world.topic(delete_retention_ms=str(2**63 - 1)), 100)
    assert input_of(world.the_plan(), BINDING, SETTINGS).horizon_ms == 2**63 - 1


@pytest.mark.parametrize(("start_offset", "dirty_offset"), [(0, 40), (40, 40), (60, 60), (100, 100)])
def test_a_trim_since_the_plan_was_made(world: KeyedMetadata, start_offset, dirty_offset) -> None:
    stream = world.topic()
    world.filled(stream, 100)
    world.cleaned(stream, 40)
    given = input_of(world.the_plan(), replace(BINDING, start_offset=start_offset), SETTINGS)
    assert (given.start_offset, given.dirty_offset) == (start_offset, dirty_offset)


def test_as_many_ids_as_outputs_may_need(world: KeyedMetadata) -> None:
    world.filled(world.topic(), 100)
    plan = world.the_plan()
    assert plan.source_bytes == 1100
    assert outputs_max(plan, 10_000) == 2
    assert outputs_max(plan, 1_100) == 3
    assert outputs_max(plan, 1) == 2201
    large = replace(plan, sources=(replace(plan.sources[0], size_bytes=2**50),))
    assert outputs_max(large, 1) == COMPACTION_STREAM_OBJECTS_MAX
