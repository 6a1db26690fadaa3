import numpy as np

from siltstone.offline.blocks.columns import ENTRY, Read, plan_reads


def blocks(*spans: tuple[int, int, int]) -> np.ndarray:
    """(source, position, size) in the order they are written."""
    table = np.zeros(len(spans), dtype=ENTRY)
    for row, (source, position, size) in enumerate(spans):
        table[row]["source"], table[row]["position"], table[row]["size_bytes"] = source, position, size
    return table


def test_adjacent_blocks_are_one_read_whatever_their_order() -> None:
    assert plan_reads(blocks((0, 50, 10), (0, 0, 50), (0, 60, 5)), 1000) == [Read(0, 0, 65)]


def test_a_gap_or_another_source_begins_a_read() -> None:
    assert plan_reads(blocks((1, 10, 5), (0, 0, 10), (0, 11, 5)), 1000) == [
        Read(0, 0, 10),
        Read(0, 11, 16),
        Read(1, 10, 15),
    ]


def test_spans_of_many_sources_do_not_run_into_each_other() -> None:
    """Source 1 continues at the position where source 0 ends."""
    spans = [(number, position, 10) for number in range(3) for position in (10 * number, 10 * number + 10)]
    assert plan_reads(blocks(*spans), 1000) == [Read(0, 0, 20), Read(1, 10, 30), Read(2, 20, 40)]


def test_no_request_is_larger_than_the_limit() -> None:
    reads = plan_reads(blocks((0, 0, 7), (0, 7, 7), (0, 14, 7)), 10)
    assert reads == [Read(0, 0, 10), Read(0, 10, 20), Read(0, 20, 21)]


def test_nothing_to_read() -> None:
    assert plan_reads(blocks(), 10) == []
