"""Collects the source text of a function: lines, indentation, unused names, and the constants the lines refer to."""

from collections.abc import Iterator
from contextlib import contextmanager
from struct import Struct
from typing import Any

_INDENT = "    "


class CodecSource:
    def __init__(self, **constants: object) -> None:
        self.constants: dict[str, Any] = dict(constants)
        self._lines: list[str] = []
        self._depth = 0
        self._names = 0

    def line(self, text: str) -> None:
        self._lines.append(_INDENT * self._depth + text)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Writes ``head``; lines written inside the ``with`` are indented under it."""
        self.line(head)
        self._depth += 1
        yield
        self._depth -= 1

    def name(self, kind: str) -> str:
        """Returns a local name that was not used before, such as n1 for a count or v2 for a value."""
        self._names += 1
        return f"{kind}{self._names}"

    def constant(self, kind: str, value: object) -> str:
        name = f"{kind}_{len(self.constants)}"
        self.constants[name] = value
        return name

    def method_of_struct(self, codes: str, method: str) -> str:
        """Returns the name of a constant for the method of ``struct.Struct(codes)``, which is made once per format."""
        name = f"{method}_{codes.replace('?', 'T')}"
        self.constants.setdefault(name, getattr(Struct(f">{codes}"), method))
        return name

    def text(self) -> str:
        return "\n".join(self._lines) + "\n"
