"""Whole rounds on a store in memory: T01, T06, T07, T08, T12. After each, every surviving record is compared byte
for byte and the check is asked.

The tables' blocks are smaller than our frame headers, so all sizes are taken four times (F1) or sixteen times (T01),
thresholds and limits too.
"""

import msgspec
import pytest

from siltstone.carrying.pipeline.watch import StepProgress
from siltstone.maintenance.sweep.sweeping import sweep
from siltstone.metadata.entities import JobState
from siltstone.model.limits import GRACE_PERIOD_MS, MINUTE_MS
from siltstone.model.objects import ObjectKind, ObjectState, object_key
from siltstone.offline.blocks.columns import MemoryLimitTooSmall
from siltstone.offline.settings import CompactionSettings
from siltstone.offline.tasks.runner import InProcessRunner
from support.maintenance.compacting import RoundReport, compact, planned_round
from support.maintenance.compaction_sources import ARTICLE, F1, Spec
from support.maintenance.compaction_world import CompactionWorld, compaction_world, scaled

SSO, SO = ObjectKind.STREAM_SET_OBJECT, ObjectKind.STREAM_OBJECT


SETTINGS = CompactionSettings(
    split_size_bytes=400, memory_bytes=1200, part_bytes_min=1, merged_block_bytes_max=1_000_000
)


def settings(**changes: int) -> CompactionSettings:
    return msgspec.structs.replace(SETTINGS, **changes)


def compacted(world: CompactionWorld, with_settings: CompactionSettings = SETTINGS) -> RoundReport:
    return compact(world.context, InProcessRunner(), with_settings)


def test_t01_worked_example(world: CompactionWorld) -> None:
    sources = world.upload(*scaled(ARTICLE, 16))
    fillers = world.ids(SO)
    before = world.records()
    world.store.history.clear()
    report = compacted(world, settings(split_size_bytes=60 * 16, memory_bytes=150 * 16))
    assert world.records() == before
    assert (report.iterations, report.read_requests, report.stream_objects) == (2, 3 + 2, 3)
    assert (report.objects_before, report.objects_after) == (3, 4)
    calls = [name for name, _ in world.store.history]
    assert calls.count("get_range") == 3 + 5  # three indexes, five reads
    assert (calls.count("put"), calls.count("upload_part"), calls.count("complete_multipart")) == (3, 2, 1)
    assert world.ids(SSO) == {report.stream_set_object}
    assert len(world.ids(SO) - fillers) == 3
    assert all(world.metadata.image.objects[each].state is ObjectState.DESTROYED for each in sources)
    world.assert_sound()


@pytest.mark.parametrize(
    ("starts", "deleted", "sets", "stream_objects"),
    [
        ({}, (), [(0, 0, 20), (2, 230, 270)], 3),
        ({0: 5}, (), [(0, 0, 20), (2, 230, 270)], 3),
        ({0: 15}, (), [(0, 15, 20), (2, 230, 270)], 3),
        ({0: 15, 1: 60, 2: 60}, (), [(0, 15, 20), (2, 230, 270)], 2),
        ({}, (0,), [(2, 230, 270)], 3),
        ({}, (0, 1, 2), [], 0),
    ],
)
@pytest.mark.parametrize("threads", [1, 3])
def test_t06_whole_round(
    world: CompactionWorld,
    starts: dict[int, int],
    deleted: tuple[int, ...],
    sets: list[tuple[int, int, int]],
    stream_objects: int,
    threads: int,
) -> None:
    sources = world.upload(*scaled(F1, 4))
    for stream_id, start_offset in starts.items():
        world.trim(stream_id, start_offset)
    for stream_id in deleted:
        world.delete_stream(stream_id)
    before = world.records()
    report = compact(world.context, InProcessRunner(threads), SETTINGS)
    assert report.committed
    assert report.objects_before == 3
    assert report.stream_objects == stream_objects
    assert world.records() == before
    objects = world.metadata.image.objects
    assert all(objects[each].state is ObjectState.DESTROYED for each in sources)
    kept = [] if report.stream_set_object is None else objects[report.stream_set_object].ranges
    assert [(held.stream_id, held.start_offset, held.end_offset) for held in kept] == sets
    world.assert_sound()


def test_t06_a_fourth_object_joins(world: CompactionWorld) -> None:
    more: Spec = {1: [(500, 520, 106)], 3: [(0, 10, 286), (10, 20, 286)]}
    world.upload(*scaled([*F1, more], 4))
    world.trim(3, 10)
    before = world.records()
    report = compacted(world)
    assert (report.objects_before, report.stream_objects) == (4, 4)
    assert world.records() == before


def test_t06_a_block_larger_than_the_memory_is_refused(world: CompactionWorld) -> None:
    sources = world.upload(*scaled(F1, 4), {1: [(500, 520, 1300)]})
    with pytest.raises(MemoryLimitTooSmall, match="raise it to at least that"):
        compacted(world)
    assert world.ids(SSO) == set(sources)
    assert not world.metadata.image.jobs, "refused before anything was begun"


def test_t06_limit_of_stream_objects(world: CompactionWorld) -> None:
    sources = world.upload(*scaled(F1, 4))
    before = world.records()
    report = compacted(world, settings(split_size_bytes=280, stream_objects_max=4))
    assert (report.objects_before, report.stream_objects, report.has_remaining) == (2, 2, True)
    assert sources[2] in world.ids(SSO)
    assert world.records() == before


