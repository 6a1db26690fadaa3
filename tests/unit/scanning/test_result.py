"""What a scan says of itself, to people and to notebooks, and when it ends its pin."""

from types import SimpleNamespace
from typing import Any

import pytest

from siltstone.metadata.entities import PartitionMetadata, StreamMetadata, StreamState, TopicMetadata
from siltstone.record_columns.arrow import arrow_schema
from siltstone.runtime.clock import ManualClock
from siltstone.runtime.randomness import seeded_randomness
from siltstone.scanning.planning import Cut, ScanPartition
from siltstone.scanning.result import PARTITIONS_SHOWN_MAX, Scan
from siltstone.scanning.scan import ScanPlan
from siltstone.scanning.unit import ScanPiece, ScanUnit


def partition(number: int, committed: int = 1_200, topic: str = "flights") -> ScanPartition:
    of = TopicMetadata("0" * 32, topic, (PartitionMetadata(0, 1),), {}, 1, 0, False)
    stream = StreamMetadata(number, StreamState.OPENED, 0, 1, 0, committed, (), (), {})
    return ScanPartition(of, number, stream)


def scan(*cuts: Cut, warnings: tuple[str, ...] = ()) -> Scan:
    """Each cut's rows lie in one of two objects."""
    pieces = tuple(
        ScanPiece("flights", number, number, 7 + number % 2, 0, 9_000, 0, 10, 1_024)
        for number in range(len(cuts))
    )
    unit = ScanUnit("store", ("offset", "value"), {}, 0, 0, pieces)
    plan = ScanPlan(1, 0, 0, ("offset", "value"), None, cuts, (unit,) if cuts else (), warnings)
    return Scan(plan, ManualClock(), seeded_randomness(1))


def test_a_scan_is_shown_as_a_table_of_its_partitions() -> None:
    shown = scan(
        Cut(partition(0), 1_000, 1_200),
        Cut(partition(1), 0, 2_345),
        Cut(partition(10), 5, 5),
        warnings=("beware",),
    )
    assert repr(shown).splitlines() == [
        "scan of 3 partitions: 2,545 offsets in 2 objects, 3.0 KiB; columns offset, value",
        "partition   start  end    in no object yet",
        "flights-0   1,000  1,200  0",
        "flights-1   0      2,345  1,145",
        "flights-10  5      5      0",
        "beware",
    ]


@pytest.mark.parametrize(
    ("count", "note"), [(PARTITIONS_SHOWN_MAX, None), (PARTITIONS_SHOWN_MAX + 1, "and 1 partition more")]
)
def test_the_first_partitions_are_shown_and_the_others_counted(count: int, note: str | None) -> None:
    lines = repr(scan(*(Cut(partition(number), 0, 1) for number in range(count)))).splitlines()
    assert len(lines) == 2 + PARTITIONS_SHOWN_MAX + (note is not None)
    assert (lines[-1] == note) == (note is not None)


def test_a_notebook_shows_the_same_with_names_that_are_not_taken_for_html() -> None:
    html = scan(Cut(partition(0, topic="a<b"), 0, 1_000), warnings=("x & y",))._repr_html_()
    assert html.startswith("<p>scan of 1 partition: 1,000 offsets in 1 object")
    assert "<tr><th>partition</th><th>start</th><th>end</th><th>in no object yet</th></tr>" in html
    assert "<tr><td>a&lt;b-0</td><td>0</td><td>1,000</td><td>0</td></tr>" in html
    assert html.endswith("</table><p>x &amp; y</p>")


def test_a_scan_of_nothing_is_a_table_of_its_columns_without_rows() -> None:
    empty = scan()
    assert empty.schema == arrow_schema(["offset", "value"]) and empty.columns == ("offset", "value")
    assert (empty.to_arrow().num_rows, empty.to_arrow().schema) == (0, empty.schema)


def test_leaving_the_block_ends_the_pin_of_a_scan_that_renews_one() -> None:
    said: list[str] = []
    renewal: Any = SimpleNamespace(keep_for=lambda _: said.append("kept"), close=lambda: said.append("ended"))
    made = scan()
    made.keep(renewal)
    with made as inside:
        assert inside is made and said == ["kept"]
    assert said == ["kept", "ended"]
    with scan():
        pass
