"""The task by itself: one iteration of a real plan, run as an executor would run it."""

from concurrent.futures import ThreadPoolExecutor

import msgspec
import pytest

from siltstone.maintenance.compaction import plan_round
from siltstone.maintenance.planning.plan import CompactionPlan
from siltstone.maintenance.rewriting.run import run_iteration
from siltstone.maintenance.rewriting.unit import IterationUnit, decode_result, decode_unit, encode_unit
from siltstone.maintenance.settings import CompactionSettings
from siltstone.model.objects import object_key
from siltstone.object_formats.block_check import DamagedBlock
from siltstone.object_store.port import MultipartUpload, ObjectNotFound, UploadNotFound
from support.compaction_sources import F1
from support.compaction_world import CompactionWorld, scaled

SETTINGS = CompactionSettings(
    split_size_bytes=400,
    memory_bytes=5000,
    part_bytes_min=1,
    merged_block_bytes_max=1_000_000,
    read_request_bytes_max=200,
)
FIRST_ID = 1000


def planned(world: CompactionWorld) -> tuple[CompactionPlan, IterationUnit]:
    world.upload(*scaled(F1, 4))
    plan = plan_round(world.context, SETTINGS)
    upload = world.store.start_multipart(object_key(FIRST_ID))
    unit = IterationUnit(plan.iteration(0), {0: world.store.url}, 0, FIRST_ID, upload)
    return plan, unit


def written(world: CompactionWorld, plan: CompactionPlan) -> dict[int, bytes]:
    return {FIRST_ID + at: world.bytes_of(FIRST_ID + at) for at in range(1, plan.object_count)}


def test_unit_survives_its_encoding(world: CompactionWorld) -> None:
    _, unit = planned(world)
    assert decode_unit(encode_unit(unit)) == unit


def test_result_says_what_was_done(world: CompactionWorld) -> None:
    plan, unit = planned(world)
    result = decode_result(run_iteration(encode_unit(unit)))
    sets, objects = plan.new_objects(FIRST_ID)
    assert [(each.object_id, each.size_bytes) for each in result.stream_objects] == [
        (new.object_id, new.size_bytes) for new in objects
    ]
    assert result.part is not None and sets is not None
    assert (result.part.part_number, result.part.position, result.part.size_bytes) == (1, 0, sets.size_bytes)
    assert (result.read_requests, result.bytes_read) == (len(unit.iteration.reads), plan.live_bytes)
    assert (result.write_requests, result.bytes_written) == (
        4,
        sum(map(len, written(world, plan).values())) + sets.size_bytes,
    )


def test_blocks_that_lie_in_two_reads_are_whole(world: CompactionWorld) -> None:
    """Blocks of up to 540 bytes, reads of at most 200."""
    _, unit = planned(world)
    assert max(read.end - read.start for read in unit.iteration.reads) == 200
    run_iteration(encode_unit(unit))
    assert world.bytes_of(FIRST_ID + 1)


def test_twice_is_once(world: CompactionWorld) -> None:
    plan, unit = planned(world)
    first = run_iteration(encode_unit(unit))
    bytes_after_first = written(world, plan)
    second = run_iteration(encode_unit(unit))
    assert written(world, plan) == bytes_after_first
    assert msgspec.structs.replace(decode_result(first), peak_memory_bytes=0) == msgspec.structs.replace(
        decode_result(second), peak_memory_bytes=0
    )


def test_side_by_side_is_once(world: CompactionWorld) -> None:
    plan, unit = planned(world)
    with ThreadPoolExecutor(4) as pool:
        results = [decode_result(each) for each in pool.map(run_iteration, [encode_unit(unit)] * 4)]
    assert {each.part for each in results} == {results[0].part}
    assert {each.stream_objects for each in results} == {results[0].stream_objects}
    alone = written(world, plan)
    run_iteration(encode_unit(unit))
    assert written(world, plan) == alone


def test_a_damaged_block_is_never_written_on(world: CompactionWorld) -> None:
    _, unit = planned(world)
    source = unit.iteration.sources[2].object_id
    world.damage(source, 3)
    with pytest.raises(
        DamagedBlock, match=rf"block at 0 of object {source}, stream 1 \[400, 500\)"
    ) as caught:
        run_iteration(encode_unit(unit))
    assert (caught.value.object_id, caught.value.entry.stream_id) == (source, 1)
    holder = next(piece for piece in unit.iteration.stream_objects if piece.number == 2)
    assert object_key(FIRST_ID + holder.number) not in world.bucket_keys()


def test_a_late_attempt_finds_the_upload_ended(world: CompactionWorld) -> None:
    _, unit = planned(world)
    assert isinstance(unit.upload, MultipartUpload)
    world.store.abort_multipart(unit.upload)
    with pytest.raises(UploadNotFound):
        run_iteration(encode_unit(unit))


def test_a_source_that_is_gone_is_named(world: CompactionWorld) -> None:
    _, unit = planned(world)
    world.store.delete([object_key(unit.iteration.sources[0].object_id)])
    with pytest.raises(ObjectNotFound):
        run_iteration(encode_unit(unit))
