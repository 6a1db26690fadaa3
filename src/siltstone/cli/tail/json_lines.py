"""A value that is a JSON object, indented and coloured for a terminal. Pure."""

import re
from collections.abc import Callable

import msgspec

from siltstone.cli.json_records import NOT_JSON
from siltstone.cli.words import shown
from siltstone.model.buffers import Buffer

_CYAN, _GREEN, _YELLOW, _DIM = "\x1b[36m", "\x1b[32m", "\x1b[33m", "\x1b[2m"
_STRING = r'"(?:[^"\\]|\\.)*"'
_LINE = re.compile(rf"( *)(?:({_STRING})(: ))?({_STRING}|[^\[\]{{}},]+)?(.*)")
"""Indentation, name, colon, a value that is neither list nor object, and brackets and comma."""

Paint = Callable[[str, str], str]


def json_lines(value: Buffer | None, paint: Paint) -> list[str] | None:
    """Returns the lines; None for a value that is no JSON object. Characters that are not safe to print are escaped.
    ``paint(text, colour)`` returns the text, coloured if the terminal has colours."""
    if value is None or bytes(value[:1]) not in (b"{", b" ", b"\n", b"\t", b"\r"):
        return None
    try:
        msgspec.json.decode(value, type=dict[str, msgspec.Raw])
        text = msgspec.json.format(bytes(value), indent=2).decode()
    except (*NOT_JSON, msgspec.ValidationError):
        return None
    return [_painted(shown(line), paint) for line in text.split("\n")]


def _painted(line: str, paint: Paint) -> str:
    parts = _LINE.fullmatch(line)
    if parts is None:
        return line
    indentation, name, colon, value, rest = (each or "" for each in parts.groups())
    return f"{indentation}{paint(name, _CYAN)}{colon}{paint(value, _colour(value))}{rest}"


def _colour(value: str) -> str:
    if value.startswith('"'):
        return _GREEN
    return _DIM if value == "null" else _YELLOW
