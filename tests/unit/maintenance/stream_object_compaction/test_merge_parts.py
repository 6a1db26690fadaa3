"""Parts of at least 1,000 bytes, copies of at most 100,000."""

import msgspec
import numpy as np
import pytest

from siltstone.maintenance.stream_object_compaction.merge import CopiedPart, Part, ReadPart, lay_out
from siltstone.offline.blocks.columns import ENTRY, Table
from support.maintenance.stream_object_world import SMALL

TRAILER = b"index and footer"


def table_of(*sources: list[int], first_position: int = 0) -> Table:
    """A source for each list, its blocks of these sizes; ``first_position``: what was trimmed of the first."""
    rows: list[tuple[int, int, int]] = []
    for source, sizes in enumerate(sources):
        position = first_position if source == 0 else 0
        for size in sizes:
            rows.append((source, position, size))
            position += size
    table = np.zeros(len(rows), dtype=ENTRY)
    table["source"], table["position"], table["size_bytes"] = np.array(rows).T
    return table


def shown(parts: list[Part]) -> list[tuple[str, int, int, int]]:
    """("copy", source, start, end) or ("read", position, first block, end block)."""
    return [
        ("copy", part.source, part.start, part.end)
        if isinstance(part, CopiedPart)
        else ("read", part.position, part.first_block, part.end_block)
        for part in parts
    ]


@pytest.mark.parametrize(
    ("sources", "expected"),
    [
        pytest.param(
            ([1_000, 500], [2_000]),
            [("copy", 0, 0, 1_500), ("copy", 1, 0, 2_000), ("read", 3_500, 3, 3)],
            id="large ones are copied whole, only the trailer is ours",
        ),
        pytest.param(([400], [300], [200]), [("read", 0, 0, 3)], id="small ones are one part"),
        pytest.param(
            ([600], [300], [200], [500]),
            [("read", 0, 0, 3), ("read", 1_100, 3, 4)],
            id="small ones are joined until they are a part",
        ),
        pytest.param(
            ([2_000], [300]), [("copy", 0, 0, 2_000), ("read", 2_000, 1, 2)], id="a small one at the end"
        ),
        pytest.param(
            ([300], [400, 400, 400, 800]),
            [("read", 0, 0, 3), ("copy", 1, 800, 2_000), ("read", 2_300, 5, 5)],
            id="a small one takes blocks from the head of the next",
        ),
        pytest.param(
            ([300], [400, 400, 400, 500], [1_000]),
            [("read", 0, 0, 5), ("copy", 2, 0, 1_000), ("read", 3_000, 6, 6)],
            id="all of it when the rest would be too small, and the one behind is copied",
        ),
        pytest.param(
            ([300], [5_000], [1_000]),
            [("read", 0, 0, 2), ("copy", 2, 0, 1_000), ("read", 6_300, 3, 3)],
            id="a block that is larger than a part",
        ),
        pytest.param(
            ([999], [1_000]),
            [("read", 0, 0, 2), ("read", 1_999, 2, 2)],
            id="a byte too small",
        ),
    ],
)
def test_layout(sources: tuple[list[int], ...], expected: list[tuple[str, int, int, int]]) -> None:
    parts = lay_out(table_of(*sources), TRAILER, SMALL)
    assert shown(parts) == expected
    assert [part.part_number for part in parts] == list(range(1, len(parts) + 1))
    assert isinstance(parts[-1], ReadPart)
    assert [part.trailer for part in parts if isinstance(part, ReadPart) and part.trailer] == [TRAILER]


def test_a_trimmed_head_is_not_copied() -> None:
    parts = lay_out(table_of([1_500], [1_500], first_position=700), TRAILER, SMALL)
    assert shown(parts)[0] == ("copy", 0, 700, 2_200)


def test_a_hole_in_a_source_is_not_copied() -> None:
    table = table_of([1_200, 1_300, 1_400])
    table["position"][2] += 10
    assert shown(lay_out(table, TRAILER, SMALL))[:2] == [("copy", 0, 0, 2_500), ("copy", 0, 2_510, 3_910)]


def test_a_large_range_is_copied_in_equal_requests() -> None:
    used = msgspec.structs.replace(SMALL, copy_bytes_max=2_500)
    parts = lay_out(table_of([7_000]), TRAILER, used)
    assert shown(parts)[:-1] == [("copy", 0, 0, 2_333), ("copy", 0, 2_333, 4_666), ("copy", 0, 4_666, 7_000)]
    assert [part.position for part in parts] == [0, 2_333, 4_666, 7_000]
