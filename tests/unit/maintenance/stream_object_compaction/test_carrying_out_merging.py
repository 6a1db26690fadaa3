"""What becomes of a group: T09, T12, and what of it passes through a process. After each, every surviving record is
compared byte for byte and the check is asked."""

from collections.abc import Sequence

import msgspec
import pytest

from siltstone.carrying.pipeline.kind import Outcome
from siltstone.maintenance.stream_object_compaction.task_input import CODEC
from siltstone.model.objects import ObjectKind, ObjectRange
from siltstone.offline.settings import StreamObjectCompactionSettings
from siltstone.offline.tasks.runner import InProcessRunner, Task
from support.engine.objects import index_of
from support.maintenance.compaction_world import CompactionWorld
from support.maintenance.stream_object_world import SMALL, add_stream_object, joined_up

SO = ObjectKind.STREAM_OBJECT


def settings(**changes: float) -> StreamObjectCompactionSettings:
    return msgspec.structs.replace(SMALL, **changes)


def new_objects(world: CompactionWorld, before: set[int]) -> dict[tuple[int, int], tuple[int, ...]]:
    """(start, end) of each new stream object → its block's starts."""
    made = {}
    for object_id in world.ids(SO) - before:
        (held,) = world.metadata.image.objects[object_id].ranges
        blocks = index_of(world.bytes_of(object_id))
        made[held.start_offset, held.end_offset] = tuple(entry.start_offset for entry in blocks)
    return made


# -- T09 ------------------------------------------------------------------------------------------------

RECORD = 1024 + 72


def t09(world: CompactionWorld) -> list[int]:
    """Stream 0 stands for 233; blocks of three records are one batch. Something else holds [0, 10) and [18, 30)."""
    world.upload({0: [(0, 10, 100)]})
    first = add_stream_object(world, 0, (10, 13, 3 * RECORD), (13, 16, 3 * RECORD))
    second = add_stream_object(world, 0, (16, 17, RECORD), (17, 18, RECORD))
    world.upload({0: [(18, 30, 100)]})
    third = add_stream_object(world, 0, (30, 31, RECORD))
    fourth = add_stream_object(world, 0, (31, 32, RECORD), (32, 33, RECORD))
    return [first, second, third, fourth]


@pytest.mark.parametrize(
    ("start", "merged_block_bytes_max", "expected"),
    [
        pytest.param(
            14, 1_000_000, {(13, 18): (13,), (30, 33): (30,)}, id="a trimmed block is left out"
        ),
        pytest.param(17, 1_000_000, {(30, 33): (30,)}, id="a trimmed object is not ours, its neighbour stays"),
        pytest.param(14, 5_000, {(13, 18): (13, 17), (30, 33): (30,)}, id="entries joined up to 5000 bytes"),
        pytest.param(14, 1, {(13, 18): (13, 16, 17), (30, 33): (30, 31, 32)}, id="entries left as they are"),
        pytest.param(0, 1_000_000, {(10, 18): (10,), (30, 33): (30,)}, id="nothing trimmed"),
    ],
)  # fmt: skip
def test_t09_physical_merge(
    world: CompactionWorld,
    start: int,
    merged_block_bytes_max: int,
    expected: dict[tuple[int, int], tuple[int, ...]],
) -> None:
    old = t09(world)
    world.trim(0, start)
    before = world.records()
    report = joined_up(world, settings(merged_block_bytes_max=merged_block_bytes_max))
    assert [each.outcome for each in report.units] == [Outcome.DONE] * len(expected)
    assert new_objects(world, set(old)) == expected
    left = {17: {old[0], old[1]}}.get(start, set())
    assert world.ids(SO) & set(old) == left, "merged ones are gone, others stand"
    assert world.records() == before
    world.assert_sound()


def test_t09_records_and_sizes(world: CompactionWorld) -> None:
    t09(world)
    world.trim(0, 14)
    joined_up(world)
    (object_id,) = {each for each in world.ids(SO) if _range(world, each).start_offset == 13}
    (entry,) = index_of(world.bytes_of(object_id))
    assert (entry.record_count, entry.size_bytes) == (5, 3 * RECORD + 2 * RECORD)
    assert _range(world, object_id).size_bytes == 5 * RECORD
    assert world.metadata.image.objects[object_id].size_bytes == len(world.bytes_of(object_id))


def _range(world: CompactionWorld, object_id: int) -> ObjectRange:
    return world.metadata.image.objects[object_id].ranges[0]


