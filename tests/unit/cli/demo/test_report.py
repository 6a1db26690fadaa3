from io import StringIO

from rich.console import Console

from siltstone.cli.demo.figures import Figures, HeldBytes
from siltstone.cli.demo.report import chart, figures_table, steps_chart

BUSY, QUIET = "flights-3", "late-flights-0"
BEFORE = Figures(33, 0, 34_000_000, 2_513, {BUSY: 33, QUIET: 33}, {BUSY: 73, QUIET: 66})
AFTER = Figures(1, 25, 33_000_000, 100, {BUSY: 1, QUIET: 1}, {BUSY: 6, QUIET: 66})


def shown(renderable) -> list[str]:
    console = Console(width=80, record=True, file=StringIO())
    console.print(renderable)
    return console.export_text().splitlines()


def test_the_table_compares_before_and_after() -> None:
    rows = {" ".join(line.split()) for line in shown(figures_table(BEFORE, AFTER))}
    assert "objects 33 26 1.3 ×" in rows
    assert "stream objects 0 25 -" in rows
    assert "index entries 2,513 100 25.1 ×" in rows
    assert "GETs to read flights-3 73 6 12.2 ×" in rows
    assert "objects holding flights-3 33 1 33.0 ×" in rows
    assert "GETs to read late-flights-0 66 66 =" in rows
    assert "bytes in objects 32.4 MiB 31.5 MiB" in rows


def test_bars_are_in_proportion() -> None:
    lines = shown(chart(BEFORE, AFTER))
    assert all(len(line) <= 80 for line in lines)
    at = next(number for number, line in enumerate(lines) if line.startswith("GETs to read flights-3"))
    before, after = (line.count("█") for line in lines[at + 1 : at + 3])
    assert before == 40
    assert after == 40 * 6 // 73


def test_steps_stand_on_one_scale_and_fit() -> None:
    steps = [
        HeldBytes("upload", 59, 18 * 1024 * 1024, 18 * 1024 * 1024),
        HeldBytes("key compaction", 10, 1024 * 1024, 1_000 * 1024 * 1024),
    ]
    lines = shown(steps_chart(steps))
    assert all(len(line) <= 77 for line in lines)
    (upload,) = (line for line in lines if line.startswith("upload"))
    (compaction,) = (line for line in lines if line.startswith("key compaction"))
    assert (upload.count("█"), compaction.count("█")) == (18, 1)
    assert upload.split()[-5:] == ["18.0", "MiB", "59", "18.0", "MiB"]
    assert compaction.split()[-3:] == ["10", "1000.0", "MiB"]


CHART = """\
objects
  before ████████████████████████████████████████ 33
   after ███████████████████████████████▌         26
index entries
  before ████████████████████████████████████████ 2,513
   after █▌                                       100
"""
STEPS = """\
after                                        bytes objects  in bucket
upload               ██████████████████   18.0 MiB      59   18.0 MiB
key compaction       █                     1.0 MiB      10 1000.0 MiB
garbage collection                             0 B       0        0 B
"""


def test_how_the_charts_look() -> None:
    assert [line.rstrip() for line in shown(chart(BEFORE, AFTER))[:6]] == CHART.splitlines()
    mib = 1024 * 1024
    steps = [
        HeldBytes("upload", 59, 18 * mib, 18 * mib),
        HeldBytes("key compaction", 10, mib, 1_000 * mib),
        HeldBytes("garbage collection", 0, 0, 0),
    ]
    assert [line.rstrip() for line in shown(steps_chart(steps))] == STEPS.splitlines()


def test_what_did_not_become_smaller_has_no_bars() -> None:
    lines = shown(chart(BEFORE, Figures(33, 0, 34_000_000, 2_600, BEFORE.holding, {BUSY: 80, QUIET: 65})))
    assert [line for line in lines if not line.lstrip().startswith(("before", "after"))] == [
        f"GETs to read {QUIET}"
    ]
    said = "nothing became smaller: so few flights make too few objects"
    assert [line.strip() for line in shown(chart(AFTER, BEFORE))] == [said]


def test_of_an_empty_store_the_bars_are_empty() -> None:
    assert shown(steps_chart([HeldBytes("upload", 0, 0, 0)]))[1].split() == [
        "upload",
        "0",
        "B",
        "0",
        "0",
        "B",
    ]
