import pytest
from msgspec.structs import replace

from siltstone.carrying.pipeline.kind import Outcome
from siltstone.maintenance.key_compaction.carrying_out import done, failed, not_needed
from siltstone.maintenance.key_compaction.planning.stream_plan import StreamPlan
from siltstone.maintenance.key_compaction.task_input import KeyCompactionResult
from siltstone.maintenance.record_rewriting.values import WrittenStreamObject
from siltstone.model.objects import ObjectRange
from support.maintenance.keyed_metadata import KeyedMetadata

WRITTEN = WrittenStreamObject(9, 300, ObjectRange(0, 9, 0, 200, 250, 1))
RESULT = KeyCompactionResult(
    name="t-0",
    cleaned_offset=1_500,
    objects=(WRITTEN,),
    records_read=1_000,
    records_kept=40,
    keys_mapped=40,
    bytes_read=3_300,
    bytes_written=300,
    peak_memory_bytes=77,
)


@pytest.fixture
def plan() -> StreamPlan:
    """Two objects of 1,100 bytes."""
    world = KeyedMetadata()
    world.filled(world.topic(), 100, 200)
    return world.the_plan()


def test_figures_and_a_line(plan: StreamPlan) -> None:
    report = done(plan, RESULT)
    assert report.outcome is Outcome.DONE
    assert report.text == "compacted up to offset 1,500; 40 of 1,000 records kept; 2.1 KiB became 300 B"
    assert (report.bytes_read, report.bytes_written, report.bytes_freed) == (3_300, 300, 1_900)
    assert (report.objects_before, report.objects_after, report.records_removed) == (2, 1, 960)
    assert report.peak_memory_bytes == 77


def test_what_is_out_of_the_ordinary_is_said(plan: StreamPlan) -> None:
    text = done(
        plan, replace(RESULT, tombstones_kept=1, null_keys=3, batches_grown=2, map_was_full=True)
    ).text
    assert text.endswith(
        "; 1 tombstone kept; 3 records without key removed; 2 batches larger after compressing again"
        "; the key map was full with 40 keys: the next run continues"
    )


def test_nothing_could_be_removed(plan: StreamPlan) -> None:
    report = done(plan, replace(RESULT, is_unchanged=True, objects=(), bytes_written=0, records_kept=1_000))
    assert "nothing could be removed" in report.text
    assert (report.bytes_freed, report.objects_before, report.objects_after, report.records_removed) == (
        0,
        2,
        2,
        0,
    )


def test_outputs_larger_than_before_free_nothing(plan: StreamPlan) -> None:
    assert done(plan, replace(RESULT, objects=(replace(WRITTEN, size_bytes=9_999),))).bytes_freed == 0


def test_reasons(plan: StreamPlan) -> None:
    assert (failed(plan, "why").outcome, failed(plan, "why").text) == (Outcome.FAILED, "why")
    assert (not_needed(plan, "why").outcome, not_needed(plan, "why").name) == (Outcome.NOT_NEEDED, "t-0")
