"""The report of a benchmark: rows with a measure, a figure, what it is compared with, and the aim."""

import msgspec
from rich.console import Console
from rich.table import Table


class Row(msgspec.Struct, frozen=True):
    """``reached`` is None for a figure without an aim."""

    measure: str
    figure: str
    against: str = ""
    aim: str = ""
    reached: bool | None = None


def at_least(measure: str, value: float, aim: float, unit: str = "", against: str = "") -> Row:
    return Row(measure, f"{_readable(value)}{unit}", against, f"≥ {_readable(aim)}{unit}", value >= aim)


def at_most(measure: str, value: float, aim: float, unit: str = "", against: str = "") -> Row:
    return Row(measure, f"{_readable(value)}{unit}", against, f"≤ {_readable(aim)}{unit}", value <= aim)


def show(title: str, rows: list[Row], console: Console) -> None:
    table = Table(title=title, title_justify="left", title_style="bold")
    for heading in ("measure", "figure", "against", "aim", ""):
        table.add_column(heading, overflow="fold")
    for row in rows:
        mark = "" if row.reached is None else ("[green]reached" if row.reached else "[red]not reached")
        table.add_row(row.measure, row.figure, row.against, row.aim, mark)
    console.print(table)
    console.print()


def _readable(value: float) -> str:
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.2f}"
