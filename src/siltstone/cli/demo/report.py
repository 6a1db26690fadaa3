"""The effect of maintenance: a table and a chart of before and after the compaction, and a chart of all steps."""

from collections.abc import Sequence

from rich.bar import Bar
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from siltstone.cli.demo.figures import Figures, HeldBytes
from siltstone.cli.output import table
from siltstone.cli.words import count_words, ratio_words, size_words

_CHART_COLUMNS = 40


def figures_table(before: Figures, after: Figures) -> Table:
    shown = table("", ">before", ">after", ">fewer")
    for name, left, right in figure_rows(before, after):
        shown.add_row(name, count_words(left), count_words(right), ratio_words(left, right))
    shown.add_row("bytes in objects", size_words(before.size_bytes), size_words(after.size_bytes), "")
    return shown


def figure_rows(before: Figures, after: Figures) -> list[tuple[str, int, int]]:
    """Rows of (name, before, after)."""
    rows = [
        ("objects", before.objects, after.objects),
        ("  stream set objects", before.stream_set_objects, after.stream_set_objects),
        ("  stream objects", before.stream_objects, after.stream_objects),
        ("index entries", before.index_entries, after.index_entries),
    ]
    return rows + stream_rows(before, after)


def stream_rows(before: Figures, after: Figures) -> list[tuple[str, int, int]]:
    """Two rows for each stream that was read: how many objects hold it, and how many GETs reading it takes."""
    rows: list[tuple[str, int, int]] = []
    for name in before.requests:
        rows.append((f"objects holding {name}", before.holding[name], after.holding[name]))
        rows.append((f"GETs to read {name}", before.requests[name], after.requests[name]))
    return rows


def chart(before: Figures, after: Figures) -> RenderableType:
    """Returns a pair of bars (before, after) for each figure that maintenance has made smaller; each pair has a scale
    of its own. The table has the others: a chart of nothing would look like an effect."""
    rows = [
        ("objects", before.objects, after.objects),
        ("index entries", before.index_entries, after.index_entries),
        *(row for row in stream_rows(before, after) if row[0].startswith("GETs")),
    ]
    smaller = [row for row in rows if row[2] < row[1]]
    if not smaller:
        return Text("nothing became smaller: so few flights make too few objects")
    return Group(*(_pair(*row) for row in smaller))


def _pair(name: str, left: int, right: int) -> RenderableType:
    made = Table.grid(padding=(0, 1))
    made.add_column(width=8, justify="right", style="dim")
    made.add_column(width=_CHART_COLUMNS)
    made.add_column()
    scale = max(left, right, 1)
    for when, value, color in (("before", left, "yellow"), ("after", right, "green")):
        made.add_row(
            when,
            Bar(scale, 0, value, width=_CHART_COLUMNS, color=color),
            Text(count_words(value)),
        )
    return Group(Text(name, style="bold"), made)


def steps_chart(steps: Sequence[HeldBytes]) -> RenderableType:
    """Bytes and number of committed objects after each step, the bytes as bars on one scale. The last column is all
    bytes in the bucket, replaced objects that await deletion included."""
    made = Table.grid(padding=(0, 1))
    for width, justify in ((20, "left"), (18, "left"), (10, "right"), (7, "right"), (10, "right")):
        made.add_column(width=width, justify=justify)  # type: ignore[arg-type]
    made.add_row("after", "", "bytes", "objects", "in bucket", style="dim")
    scale = max(1, *(each.size_bytes for each in steps))
    for each in steps:
        made.add_row(
            each.step,
            Bar(scale, 0, each.size_bytes, width=18, color="green"),
            size_words(each.size_bytes),
            count_words(each.objects),
            size_words(each.bucket_bytes),
        )
    return made
