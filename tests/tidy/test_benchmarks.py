"""Every benchmark can be imported: a name that has moved in the source is found here, and not by the next ``make
bench``."""

from importlib import import_module

import pytest

from benchmarks.__main__ import BENCHMARKS
from benchmarks.before import compared
from benchmarks.support.report import Row
from support.pages.documents import ROOT

FOLDER = ROOT / "benchmarks"
MODULES = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for path in FOLDER.rglob("*.py")
    if path.name not in ("__init__.py", "__main__.py")
)


@pytest.mark.parametrize("module", MODULES)
def test_a_benchmark_can_be_imported(module: str) -> None:
    import_module(module)


def test_there_are_benchmarks() -> None:
    assert len(MODULES) > 30
    assert len(BENCHMARKS) > 15


def test_two_builds_are_compared_by_the_medians_of_their_rows() -> None:
    def rows(speed: str, first: float, second: float) -> list[Row]:
        return [
            Row("speed", speed),
            Row("… CPU", f"{first} s"),
            Row("… CPU", f"{second} s"),
            Row("note", "none"),
        ]

    before = [rows("1,000 MB/s", 4.0, 8.0), rows("10 MB/s", 4.0, 8.0), rows("2,000 MB/s", 4.0, 8.0)]
    now = [rows("1,500 MB/s (fast)", 2.0, 8.0)] * 3
    assert [(each.measure, each.figure, each.against) for each in compared(before, now)] == [
        ("speed", "1,500", "before 1,000: 1.50 ×"),
        ("… CPU", "2", "before 4: 0.50 ×"),
        ("… CPU", "8", "before 8: 1.00 ×"),
    ]
