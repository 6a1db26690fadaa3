"""The task by itself: parts of a real merge, run as an executor would run it."""

import msgspec
import pytest

from siltstone.carrying.pipeline.kind import NO_JOB, Attempt
from siltstone.carrying.pipeline.watch import Watch
from siltstone.maintenance.stream_object_compaction.carrying_out import Merging
from siltstone.maintenance.stream_object_compaction.merge import plan_merge
from siltstone.maintenance.stream_object_compaction.planning import MergeGroup
from siltstone.maintenance.stream_object_compaction.task import run_copies
from siltstone.maintenance.stream_object_compaction.task_input import CODEC, CopyInput, CopyResult
from siltstone.model.objects import object_key
from siltstone.offline.blocks.indexes import read_indexes
from siltstone.offline.settings import Level
from siltstone.offline.tasks.runner import InProcessRunner
from support.maintenance.compaction_world import CompactionWorld
from support.maintenance.stream_object_world import SMALL, add_stream_object

NEW_ID = 1_000


@pytest.fixture
def merging(world: CompactionWorld) -> Merging:
    for at, size in enumerate([1_500, 400, 3_000, 300, 2_000, 200]):
        add_stream_object(world, 0, (10 * at, 10 * at + 5, size // 2), (10 * at + 5, 10 * at + 10, size // 2))
    image = world.metadata.image
    sources, _ = read_indexes(world.context.buckets, [*image.objects.values()])
    group = MergeGroup(Level.MAJOR, tuple(source.metadata for source in sources))
    attempt = Attempt(world.context, InProcessRunner, NO_JOB, Watch("so-compaction", world.context.clock))
    merge = plan_merge(sources, image.streams, SMALL)
    made = Merging(group.name, merge, attempt, group.bucket_id, SMALL.read_request_bytes_max)
    made.prepared(NEW_ID)
    made.begin()
    return made


def input_of(merging: Merging) -> CopyInput:
    (given,) = merging.task_inputs()
    return given


def run(given: CopyInput) -> CopyResult:
    return CODEC.decode_result(run_copies(CODEC.encode_input(given)))


def test_input_and_result_survive_their_encoding(merging: Merging) -> None:
    given = input_of(merging)
    assert CODEC.decode_input(CODEC.encode_input(given)) == given
    result = run(given)
    assert CODEC.decode_result(CODEC.encode_result(result)) == result


def test_result_says_what_was_done(world: CompactionWorld, merging: Merging) -> None:
    given = input_of(merging)
    assert len(given.copied) == 3 and len(given.read) == 3
    result = run(given)
    assert result.failure is None
    assert result.bytes_copied == merging.merge.bytes_copied == 1_500 + 1_500 + 1_000
    assert result.bytes_read == merging.merge.data_bytes - result.bytes_copied
    assert result.bytes_written == result.bytes_read + len(merging.merge.trailer)
    merging.take([CODEC.encode_result(result)])
    merging.complete()
    assert len(world.bytes_of(NEW_ID)) == merging.merge.size_bytes


def test_twice_is_once(world: CompactionWorld, merging: Merging) -> None:
    given = input_of(merging)
    first, second = (msgspec.structs.replace(run(given), peak_memory_bytes=0) for _ in range(2))
    assert first == second
    merging.take([CODEC.encode_result(second)])
    merging.complete()
    late = run(given)
    assert late.failure is not None and late.failure.object_id is None
    assert late.failure.reason.startswith("UploadNotFound"), "an attempt that comes late changes nothing"
    assert len(world.bytes_of(NEW_ID)) == merging.merge.size_bytes


def test_trouble_is_an_answer(world: CompactionWorld, merging: Merging) -> None:
    world.store.store.delete([object_key(4)])
    result = run(input_of(merging))
    assert result.parts == ()
    assert result.failure is not None and result.failure.object_id == 4
    assert "ObjectNotFound: no object" in result.failure.reason


def test_a_bug_is_none(merging: Merging) -> None:
    given = msgspec.structs.replace(input_of(merging), upload=None)
    with pytest.raises(AssertionError, match="into an upload"):
        run(given)
