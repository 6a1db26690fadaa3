"""Output of a command: results on stdout, progress and notes on stderr, so that a pipe receives results only.

A console is made by each call, never at import, because tests replace ``sys.stdout`` and ``sys.stderr``. ``rich`` is
imported by the functions that need it, because a starting broker prints no table.
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
"""Width of a table when stdout is not a terminal: wide enough that grep rarely meets a wrapped row."""


def results(columns: int | None = None) -> "Console":
    """A console on stdout, ``columns`` wide; by default as wide as the terminal, or PIPE_COLUMNS."""
    from rich.console import Console  # noqa: PLC0415

    is_pipe = not sys.stdout.isatty() and "COLUMNS" not in os.environ
    return Console(
        file=sys.stdout, width=columns or (PIPE_COLUMNS if is_pipe else None), highlight=False, emoji=False
    )


def remarks() -> "Console":
    """A console on stderr."""
    from rich.console import Console  # noqa: PLC0415

    return Console(file=sys.stderr, highlight=False, emoji=False)


def result(line: str) -> None:
    """Prints one plain line on stdout, without loading ``rich``."""
    click.echo(line)


def remark(line: str, **style: Any) -> None:
    """Prints one line on stderr, without loading ``rich``. ``style``: arguments of ``click.style``, used at a
    terminal."""
    click.secho(line, err=True, **style)


def print_json(value: object) -> None:
    """Prints one JSON document on stdout."""
    sys.stdout.write(msgspec.json.format(msgspec.json.encode(value), indent=2).decode() + "\n")
    sys.stdout.flush()  # raises BrokenPipeError here, not while the interpreter exits


def abandon(stream: IO[Any]) -> None:
    """Redirects ``stream``, whose reader has closed the pipe, to the null device. Otherwise Python prints an error when
    it flushes the buffer of the stream at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def table(*columns: str, title: str | None = None) -> "Table":
    """A table with these columns; a name that begins with ``>`` makes a right-aligned column of numbers."""
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
    """Names and values, one pair per line. Underscores in names become spaces; a value of None is left out."""
    from rich.table import Table  # noqa: PLC0415

    made = Table.grid(padding=(0, 2))
    made.add_column(style="dim", no_wrap=True)
    made.add_column(overflow="fold")
    for name, value in named.items():
        if value is not None:
            made.add_row(name.replace("_", " "), str(value))
    return made


def progress(console: "Console", *extra: "TextColumn") -> "Progress":
    """A progress bar that disappears when it is done, and is not shown where stderr is no terminal."""
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
