"""The task by itself: one iteration of a real plan, run as an executor would run it."""

import re
from concurrent.futures import ThreadPoolExecutor

import msgspec
import pytest

from siltstone.maintenance.stream_set_compaction.plan import CompactionPlan
from siltstone.maintenance.stream_set_compaction.task import run_iteration
from siltstone.maintenance.stream_set_compaction.task_input import CODEC, IterationInput
from siltstone.model.objects import object_key
from siltstone.object_store.port import MultipartUpload, UploadNotFound
from siltstone.offline.settings import CompactionSettings
from support.engine.replacing import replace_object
from support.maintenance.compacting import planned_round
from support.maintenance.compaction_sources import F1
from support.maintenance.compaction_world import CompactionWorld, scaled

SETTINGS = CompactionSettings(
    split_size_bytes=400,
    memory_bytes=5000,
    part_bytes_min=1,
    merged_block_bytes_max=1_000_000,
    read_request_bytes_max=200,
)
FIRST_ID = 1000


def planned(world: CompactionWorld) -> tuple[CompactionPlan, IterationInput]:
    world.upload(*scaled(F1, 4))
    plan = planned_round(world.context, SETTINGS)
    upload = world.store.start_multipart(object_key(FIRST_ID))
    iteration = plan.iteration(0)
    homes = (0,) * len(iteration.stream_objects)
    given = IterationInput(iteration, {0: world.store.url}, 0, homes, FIRST_ID, upload)
    return plan, given


def written(world: CompactionWorld, plan: CompactionPlan) -> dict[int, bytes]:
    return {FIRST_ID + at: world.bytes_of(FIRST_ID + at) for at in range(1, plan.object_count)}


def test_input_survives_its_encoding(world: CompactionWorld) -> None:
    _, given = planned(world)
    assert CODEC.decode_input(CODEC.encode_input(given)) == given


def test_result_says_what_was_done(world: CompactionWorld) -> None:
    plan, given = planned(world)
    result = CODEC.decode_result(run_iteration(CODEC.encode_input(given)))
    sets, objects = plan.new_objects(FIRST_ID)
    assert [(each.object_id, each.size_bytes) for each in result.stream_objects] == [
        (new.object_id, new.size_bytes) for new in objects
    ]
    assert result.part is not None and sets is not None
    assert (result.part.part_number, result.part.position, result.part.size_bytes) == (1, 0, sets.size_bytes)
    assert (result.read_requests, result.bytes_read) == (len(given.iteration.reads), plan.live_bytes)
    assert (result.write_requests, result.bytes_written) == (
        4,
        sum(map(len, written(world, plan).values())) + sets.size_bytes,
    )


def test_blocks_that_lie_in_two_reads_are_whole(world: CompactionWorld) -> None:
    """Blocks of up to 540 bytes, reads of at most 200."""
    _, given = planned(world)
    assert max(read.end - read.start for read in given.iteration.reads) == 200
    run_iteration(CODEC.encode_input(given))
    assert world.bytes_of(FIRST_ID + 1)


def test_twice_is_once(world: CompactionWorld) -> None:
    plan, given = planned(world)
    first = run_iteration(CODEC.encode_input(given))
    bytes_after_first = written(world, plan)
    second = run_iteration(CODEC.encode_input(given))
    assert written(world, plan) == bytes_after_first
    assert msgspec.structs.replace(
        CODEC.decode_result(first), peak_memory_bytes=0
    ) == msgspec.structs.replace(CODEC.decode_result(second), peak_memory_bytes=0)


def test_side_by_side_is_once(world: CompactionWorld) -> None:
    plan, given = planned(world)
    with ThreadPoolExecutor(4) as pool:
        results = [
            CODEC.decode_result(each) for each in pool.map(run_iteration, [CODEC.encode_input(given)] * 4)
        ]
    assert {each.part for each in results} == {results[0].part}
    assert {each.stream_objects for each in results} == {results[0].stream_objects}
    alone = written(world, plan)
    run_iteration(CODEC.encode_input(given))
    assert written(world, plan) == alone


def test_a_damaged_block_is_never_written_on(world: CompactionWorld) -> None:
    _, given = planned(world)
    source = given.iteration.sources[2].object_id
    world.damage(source, 3)
    result = CODEC.decode_result(run_iteration(CODEC.encode_input(given)))
    assert result.failure is not None and result.failure.object_id == source
    named = rf"^DamagedBlock: .*block at 0 of object {source}, stream 1 \[400, 500\)"
    assert re.search(named, result.failure.reason)
    assert (result.number, result.part, result.stream_objects) == (1, None, ())
    holder = next(piece for piece in given.iteration.stream_objects if piece.number == 2)
    assert object_key(FIRST_ID + holder.number) not in world.bucket_keys()


def test_a_late_attempt_finds_the_upload_ended(world: CompactionWorld) -> None:
    _, given = planned(world)
    assert isinstance(given.upload, MultipartUpload)
    world.store.abort_multipart(given.upload)
    with pytest.raises(UploadNotFound):
        run_iteration(CODEC.encode_input(given))


def test_a_source_that_is_gone_is_named(world: CompactionWorld) -> None:
    _, given = planned(world)
    source = given.iteration.sources[0].object_id
    world.store.delete([object_key(source)])
    result = CODEC.decode_result(run_iteration(CODEC.encode_input(given)))
    assert result.failure is not None and result.failure.object_id == source
    assert re.search(rf"object {source} cannot be read: ObjectNotFound", result.failure.reason)


def test_a_source_that_is_shorter_than_its_index_says_is_named(world: CompactionWorld) -> None:
    _, given = planned(world)
    source = given.iteration.sources[0].object_id
    replace_object(world.store.store, object_key(source), [world.bytes_of(source)[:10]])
    result = CODEC.decode_result(run_iteration(CODEC.encode_input(given)))
    assert result.failure is not None and result.failure.object_id == source
    assert re.search(rf"object {source} cannot be read: ObjectTruncated", result.failure.reason)
