"""Which blocks of a source are live, and the table of all sources together."""

import msgspec
import numpy as np
import pytest

from siltstone.offline.blocks.columns import (
    OverlappingSources,
    Source,
    SourceUnusable,
    Table,
    live_blocks,
    sorted_table,
)
from support.maintenance.compaction_sources import Spec, source, sources_of, streams_of

SPEC: Spec = {0: [(0, 10, 5), (10, 20, 6)], 2: [(5, 9, 7)]}


def spans(table: Table) -> list[tuple[int, int, int]]:
    return [(int(row["stream_id"]), int(row["start_offset"]), int(row["end_offset"])) for row in table]


def with_ranges(held: Source, *numbers: int) -> Source:
    ranges = tuple(held.metadata.ranges[number] for number in numbers)
    return Source(msgspec.structs.replace(held.metadata, ranges=ranges), held.index)


@pytest.mark.parametrize(
    ("start", "live"),
    [
        (0, [(0, 0, 10), (0, 10, 20), (2, 5, 9)]),
        (9, [(0, 0, 10), (0, 10, 20), (2, 5, 9)]),
        (10, [(0, 10, 20), (2, 5, 9)]),
        (20, [(2, 5, 9)]),
    ],
)
def test_a_block_is_dead_when_it_lies_wholly_below_the_start_offset(
    start: int, live: list[tuple[int, int, int]]
) -> None:
    held = source(7, SPEC)
    assert spans(live_blocks(held, streams_of([held], {0: start}))) == live


def test_blocks_of_deleted_streams_are_dead() -> None:
    held = source(7, SPEC)
    assert spans(live_blocks(held, streams_of([held], deleted=[0]))) == [(2, 5, 9)]
    assert len(live_blocks(held, streams_of([held], deleted=[0, 2]))) == 0


def test_what_the_commit_left_out_was_dead_already() -> None:
    held = source(7, SPEC)
    streams = streams_of([held])
    assert spans(live_blocks(with_ranges(held, 1), streams)) == [(2, 5, 9)]
    assert spans(live_blocks(with_ranges(held, 0), streams)) == [(0, 0, 10), (0, 10, 20)]
    assert len(live_blocks(with_ranges(held), streams)) == 0


def test_a_source_that_contradicts_the_image_is_not_usable() -> None:
    held = source(7, SPEC)
    streams = streams_of([held])
    del streams[2]
    with pytest.raises(SourceUnusable, match="stream 2 is not in the image"):
        live_blocks(held, streams)
    longer = msgspec.structs.replace(held.metadata.ranges[0], end_offset=21)
    for ranges in ((longer, held.metadata.ranges[1]), (msgspec.structs.replace(longer, stream_id=9),)):
        wrong = Source(msgspec.structs.replace(held.metadata, ranges=ranges), held.index)
        with pytest.raises(SourceUnusable, match="does not hold the offsets"):
            live_blocks(wrong, streams_of([wrong, held]))


def test_the_blocks_of_all_sources_stand_by_stream_and_offset_with_their_sources() -> None:
    sources = sources_of([{1: [(10, 20, 5)], 3: [(0, 5, 1)]}, {1: [(0, 10, 5)]}, {1: [(20, 21, 1)]}])
    streams = streams_of(sources)
    table = sorted_table([live_blocks(each, streams) for each in sources], [4, 6, 5], [*range(7)])
    assert spans(table) == [(1, 0, 10), (1, 10, 20), (1, 20, 21), (3, 0, 5)]
    assert table["source"].tolist() == [6, 4, 5, 4]
    assert len(sorted_table([], [], [])) == 0


def test_two_sources_with_the_same_offsets_are_refused_by_name() -> None:
    first, second = sources_of([{1: [(0, 10, 5)]}, {1: [(9, 20, 5)], 2: [(0, 10, 5)]}])
    streams = streams_of([first, second])
    tables = [live_blocks(each, streams) for each in (first, second)]
    with pytest.raises(OverlappingSources, match="objects 70 and 80 both hold offset 9 of stream 1"):
        sorted_table(tables, [0, 1], [70, 80])
    assert spans(sorted_table([tables[0], tables[1][1:]], [0, 1], [70, 80])) == [(1, 0, 10), (2, 0, 10)]
    assert np.array_equal(tables[0], live_blocks(first, streams)), "the tables are not changed"
