"""Reads data as other programs write it: JSON objects, one a line, and CSV with a header. Pure.

================  =================================================================================================
format            a record
================  =================================================================================================
``json-lines``    the value is the line as it stands, without the white space around it; each line is a JSON object
``csv``           the value is a JSON object of texts: the names of the first line with the cells of the row
================  =================================================================================================

The key is a field of the object: a member of that name, or, with dots in the name, a member of a member
(``user.id``). A text is the key as it stands, null is no key, and any other JSON value is the key as its JSON text.
CSV is read as RFC 4180 describes it, in UTF-8: a quoted cell may contain commas, doubled quotes and line ends.
"""

import csv
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from siltstone.cli.json_records import NOT_JSON, LineRefused
from siltstone.model.limits import APPEND_BYTES_MAX

MISSING_SHOWN_MAX = 8
ROW_LINES_MAX = 10_000
"""A row that is not complete after so many lines has a quote too many."""

_ABSENT = object()

KeyOf = Callable[[Mapping[str, Any], int], bytes | None]


def key_reader(field: str, *, missing_is_null: bool) -> KeyOf:
    """Returns a function (object, number of its line) → key. It raises LineRefused when the object has no ``field``,
    unless ``missing_is_null``."""

    def key_of(document: Mapping[str, Any], number: int) -> bytes | None:
        found = _member(document, field)
        if found is _ABSENT:
            if missing_is_null:
                return None
            raise LineRefused(
                f"line {number} has no field {field!r}: it has {_names(document)}; "
                "--missing-key-as-null sends such a line without a key"
            )
        if found is None:
            return None
        return found.encode() if isinstance(found, str) else msgspec.json.encode(found)

    return key_of


def _member(document: Any, field: str) -> Any:
    """Finds a member by its name. A member with the whole name takes precedence over a member of a member."""
    if not isinstance(document, dict):
        return _ABSENT
    if field in document:
        return document[field]
    first, dot, rest = field.partition(".")
    return _member(document.get(first), rest) if dot else _ABSENT


def _names(document: Mapping[str, Any]) -> str:
    names = list(document)
    more = ", …" if len(names) > MISSING_SHOWN_MAX else ""
    return ", ".join(names[:MISSING_SHOWN_MAX]) + more if names else "no field at all"


def read_object(line: bytes, number: int) -> tuple[bytes, Mapping[str, Any]]:
    """Returns the JSON object of line ``number``, as it stands and parsed. Raises LineRefused."""
    text = line.strip()
    if not text:
        raise LineRefused(f"line {number} is empty: each line must be a JSON object")
    try:
        document = msgspec.json.decode(text)
    except NOT_JSON as failure:
        raise LineRefused(f"line {number} is not JSON: {failure}") from failure
    if not isinstance(document, dict):
        raise LineRefused(f'line {number} is JSON, but not an object such as {{"id": 1}}')
    return text, document


class RowReader:
    """Gathers the lines of CSV into rows, each of at most ``lines_max`` lines and ``bytes_max`` bytes. ``first_line``:
    the number of the line on which the last row began."""

    def __init__(self, lines_max: int = ROW_LINES_MAX, bytes_max: int = APPEND_BYTES_MAX) -> None:
        csv.field_size_limit(APPEND_BYTES_MAX)
        self._lines_max = lines_max
        self._bytes_max = bytes_max
        self._header: list[str] | None = None
        self._waiting: list[str] = []
        self._waiting_bytes = 0
        self.first_line = 1

    def row(self, line: bytes, number: int) -> Mapping[str, str] | None:
        """Returns the cells by their names, when ``line`` completes a row; None for the header, and while a quoted cell
        continues in the next line. Raises LineRefused."""
        text = self._text(line, number)
        if not self._waiting:
            self.first_line = number
        self._waiting.append(text)
        self._waiting_bytes += len(line)
        if len(self._waiting) > 1 and '"' not in text:
            self._refuse_endless()
            return None  # only a quote ends a quoted cell
        cells = self._cells(number)
        if cells is None:
            self._refuse_endless()
            return None
        self._waiting, self._waiting_bytes = [], 0
        if self._header is None:
            self._header = _checked_header(cells)
            return None
        if len(cells) != len(self._header):
            raise LineRefused(
                f"line {self.first_line} has {len(cells)} cells, but the header has {len(self._header)} names"
            )
        return dict(zip(self._header, cells, strict=True))

    def finish(self) -> None:
        """Raises LineRefused if the input ended inside a row, or before its header."""
        if self._waiting:
            raise LineRefused(
                f"the row that begins at line {self.first_line} has a quote that no other closes"
            )

    def _text(self, line: bytes, number: int) -> str:
        try:
            return line.decode("utf-8-sig" if number == 1 else "utf-8").removesuffix("\r")
        except UnicodeDecodeError as failure:
            raise LineRefused(f"line {number} is not UTF-8: {failure.reason}") from failure

    def _cells(self, number: int) -> list[str] | None:
        """Returns the cells of the waiting lines; None while a quote is open."""
        lines = [f"{text}\n" for text in self._waiting[:-1]] + [self._waiting[-1]]
        try:
            found = list(csv.reader(lines, strict=True))
        except csv.Error as failure:
            if "unexpected end of data" in str(failure):
                return None
            raise LineRefused(f"line {number} is not CSV: {failure}") from failure
        if not found or not found[0]:
            raise LineRefused(f"line {number} is empty: each line must be a row")
        return found[0]

    def _refuse_endless(self) -> None:
        if len(self._waiting) > self._lines_max or self._waiting_bytes > self._bytes_max:
            raise LineRefused(
                f"the row that begins at line {self.first_line} does not end: a quote in it is not closed"
            )


def _checked_header(names: list[str]) -> list[str]:
    if twice := {name for name in names if names.count(name) > 1}:
        raise LineRefused(f"line 1: the header has the name {min(twice)!r} twice")
    return names
