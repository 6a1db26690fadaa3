"""Planned units as a table: for a terminal, for a notebook. Pure."""

from collections.abc import Iterable, Sequence
from html import escape

from siltstone.foundation.quantity_words import counted, size_words
from siltstone.maintenance.pipeline.kind import PlannedUnit

HEADER = ("kind", "unit", "reads", "writes", "objects", "because")
RIGHT = frozenset({"reads", "writes", "objects"})
ROWS_SHOWN_MAX = 60
"""Of thousands one reads the first, which are done first."""

NOTHING = "Nothing to do."

Row = tuple[str, ...]


def cells(units: Iterable[tuple[str, PlannedUnit]]) -> list[Row]:
    return [row_of(kind, unit) for kind, unit in units]


def row_of(kind: str, unit: PlannedUnit) -> Row:
    return (kind, unit.name, _size(unit.bytes_read), _size(unit.bytes_written), _objects(unit), unit.reason)


def text_table(rows: Sequence[Row]) -> str:
    if not rows:
        return NOTHING
    shown = [HEADER, *_shown(rows)]
    widths = [max(len(row[at]) for row in shown) for at in range(len(HEADER))]
    return "\n".join(_line(row, widths) for row in shown)


def html_table(rows: Sequence[Row]) -> str:
    if not rows:
        return f"<p>{NOTHING}</p>"
    head = "".join(f"<th>{name}</th>" for name in HEADER)
    body = "".join(f"<tr>{''.join(map(_html_cell, HEADER, row))}</tr>" for row in _shown(rows))
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _shown(rows: Sequence[Row]) -> list[Row]:
    left = len(rows) - ROWS_SHOWN_MAX
    more = [("…", *[""] * (len(HEADER) - 2), f"and {counted(left, 'more unit')}")] if left > 0 else []
    return [*rows[:ROWS_SHOWN_MAX], *more]


def _line(row: Row, widths: Sequence[int]) -> str:
    named = zip(HEADER, row, widths, strict=True)
    padded = (cell.rjust(width) if name in RIGHT else cell.ljust(width) for name, cell, width in named)
    return "  ".join(padded).rstrip()


def _html_cell(name: str, cell: str) -> str:
    style = ' style="text-align: right"' if name in RIGHT else ' style="text-align: left"'
    return f"<td{style}>{escape(cell)}</td>"


def _size(size_bytes: int) -> str:
    return size_words(size_bytes) if size_bytes else ""


def _objects(unit: PlannedUnit) -> str:
    if not unit.objects_before and not unit.objects_after:
        return ""
    return f"{unit.objects_before:,} → {unit.objects_after:,}"
