"""Output of a command: results on stdout, progress and notes on stderr, so that a pipe receives results only.

Tables are drawn at a terminal. A pipe receives them as tab-separated lines (``result_table``), unless the environment
has COLUMNS, with which for example ``watch`` says how wide it shows them. Lines of text are never wrapped in a pipe.

A console is made by each call, never at import, because tests replace ``sys.stdout`` and ``sys.stderr``. ``rich`` is
imported by the functions that need it, because a starting broker prints no table.
"""

import logging
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any

import click
import msgspec

from siltstone.cli.logs import json_line, logs_json

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TextColumn
    from rich.table import Table

UNWRAPPED_COLUMNS = 1_000_000
"""The width of a console on a pipe, so that ``rich`` neither wraps nor crops a line."""


_NOT_ASCII = re.compile(r"[^\x00-\x7f]")


def is_drawn() -> bool:
    """Returns whether tables on stdout are drawn: at a terminal, or when the environment has COLUMNS."""
    return sys.stdout.isatty() or "COLUMNS" in os.environ


def results(columns: int | None = None) -> "Console":
    """Returns a console on stdout. With ``columns`` it draws tables of that width; otherwise it draws if
    ``is_drawn``."""
    from rich.console import Console  # noqa: PLC0415

    if columns is None and not is_drawn():
        return _plain_console(sys.stdout)
    return Console(file=sys.stdout, width=columns, highlight=False, emoji=False)


def remarks() -> "Console":
    """Returns a console on stderr."""
    from rich.console import Console  # noqa: PLC0415

    if not sys.stderr.isatty():
        return _plain_console(sys.stderr)
    return Console(file=sys.stderr, highlight=False, emoji=False)


def _plain_console(stream: IO[str]) -> "Console":
    from siltstone.cli.result_table import PlainConsole  # noqa: PLC0415

    return PlainConsole(
        file=stream, width=UNWRAPPED_COLUMNS, force_terminal=False, highlight=False, emoji=False
    )


def result(line: str) -> None:
    """Prints one plain line on stdout, without loading ``rich``."""
    click.echo(line)


def remark(line: str, **style: Any) -> None:
    """Prints one line on stderr, without loading ``rich``, or a JSON object where the log is JSON. ``style``: arguments
    of ``click.style``, used at a terminal."""
    if logs_json():
        click.echo(json_line(logging.INFO, line), err=True)
    else:
        click.secho(line, err=True, **style)


def remark_at_a_terminal(line: str) -> None:
    """Prints one line on stderr if a person reads both: it would be noise in a script, and in the middle of a pipe."""
    if sys.stdout.isatty() and sys.stderr.isatty():
        remarks().print(line, style="dim", markup=False)


def print_json(value: object) -> None:
    """Prints one JSON document on stdout. JSON has escapes of its own for what the encoding of stdout lacks."""
    text = msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
    sys.stdout.write(json_text(text, sys.stdout.encoding) + "\n")
    sys.stdout.flush()  # raises BrokenPipeError here, not while the interpreter exits


def json_text(text: str, encoding: str | None) -> str:
    """Returns the JSON with ``\\u`` escapes for all but ASCII, if the encoding lacks any character of it."""
    try:
        text.encode(encoding or "utf-8")
    except UnicodeEncodeError:
        return _NOT_ASCII.sub(_json_escape, text)
    return text


def _json_escape(found: "re.Match[str]") -> str:
    units = found[0].encode("utf-16-be").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


def abandon(stream: IO[Any]) -> None:
    """Redirects ``stream``, whose reader has closed the pipe, to the null device. Otherwise Python prints an error when
    it flushes the buffer of the stream at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def table(*columns: str, title: str | None = None) -> "Table":
    """Returns a table with these columns; a name that begins with ``>`` makes a right-aligned column of numbers."""
    from rich import box  # noqa: PLC0415

    from siltstone.cli.result_table import ResultTable  # noqa: PLC0415

    made = ResultTable(
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
    from siltstone.cli.result_table import ResultTable  # noqa: PLC0415

    made = ResultTable.grid(padding=(0, 2))
    made.add_column(style="dim", no_wrap=True)
    made.add_column(overflow="fold")
    for name, value in named.items():
        if value is not None:
            made.add_row(name.replace("_", " "), str(value))
    return made


def progress(console: "Console", *extra: "TextColumn") -> "Progress":
    """Returns a progress bar that disappears when it is done, and is not shown where stderr is no terminal."""
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


@contextmanager
def copying_shown() -> Iterator[Callable[[int, int], None]]:
    """Yields a function that shows how many objects are copied: it is called with (those done, those in all)."""
    with progress(remarks()) as shown:
        task = shown.add_task("copying objects", total=None, visible=False)

        def show(done: int, total: int) -> None:
            shown.update(task, completed=done, total=total, visible=True)

        yield show
