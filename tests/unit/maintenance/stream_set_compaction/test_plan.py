"""What a plan says of its new objects and its iterations, for the worked example of the tables (docs/scenarios.md)."""

import msgspec
import numpy as np
import pytest

from siltstone.maintenance.stream_set_compaction.plan import CompactionPlan
from siltstone.maintenance.stream_set_compaction.task_input import SourceReference, StreamObjectPiece
from siltstone.object_formats.block_index import INDEX_ENTRY_BYTES
from siltstone.object_formats.object_layout import FOOTER_BYTES, trailer_of_index
from siltstone.offline.blocks.columns import ENTRY, Read
from support.maintenance.compaction_sources import ARTICLE, SMALL, plan_of

SETTINGS = msgspec.structs.replace(SMALL, split_size_bytes=60, memory_bytes=150)
SINGLE_BLOCK = INDEX_ENTRY_BYTES + FOOTER_BYTES
"""The bytes of index and footer of an object with one block."""


@pytest.fixture
def plan() -> CompactionPlan:
    return plan_of(ARTICLE, SETTINGS)


def test_the_figures_of_a_plan(plan: CompactionPlan) -> None:
    assert not plan.is_empty and plan.has_stream_set_object
    assert plan.compacted_ids == (0, 1, 2)
    assert plan.object_count == 4, "three stream objects and a stream set object"
    assert plan.live_bytes == 70 + 65 + 140
    assert plan.index_entries_after == 5, "one block in each stream object, one for each of two streams"
    assert not plan.has_remaining


def test_the_new_objects_as_the_commit_lists_them(plan: CompactionPlan) -> None:
    sets, stream_objects = plan.new_objects(100)
    assert sets is not None
    rows = [
        (new.object_id, new.size_bytes, held.stream_id, held.object_id, held.start_offset, held.end_offset,
         held.size_bytes, held.largest_timestamp_ms)
        for new in (sets, *stream_objects)
        for held in new.ranges
    ]  # fmt: skip
    both_streams = 25 + 60 + SINGLE_BLOCK + INDEX_ENTRY_BYTES
    assert rows == [
        (100, both_streams, 0, 100, 0, 25, 25, 25),
        (100, both_streams, 3, 100, 210, 270, 60, 270),
        (101, 90 + SINGLE_BLOCK, 1, 101, 30, 120, 90, 120),
        (102, 35 + SINGLE_BLOCK, 2, 102, 400, 435, 35, 435),
        (103, 65 + SINGLE_BLOCK, 2, 103, 435, 500, 65, 500),
    ]


def test_an_iteration_reads_what_it_writes(plan: CompactionPlan) -> None:
    first, second = (plan.iteration(at) for at in range(len(plan.bounds)))
    assert (first.number, second.number) == (1, 2)
    assert first.sources == tuple(SourceReference(number, 0) for number in (0, 1, 2))
    assert first.reads == (Read(0, 0, 50), Read(1, 0, 65), Read(2, 0, 35))
    assert second.sources == (SourceReference(0, 0), SourceReference(2, 0))
    assert second.reads == (Read(0, 50, 70), Read(1, 35, 140)), "sources by their place in the iteration"
    assert first.stream_objects == (
        StreamObjectPiece(1, 0, 2, 90 + SINGLE_BLOCK),
        StreamObjectPiece(2, 2, 3, 35 + SINGLE_BLOCK),
    )
    assert second.stream_objects == (StreamObjectPiece(3, 0, 1, 65 + SINGLE_BLOCK),)
    read = np.frombuffer(second.blocks, dtype=ENTRY)
    assert [(row["source"], row["stream_id"], row["start_offset"]) for row in read] == [
        (1, 2, 435), (0, 3, 210), (1, 3, 230),
    ]  # fmt: skip
    assert first.merged_block_bytes_max == second.merged_block_bytes_max == SETTINGS.merged_block_bytes_max


def test_the_parts_of_the_stream_set_object_follow_one_another_and_the_last_has_index_and_footer(
    plan: CompactionPlan,
) -> None:
    parts = [plan.iteration(at).part for at in range(len(plan.bounds))]
    assert [
        (part.part_number, part.position, part.first_block, part.end_block) for part in parts if part
    ] == [(1, 0, 3, 5), (2, 25, 1, 3)]
    assert [part.trailer for part in parts if part] == [
        b"",
        trailer_of_index(plan.stream_set_index.tobytes(), 85),
    ]
    index = plan.stream_set_index
    assert [(row["stream_id"], row["position"], row["size_bytes"]) for row in index] == [
        (0, 0, 25),
        (3, 25, 60),
    ]


def test_a_plan_of_large_streams_alone_makes_no_stream_set_object() -> None:
    plan = plan_of(ARTICLE, msgspec.structs.replace(SMALL, split_size_bytes=1))
    sets, stream_objects = plan.new_objects(100)
    assert sets is None and not plan.has_stream_set_object
    assert [new.object_id for new in stream_objects] == [100, 101, 102, 103]
    assert plan.object_count == plan.index_entries_after == 4
    assert [piece.number for piece in plan.iteration(0).stream_objects] == [0, 1, 2, 3]


def test_a_plan_of_nothing_is_empty() -> None:
    plan = plan_of([], SETTINGS)
    assert plan.is_empty and not plan.has_stream_set_object
    assert (plan.object_count, plan.live_bytes, plan.index_entries_after) == (0, 0, 0)
    assert plan.new_objects(7) == (None, ())


def test_an_object_with_the_newest_record_anywhere_says_so() -> None:
    """The largest timestamp need not be that of the last block."""
    made = plan_of([{0: [(0, 10, 60), (10, 20, 60)]}, {0: [(20, 30, 60)]}])
    made.table["largest_timestamp_ms"] = [5, 99, 7]
    _, (new,) = made.new_objects(1)
    assert new.ranges[0].largest_timestamp_ms == 99