@pytest.mark.parametrize(("number", "stream_objects"), [(0, 3), (1, 2), (2, 2)])
def test_t07_force_split(world: CompactionWorld, number: int, stream_objects: int) -> None:
    """Each object by itself; that runs which touch are joined when several are old is shown with the plans."""
    world.upload(*scaled(F1[number : number + 1], 4))
    before = world.records()
    report = compacted(world, settings(force_split_age_ms=0))
    assert report.stream_objects == stream_objects
    assert world.ids(SSO) == set()
    assert world.records() == before
    world.assert_sound()


def test_t07_age_is_that_of_the_oldest_data(world: CompactionWorld) -> None:
    world.upload(*scaled(F1, 4), data_time_ms=world.clock.now_ms() - 30 * MINUTE_MS)
    report = compacted(world)
    assert report.stream_set_object is not None
    world.clock.advance_ms(90 * MINUTE_MS)
    assert compacted(world).stream_objects == 2, "its data is two hours old, the object a minute and a half"
    assert world.ids(SSO) == set()


def test_t12_offsets_beyond_31_bits(world: CompactionWorld) -> None:
    far = 2**31 + 5
    world.upload({0: [(0, far, 100)]}, {0: [(far, 3 * far, 100), (3 * far, 2**40, 100)]})
    before = world.records()
    for _ in range(2):
        world.clock.advance_ms(120 * MINUTE_MS)
        compacted(world)
        assert world.records() == before
    (object_id,) = world.ids(SO)
    (held,) = world.metadata.image.objects[object_id].ranges
    assert (held.start_offset, held.end_offset) == (0, 2**40)
    world.assert_sound()


def test_nothing_to_do_writes_nothing(world: CompactionWorld) -> None:
    world.upload({0: [(0, 5, 100)]})
    version = world.metadata.image.version
    world.store.history.clear()
    report = compacted(world)
    assert (report.committed, report.job_id, report.objects_before, report.objects_after) == (
        False,
        None,
        0,
        0,
    )
    assert world.metadata.refresh().version == version
    assert world.store.history == []


def test_a_second_round_has_nothing_to_do(world: CompactionWorld) -> None:
    world.upload(*scaled(F1, 4))
    assert compacted(world).committed
    assert not compacted(world).committed


def test_dry_run_only_reads(world: CompactionWorld) -> None:
    world.upload(*scaled(F1, 4))
    version = world.metadata.image.version
    world.store.history.clear()
    plan = planned_round(world.context, SETTINGS)
    assert plan.object_count == 4
    assert {name for name, _ in world.store.history} == {"get_range"}
    assert world.metadata.refresh().version == version


def test_the_memory_limit_changes_no_record(world: CompactionWorld) -> None:
    world.upload(*scaled(F1, 4))
    before = world.records()
    for memory_bytes in (540, 700, 1_000_000):
        with compaction_world() as other:
            other.upload(*scaled(F1, 4))
            compacted(other, settings(memory_bytes=memory_bytes))
            assert other.records() == before


def test_same_plan_same_bytes() -> None:
    images = []
    for _ in range(2):
        with compaction_world() as world:
            world.upload(*scaled(F1, 4))
            compacted(world)
            images.append(
                {object_id: world.bytes_of(object_id) for object_id in world.ids(SSO) | world.ids(SO)}
            )
    assert images[0] == images[1]


def test_small_parts_are_carried(world: CompactionWorld) -> None:
    world.upload(*scaled(F1, 4))
    before = world.records()
    report = compacted(world, settings(part_bytes_min=500))
    assert report.write_requests == report.stream_objects + 1
    assert world.records() == before
    world.assert_sound()


def test_report_and_progress(world: CompactionWorld) -> None:
    world.upload(*scaled(F1, 4))
    heard: list[StepProgress] = []
    report = compact(world.context, InProcessRunner(), SETTINGS, on_step_progress=heard.append)
    assert [each for each in heard if each.done == each.total] == [
        StepProgress("sso-compaction", "read indexes", 3, 3, 0, 0),
        StepProgress("sso-compaction", "rewrite", 2, 2, 4 * 569, 4 * 569),
    ]
    assert (report.index_entries_before, report.index_entries_after) == (8, 5)
    assert report.bytes_read == 4 * 569
    assert report.bytes_after == sum(
        world.metadata.image.objects[each].size_bytes for each in world.ids(SSO) | (world.ids(SO)) if each > 5
    )
    assert report.bytes_written == report.bytes_after
    assert report.peak_memory_bytes > 1024 * 1024
    assert report.job_id is not None
    job = world.metadata.image.jobs[report.job_id]
    assert (job.state, job.report) == (JobState.SUCCEEDED, "3 objects became 4")


def test_data_of_another_node_is_compacted_and_buckets_stay_clean(world: CompactionWorld) -> None:
    world.upload(*scaled(F1, 4))
    compacted(world)
    world.clock.advance_ms(GRACE_PERIOD_MS)
    sweep(world.context)
    objects = world.metadata.image.objects
    assert world.bucket_keys() == {object_key(each) for each in objects}
    assert {held.state for held in objects.values()} == {ObjectState.COMMITTED}
