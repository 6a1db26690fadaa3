import msgspec

from siltstone.maintenance.planning.planner import plan_compaction
from siltstone.maintenance.planning.rows import output_rows
from siltstone.maintenance.planning.sources import Source
from siltstone.model.objects import ObjectKind
from support.compaction_sources import ARTICLE, F1, NOW_MS, SMALL, plan_of, sources_of, streams_of


def test_one_row_for_each_output_with_its_reason() -> None:
    plan = plan_of(ARTICLE, msgspec.structs.replace(SMALL, split_size_bytes=60, memory_bytes=150))
    sets, *objects = output_rows(plan)
    assert (sets.kind, sets.stream_id, sets.streams, sets.blocks, sets.size_bytes) == (
        ObjectKind.STREAM_SET_OBJECT, None, 2, 4, 85,
    )  # fmt: skip
    assert (sets.first_iteration, sets.last_iteration, sets.sources) == (1, 2, (0, 1, 2))
    assert [(row.stream_id, row.start_offset, row.end_offset, row.first_iteration) for row in objects] == [
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
    gap = next(row for row in output_rows(plan_of(F1)) if row.stream_id == 2)
    assert gap.reason == "what follows, from offset 60, lies in other objects"
    aged = plan_of(F1, msgspec.structs.replace(SMALL, force_split_age_ms=0))
    assert {row.reason for row in output_rows(aged)} == {"its source is older than 0 minutes"}


def test_the_rest_of_a_stream_object_is_said_to_be_one() -> None:
    (made,) = sources_of([{0: [(0, 5, 40), (5, 9, 40)]}])
    alone = Source(msgspec.structs.replace(made.metadata, kind=ObjectKind.STREAM_OBJECT), made.index)
    streams = streams_of([alone], starts={0: 5})
    plan = plan_compaction([alone], streams, SMALL, NOW_MS, is_every_source_wanted=True)
    (row,) = output_rows(plan)
    assert (row.kind, row.start_offset, row.end_offset) == (ObjectKind.STREAM_OBJECT, 5, 9)
    assert row.reason == "the rest of a stream object"
