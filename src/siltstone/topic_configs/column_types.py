"""Parses the types of ``siltstone.table.columns``: plain ones, and structs, arrays and maps of them. Pure.

A nested type is written as Spark's DDL writes it:

    struct<lat: double, lon: double>     fields by name; the colon may be left out
    array<string>                        any number of values of one type
    map<string, long>                    values by name, where names are data; keys are text, as those of JSON are

``canonical`` gives one spelling of each type: ``struct<lat:double,lon:double>``.
"""

import re
from collections.abc import Iterator

import msgspec

PLAIN = ("boolean", "int", "long", "double", "string", "date", "timestamp", "json")
"""Types that hold no other type. ``json``: any JSON value, as its text."""

STRUCT = "struct"
ARRAY = "array"
MAP = "map"
NESTED = ("struct<NAME: TYPE, …>", "array<TYPE>", "map<string, TYPE>")
"""How types that hold other types are written."""

DEPTH_MAX = 20
"""Readers of Parquet, Iceberg and Delta walk a type by recursion; no table that people read is as deep."""

NAME_CHARACTERS_MAX = 255
NAME = re.compile(rf"[A-Za-z_][A-Za-z0-9_]{{0,{NAME_CHARACTERS_MAX - 1}}}")
_TOKEN = re.compile(r"\s*(?:([A-Za-z_][A-Za-z0-9_]*)|([<>,:]))")


class TypeMalformed(ValueError):
    """A text is no type of a column. It says why."""


class ColumnType(msgspec.Struct, frozen=True):
    """The type of a column or of a part of one. ``kind`` is one of PLAIN, or STRUCT, ARRAY or MAP; ``parts`` are the
    fields of a struct by name, and the values of an array or a map under the name ""."""

    kind: str
    parts: tuple[tuple[str, "ColumnType"], ...] = ()

    @property
    def item(self) -> "ColumnType":
        """The type of the values of an array or a map."""
        return self.parts[0][1]

    def fields(self) -> Iterator[str]:
        """Yields the names of all fields of structs, at any depth."""
        for name, part in self.parts:
            if name:
                yield name
            yield from part.fields()


def canonical(of: ColumnType) -> str:
    """Returns the one spelling of a type that ``parsed_type`` reads."""
    match of.kind:
        case "struct":
            return f"struct<{','.join(f'{name}:{canonical(part)}' for name, part in of.parts)}>"
        case "array":
            return f"array<{canonical(of.item)}>"
        case "map":
            return f"map<string,{canonical(of.item)}>"
    return of.kind


def parsed_type(text: str) -> ColumnType:
    """Parses a type. Raises TypeMalformed."""
    return _Parsing(_words(text)).whole()


def _words(text: str) -> list[str]:
    found, at = [], 0
    text = text.rstrip()
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise TypeMalformed(f"{text[at:].strip()[:1]!r} is a part of no type")
        found.append(match[1] or match[2])
        at = match.end()
    return found


class _Parsing:
    """Reads a type from its words, by recursive descent."""

    def __init__(self, words: list[str]) -> None:
        self._words = words
        self._at = 0

    def whole(self) -> ColumnType:
        found = self._type(1)
        if self._at < len(self._words):
            raise TypeMalformed(f"{self._words[self._at]!r} follows a whole type")
        return found

    def _type(self, depth: int) -> ColumnType:
        if depth > DEPTH_MAX:
            raise TypeMalformed(f"a type may hold types to a depth of {DEPTH_MAX}")
        kind = self._next("a type")
        if kind in PLAIN:
            return ColumnType(kind)
        if kind not in (STRUCT, ARRAY, MAP):
            raise TypeMalformed(f"{kind} is none of {types_in_words()}")
        self._expect("<", kind)
        if kind == STRUCT:
            parts = self._fields(depth)
        else:
            if kind == MAP:
                self._keys()
            parts = (("", self._type(depth + 1)),)
        self._expect(">", kind)
        return ColumnType(kind, parts)

    def _keys(self) -> None:
        if self._next("the type of the keys") != "string":
            raise TypeMalformed("the keys of a map are text: write map<string, TYPE>")
        self._expect(",", MAP)

    def _fields(self, depth: int) -> tuple[tuple[str, ColumnType], ...]:
        found: dict[str, tuple[str, ColumnType]] = {}
        while True:
            name = self._next("the name of a field")
            if not NAME.fullmatch(name):
                raise TypeMalformed(f"{name!r} is not the name of a field")
            if name.lower() in found:
                raise TypeMalformed(f"a field {name} is there already")
            if self._peek() == ":":
                self._at += 1
            found[name.lower()] = (name, self._type(depth + 1))
            if self._peek() != ",":
                return tuple(found.values())
            self._at += 1

    def _peek(self) -> str:
        return self._words[self._at] if self._at < len(self._words) else ""

    def _next(self, what: str) -> str:
        word = self._peek()
        if not word:
            raise TypeMalformed(f"{what} is missing at the end")
        self._at += 1
        return word

    def _expect(self, mark: str, kind: str) -> None:
        word = self._peek()
        if word != mark:
            raise TypeMalformed(
                f"{mark!r} of {kind} is missing {f'before {word!r}' if word else 'at the end'}"
            )
        self._at += 1


def types_in_words() -> str:
    """Returns all types, as refusals list them."""
    return ", ".join((*PLAIN, *NESTED))
