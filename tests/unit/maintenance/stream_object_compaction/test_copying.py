"""The task by itself: parts of a real merge, run as an executor would run it."""

import msgspec
import pytest

from siltstone.maintenance.indexes import read_indexes
from siltstone.maintenance.planning.stream_objects.groups import Group, Level
from siltstone.maintenance.planning.stream_objects.merge import plan_merge
from siltstone.maintenance.stream_object_compaction.copying import run_copies
from siltstone.maintenance.stream_object_compaction.merging import Merging
from siltstone.maintenance.stream_object_compaction.unit import (
    CopyResult,
    CopyUnit,
    decode_result,
    decode_unit,
    encode_result,
    encode_unit,
)
from siltstone.model.objects import object_key
from support.compaction_world import CompactionWorld
from support.stream_object_world import SMALL, add_stream_object

NEW_ID = 1_000


@pytest.fixture
def merging(world: CompactionWorld) -> Merging:
    for at, size in enumerate([1_500, 400, 3_000, 300, 2_000, 200]):
        add_stream_object(world, 0, (10 * at, 10 * at + 5, size // 2), (10 * at + 5, 10 * at + 10, size // 2))
    image = world.metadata.image
    sources, _ = read_indexes(world.context.buckets, [*image.objects.values()])
    group = Group(Level.MAJOR, tuple(source.metadata for source in sources))
    made = Merging(group, plan_merge(sources, image.streams, SMALL), NEW_ID, world.store)
    made.start()
    return made


def unit_of(merging: Merging) -> CopyUnit:
    (unit,) = merging.units(3, SMALL.read_request_bytes_max)
    return unit


def run(unit: CopyUnit) -> CopyResult:
    return decode_result(run_copies(encode_unit(unit)))


def test_unit_and_result_survive_their_encoding(merging: Merging) -> None:
    unit = unit_of(merging)
    assert decode_unit(encode_unit(unit)) == unit
    result = run(unit)
    assert decode_result(encode_result(result)) == result


def test_result_says_what_was_done(world: CompactionWorld, merging: Merging) -> None:
    unit = unit_of(merging)
    assert len(unit.copied) == 3 and len(unit.read) == 3
    result = run(unit)
    assert (result.number, result.failure) == (3, "")
    assert result.bytes_copied == merging.merge.bytes_copied == 1_500 + 1_500 + 1_000
    assert result.bytes_read == merging.merge.data_bytes - result.bytes_copied
    assert result.bytes_written == result.bytes_read + len(merging.merge.trailer)
    merging.take(result)
    merging.complete()
    assert len(world.bytes_of(NEW_ID)) == merging.merge.size_bytes


def test_twice_is_once(world: CompactionWorld, merging: Merging) -> None:
    unit = unit_of(merging)
    first, second = (msgspec.structs.replace(run(unit), peak_memory_bytes=0) for _ in range(2))
    assert first == second
    merging.take(second)
    merging.complete()
    late = run(unit)
    assert late.failure.startswith("UploadNotFound"), "an attempt that comes late changes nothing"
    assert len(world.bytes_of(NEW_ID)) == merging.merge.size_bytes


def test_trouble_is_an_answer(world: CompactionWorld, merging: Merging) -> None:
    world.store.store.delete([object_key(4)])
    result = run(unit_of(merging))
    assert (result.number, result.parts) == (3, ())
    assert result.failure.startswith("ObjectNotFound: no object")


def test_a_bug_is_none(merging: Merging) -> None:
    unit = msgspec.structs.replace(unit_of(merging), upload=None)
    with pytest.raises(AssertionError, match="into an upload"):
        run(unit)
