"""Where a command speaks: results on stdout, everything said on the way on stderr, so that a pipe gets results only.

Consoles are made when they are used, never at import: tests and shells exchange the streams. What draws them is loaded
as late: a broker that starts has nothing to draw.
"""

import os
import sys
from typing import IO, TYPE_CHECKING, Any

import click
import msgspec

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TextColumn
    from rich.table import Table

PIPE_COLUMNS = 160
"""Width of a table that nobody looks at: nothing is cut off for grep."""


def results(columns: int | None = None) -> "Console":
    """stdout."""
    from rich.console import Console  # noqa: PLC0415

    is_pipe = not sys.stdout.isatty() and "COLUMNS" not in os.environ
    return Console(
        file=sys.stdout, width=columns or (PIPE_COLUMNS if is_pipe else None), highlight=False, emoji=False
    )


def remarks() -> "Console":
    """stderr."""
    from rich.console import Console  # noqa: PLC0415

    return Console(file=sys.stderr, highlight=False, emoji=False)


def result(line: str) -> None:
    """One line on stdout, plain: nothing is loaded for it."""
    click.echo(line)


def remark(line: str, **style: Any) -> None:
    """One line on stderr, likewise; ``style``: see ``click.style``, for a terminal."""
    click.secho(line, err=True, **style)


def print_json(value: object) -> None:
    """One JSON document."""
    sys.stdout.write(msgspec.json.format(msgspec.json.encode(value), indent=2).decode() + "\n")
    sys.stdout.flush()  # a reader that is gone is noticed here, not when Python ends


def abandon(stream: IO[Any]) -> None:
    """Nobody reads ``stream`` any more: what is still in its buffer may go nowhere, or Python complains at its end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def table(*columns: str, title: str | None = None) -> "Table":
    """Columns whose name begins with ``>`` hold numbers and stand to the right."""
    from rich import box  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415

    made = Table(
        title=title,
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        collapse_padding=True,
        show_edge=False,
    )
    for name in columns:
        is_number = name.startswith(">")
        made.add_column(
            name.removeprefix(">"),
            justify="right" if is_number else "left",
            no_wrap=is_number,
            overflow="fold",
            header_style="bold",
        )
    return made


def facts(**named: object) -> "Table":
    """Names and values, one a line. Underscores in names are spaces; what is None is left out."""
    from rich.table import Table  # noqa: PLC0415

    made = Table.grid(padding=(0, 2))
    made.add_column(style="dim", no_wrap=True)
    made.add_column(overflow="fold")
    for name, value in named.items():
        if value is not None:
            made.add_row(name.replace("_", " "), str(value))
    return made


def progress(console: "Console", *extra: "TextColumn") -> "Progress":
    """A bar that is there while something runs and gone afterwards; silent where there is no terminal."""
    from rich.progress import (  # noqa: PLC0415
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
    )

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=None),
        MofNCompleteColumn(),
        *extra,
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
