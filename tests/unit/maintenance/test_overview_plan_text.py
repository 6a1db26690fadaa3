import pytest

from siltstone.carrying.pipeline.kind import PlannedUnit
from siltstone.foundation.text_tables import ROWS_SHOWN_MAX, html_of, table_of
from siltstone.maintenance.overview import HEADER, cells, objects_words

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
    assert '<td style="text-align: right !important">2.0 KiB</td>' in html_of(HEADER, rows)


def test_of_thousands_the_first_are_shown() -> None:
    rows = cells([("tidy", UNIT)] * (ROWS_SHOWN_MAX + 2_000))
    lines = table_of(HEADER, rows).splitlines()
    assert len(lines) == ROWS_SHOWN_MAX + 2 and lines[-1].endswith("and 2,000 more units")


def test_a_table_that_just_fits_is_shown_whole() -> None:
    rows = cells([("tidy", UNIT)] * ROWS_SHOWN_MAX)
    lines = table_of(HEADER, rows).splitlines()
    assert len(lines) == ROWS_SHOWN_MAX + 1 and lines[-1] == lines[1]


def test_one_row_too_many_is_said_to_be_left_out() -> None:
    rows = cells([("tidy", UNIT)] * (ROWS_SHOWN_MAX + 1))
    assert table_of(HEADER, rows).endswith("and 1 more unit")


@pytest.mark.parametrize(
    ("before", "after", "words"), [(0, 0, ""), (1200, 0, "1,200 → 0"), (0, 2, "0 → 2"), (5, 1, "5 → 1")]
)
def test_objects_are_counted_before_and_after(before: int, after: int, words: str) -> None:
    unit = PlannedUnit(name="objects", reason="due", objects_before=before, objects_after=after)
    assert objects_words(unit) == words


def test_texts_of_a_notebook_stand_to_the_left() -> None:
    assert '<td style="text-align: left !important">flights-0</td>' in html_of(
        HEADER, cells([("tidy", UNIT)])
    )
