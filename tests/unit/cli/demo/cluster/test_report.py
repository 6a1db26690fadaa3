"""The chart of pauses: all bars on one scale, each with what happened."""

from io import StringIO

from rich.console import Console

from siltstone.cli.demo.cluster.report import CHART_COLUMNS, PartitionPause, pauses_chart


def test_the_bars_have_one_scale_and_fit() -> None:
    console = Console(width=77, record=True, file=StringIO())
    console.print(
        pauses_chart(
            [
                PartitionPause(0, 1_000.0, "its broker was killed"),
                PartitionPause(1, 500.0, ""),
                PartitionPause(2, 0.0, "moved"),
            ]
        )
    )
    head, killed, still, moved = console.export_text().splitlines()
    assert head.split() == ["partition", "pause", "what", "happened"]
    assert killed.count("█") == CHART_COLUMNS and still.count("█") == CHART_COLUMNS // 2 and "█" not in moved
    assert killed.rstrip().endswith("1.0 s its broker was killed")
    assert still.rstrip().endswith("500 ms nothing")