def test_t12_offsets_beyond_31_bits(world: CompactionWorld) -> None:
    """Two blocks that span more than 2**31 offsets become one entry, and every offset is found."""
    far = 2**31 + 5
    add_stream_object(world, 0, (0, far, 1_500))
    add_stream_object(world, 0, (far, 3 * far, 100), (3 * far, 2**40, 1_500))
    before = world.records()
    joined_up(world)
    (object_id,) = world.ids(SO)
    (entry,) = index_of(world.bytes_of(object_id))
    assert (entry.start_offset, entry.end_offset, entry.record_count) == (0, 2**40, 2**40)
    assert world.records() == before
    world.assert_sound()


# -- what passes through a process ------------------------------------------------------------------------


def test_bytes_of_large_objects_stay_in_the_store(world: CompactionWorld) -> None:
    old = {add_stream_object(world, 0, (10 * at, 10 * at + 10, 2_000)) for at in range(5)}
    before = world.records()
    world.store.history.clear()
    (done,) = joined_up(world).units
    calls = [name for name, _ in world.store.history]
    assert calls.count("copy_part") == 5
    assert (calls.count("upload_part"), calls.count("put")) == (1, 0)
    assert calls.count("get_range") == 5, "their indexes"
    assert done.bytes_read == 0
    assert done.bytes_written < 200, "index and footer"
    assert "5 stream objects became one, 9.9 KiB; 9.8 KiB copied inside the store" in done.text
    assert (done.objects_before, done.objects_after, done.bytes_freed) == (5, 1, 4 * 136)
    assert done.peak_memory_bytes > 1024 * 1024
    assert not world.ids(SO) & old
    assert world.records() == before


def test_small_parts_pass_through(world: CompactionWorld) -> None:
    for at, size in enumerate([2_000, 300, 300, 2_000]):
        add_stream_object(world, 0, *((4 * at + i, 4 * at + i + 1, size // 4 + 75) for i in range(4)))
    before = world.records()
    (done,) = joined_up(world).units
    assert done.bytes_read == 2 * (300 + 4 * 75), "both small ones, and nothing of the large"
    assert world.records() == before
    world.assert_sound()


def test_only_small_ones_are_put_in_one_request(world: CompactionWorld) -> None:
    for at in range(6):
        add_stream_object(world, 0, (at, at + 1, 150))
    before = world.records()
    world.store.history.clear()
    (done,) = joined_up(world).units
    calls = [name for name, _ in world.store.history]
    assert (calls.count("put"), calls.count("start_multipart"), calls.count("copy_part")) == (1, 0, 0)
    assert done.bytes_read == 6 * 150
    assert world.records() == before
    world.assert_sound()


def test_same_plan_same_bytes_whoever_runs_it(world: CompactionWorld) -> None:
    class Twice:
        def run(
            self, task: Task, inputs: Sequence[bytes], on_progress: object = None, label: str = ""
        ) -> list[bytes]:
            runner = InProcessRunner(4)
            first = [decode(each) for each in runner.run(task, [*inputs, *inputs])]
            again = runner.run(task, inputs)
            assert first[: len(inputs)] == first[len(inputs) :] == [decode(each) for each in again]
            return again

        def close(self) -> None:
            return None

    for at, size in enumerate([1_200, 300, 1_500, 200, 250]):
        add_stream_object(world, 0, (at, at + 1, size))
        add_stream_object(world, 1, (at, at + 1, size // 3))
    before = world.records()
    report = joined_up(world, runner=Twice())
    assert [each.outcome for each in report.units] == [Outcome.DONE, Outcome.DONE]
    assert world.records() == before
    world.assert_sound()


def decode(result: bytes) -> object:
    decoded = msgspec.msgpack.decode(result)
    decoded.pop("peak_memory_bytes", None)
    return decoded


def test_many_parts_are_shared_out_among_tasks(world: CompactionWorld) -> None:
    seen: list[int] = []

    class Counting(InProcessRunner):
        def run(
            self, task: Task, inputs: Sequence[bytes], on_progress: object = None, label: str = ""
        ) -> list[bytes]:
            seen.extend(len(given.copied) + len(given.read) for given in map(CODEC.decode_input, inputs))
            return super().run(task, inputs)

    for at in range(40):
        add_stream_object(world, 0, (at, at + 1, 1_000 if at % 3 else 500))
    before = world.records()
    (done,) = joined_up(world, runner=Counting()).units
    assert done.outcome is Outcome.DONE
    assert len(seen) > 1 and max(seen) == 16
    assert world.records() == before
    world.assert_sound()
