import msgspec

from siltstone.maintenance.stream_set_compaction.plan import planned_outputs
from siltstone.model.objects import ObjectKind
from support.maintenance.compaction_sources import ARTICLE, F1, SMALL, plan_of


def test_one_row_for_each_output_with_its_reason() -> None:
    plan = plan_of(ARTICLE, msgspec.structs.replace(SMALL, split_size_bytes=60, memory_bytes=150))
    sets, *objects = planned_outputs(plan)
    assert (sets.makes, sets.stream_id, sets.streams, sets.blocks, sets.size_bytes) == (
        ObjectKind.STREAM_SET_OBJECT.label, None, 2, 4, 85,
    )  # fmt: skip
    assert (sets.first_task, sets.last_task, sets.sources) == (1, 2, (0, 1, 2))
    assert {row.makes for row in objects} == {ObjectKind.STREAM_OBJECT.label}
    assert [(row.stream_id, row.start_offset, row.end_offset, row.first_task) for row in objects] == [
        (1, 30, 120, 1),
        (2, 400, 435, 1),
        (2, 435, 500, 2),
    ]
    assert [row.reason for row in objects] == [
        "90 bytes of one stream, more than 60",
        "100 bytes of one stream, more than 60; cut at the memory limit",
        "100 bytes of one stream, more than 60; cut at the memory limit",
    ]
    assert sum(row.size_bytes for row in (sets, *objects)) == plan.live_bytes


def test_gap_and_age_are_said() -> None:
    gap = next(row for row in planned_outputs(plan_of(F1)) if row.stream_id == 2)
    assert gap.reason == "the stream continues at offset 60 in other objects"
    aged = plan_of(F1, msgspec.structs.replace(SMALL, force_split_age_ms=0))
    assert {row.reason for row in planned_outputs(aged)} == {"its source is older than 0 minutes"}
