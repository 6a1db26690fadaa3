from siltstone.maintenance.overview import HEADER, ROWS_SHOWN_MAX, cells, html_of, table_of
from siltstone.maintenance.pipeline.kind import PlannedUnit

UNIT = PlannedUnit(
    name="flights-0",
    reason="dirty",
    bytes_read=2048,
    bytes_written=1024,
    objects_before=1200,
    objects_after=3,
)


def test_sizes_and_counts_stand_to_the_right() -> None:
    rows = cells([("key-compaction", UNIT), ("sweep", PlannedUnit(name="objects", reason="due"))])
    assert table_of(HEADER, rows).splitlines() == [
        "kind            unit         reads   writes    objects  because",
        "key-compaction  flights-0  2.0 KiB  1.0 KiB  1,200 → 3  dirty",
        "sweep           objects                                 due",
    ]
    assert '<td style="text-align: right">2.0 KiB</td>' in html_of(HEADER, rows)


def test_of_thousands_the_first_are_shown() -> None:
    rows = cells([("tidy", UNIT)] * (ROWS_SHOWN_MAX + 2_000))
    lines = table_of(HEADER, rows).splitlines()
    assert len(lines) == ROWS_SHOWN_MAX + 2 and lines[-1].endswith("and 2,000 more units")
