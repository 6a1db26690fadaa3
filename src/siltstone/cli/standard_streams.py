"""The standard streams of the process: which of them are missing, and errors that name them.

Python sets ``sys.stdout`` to None when the process was started with a closed stdout (``>&-``), and the first file or
socket that is opened then gets its file descriptor. So a command checks the streams before it opens anything.

Text is never refused for the encoding of a stream. Where that is not UTF-8, the signs of our own output are written
with ASCII (``<=`` for ``≤``), and others that the encoding lacks as ``\\xe9``, ``\\u4e2d`` or ``\\U0001f600``.
Records keep their bytes: ``tail`` and ``consume`` write below the text layer.
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

PLAIN_SIGNS = {
    "≤": "<=", "≥": ">=", "→": "->", "←": "<-", "⇄": "<->", "⇔": "<=>", "×": "x", "−": "-", "–": "-", "—": "-",
    "…": "...", "·": ".", "•": "*", "µ": "u", "✓": "ok", "✗": "x", "▶": ">", "◀": "<", "▲": "^", "▼": "v",
    "─": "-", "━": "-", "═": "=", "╸": "-", "╺": "-", "╴": "-", "╶": "-", "│": "|", "┃": "|",
    "┌": "+", "┐": "+", "└": "+", "┘": "+", "├": "+", "┤": "+", "┬": "+", "┴": "+", "┼": "+",
    "█": "#", "▉": "#", "▊": "#", "▋": "#", "▌": "#", "▍": "#", "▎": "#", "▏": "#", "░": ".", "▒": ":", "▓": "#",
    "‘": "'", "’": "'", "“": '"', "”": '"', "\N{NO-BREAK SPACE}": " ",
}  # fmt: skip
"""Signs of our output → how they are written where an encoding lacks them."""

PLAIN_ERRORS = "siltstone.plain"
"""The name under which ``_plain`` is registered as a handler of errors of encodings."""

ASCII = "siltstone-ascii"
"""ASCII under a name that click does not know: click takes a stream in ASCII for a mistake and writes UTF-8 to it."""


class OutputClosed(InvalidRequest):
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


def _plain(failure: UnicodeError) -> tuple[str, int]:
    """Writes what the encoding lacks with ASCII."""
    if not isinstance(failure, UnicodeEncodeError):
        raise failure
    lacking = failure.object[failure.start : failure.end]
    return "".join(PLAIN_SIGNS.get(sign) or _escaped(sign) for sign in lacking), failure.end


def _escaped(character: str) -> str:
    number = ord(character)
    if 0xDC80 <= number <= 0xDCFF:
        return f"\\x{number - 0xDC00:02x}"  # a byte that is not UTF-8
    return character.encode("ascii", "backslashreplace").decode("ascii")


def _ascii_codec(name: str) -> codecs.CodecInfo | None:
    if name.replace("_", "-") != ASCII:
        return None
    found = codecs.lookup("ascii")
    return codecs.CodecInfo(
        found.encode, found.decode, found.streamreader, found.streamwriter, found.incrementalencoder,
        found.incrementaldecoder, name=ASCII,
    )  # fmt: skip


codecs.register_error(PLAIN_ERRORS, _plain)
codecs.register(_ascii_codec)


def _encoding_of(stream: io.TextIOWrapper) -> str:
    return ASCII if codecs.lookup(stream.encoding).name == "ascii" else stream.encoding


def prepare_streams() -> None:
    """Makes stdout and stderr fit to be written to, whatever their encoding. Raises StreamClosed."""
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115  open until the end
    if sys.stdout is None:
        raise OutputClosed("standard output is closed: redirect it to a file, or to /dev/null")
    assert isinstance(sys.stderr, io.TextIOWrapper)
    assert isinstance(sys.stdout, io.TextIOWrapper)
    sys.stderr.reconfigure(encoding=_encoding_of(sys.stderr), errors=PLAIN_ERRORS)
    sys.stdout = io.TextIOWrapper(
        _StandardOutput(io.FileIO(sys.stdout.fileno(), "w", closefd=False)),
        encoding=_encoding_of(sys.stdout),
        errors=PLAIN_ERRORS,
        line_buffering=sys.stdout.isatty(),
        write_through=sys.stdout.write_through,
    )


class InputFile(click.File):
    """A file that is read, or stdin as ``-``. Raises StreamClosed."""

    def __init__(self) -> None:
        super().__init__("rb")

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "-" and sys.stdin is None:
            raise OutputClosed("standard input is closed: name a FILE, or redirect input from one")
        return super().convert(value, param, ctx)
