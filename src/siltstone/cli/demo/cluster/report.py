"""The chart shows the longest pause of each partition, and the event that caused it."""

from collections.abc import Sequence

import msgspec
from rich.bar import Bar
from rich.console import RenderableType
from rich.table import Table

from siltstone.cli.words import seconds_words

CHART_COLUMNS = 30


class PartitionPause(msgspec.Struct, frozen=True):
    """``what``: what happened to the partition when it was silent for the longest time."""

    partition: int
    pause_ms: float
    what: str


def pauses_chart(pauses: Sequence[PartitionPause]) -> RenderableType:
    """Draws the pauses, all bars on one scale."""
    made = Table.grid(padding=(0, 1))
    for width, justify in ((9, "right"), (CHART_COLUMNS, "left"), (8, "right"), (22, "left")):
        made.add_column(width=width, justify=justify)  # type: ignore[arg-type]
    made.add_row("partition", "", "pause", "what happened", style="dim")
    scale = max(1.0, *(each.pause_ms for each in pauses))
    for each in pauses:
        color = "green" if not each.what else "yellow"
        made.add_row(
            str(each.partition),
            Bar(scale, 0, each.pause_ms, width=CHART_COLUMNS, color=color),
            seconds_words(each.pause_ms / 1000),
            each.what or "nothing",
        )
    return made
