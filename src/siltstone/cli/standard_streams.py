"""The standard streams of the process: which of them are missing, and errors that name them.

Python sets ``sys.stdout`` to None when the process was started with a closed stdout (``>&-``), and the first file or
socket that is opened then gets its file descriptor. So a command checks the streams before it opens anything.
"""

import codecs
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from siltstone.model.errors import InvalidRequest

STDOUT_NAME = "standard output"

PLAIN = {
    "≤": "<=", "≥": ">=", "…": "...", "→": "->", "←": "<-", "×": "x", "·": ".", "•": "*", "–": "-", "—": "-",
    "─": "-", "━": "-", "│": "|", "┃": "|", "█": "#", "’": "'", "‘": "'", "“": '"', "”": '"', "µ": "u",
}  # fmt: skip
"""What is written for a character that the encoding of a stream lacks, as that of a terminal in Latin-1."""


def _plainly(error: UnicodeError) -> tuple[str, int]:
    """Replaces the characters that cannot be encoded; those without a row in PLAIN by a question mark."""
    assert isinstance(error, UnicodeEncodeError)
    lacking = error.object[error.start : error.end]
    return "".join(PLAIN.get(character, "?") for character in lacking), error.end


codecs.register_error("siltstone.plainly", _plainly)


class StreamClosed(InvalidRequest):
    """The process was started without stdin or stdout, and the command needs it."""


class _StandardOutput(io.BufferedWriter):
    """Stdout. An OSError of a write, such as a full disk, has a name for its text.

    The file below it is Python's own: if it were ours, Ctrl-C could come between the system call and the end of our
    method, and the buffer would write the same bytes again at the end of the program."""

    def write(self, data: Any, /) -> int:
        with _named():
            return super().write(data)

    def flush(self) -> None:
        with _named():
            super().flush()


@contextmanager
def _named() -> Iterator[None]:
    try:
        yield
    except OSError as failure:
        failure.filename = STDOUT_NAME
        raise


def prepare_streams() -> None:
    """Makes stdout and stderr fit to be written to. Raises StreamClosed."""
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115  open until the end
    if sys.stdout is None:
        raise StreamClosed("standard output is closed: redirect it to a file, or to /dev/null")
    if isinstance(sys.stderr, io.TextIOWrapper):
        sys.stderr.reconfigure(errors="siltstone.plainly")
    sys.stdout = io.TextIOWrapper(
        _StandardOutput(io.FileIO(sys.stdout.fileno(), "w", closefd=False)),
        encoding=sys.stdout.encoding,
        errors="siltstone.plainly",
        line_buffering=sys.stdout.isatty(),
        write_through=sys.stdout.write_through,  # type: ignore[union-attr]
    )


class InputFile(click.File):
    """A file that is read, or stdin as ``-``. Raises StreamClosed."""

    def __init__(self) -> None:
        super().__init__("rb")

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "-" and sys.stdin is None:
            raise StreamClosed("standard input is closed: name a FILE, or redirect input from one")
        return super().convert(value, param, ctx)
