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
    return (
        kind,
        unit.name,
        _size(unit.bytes_read),
        _size(unit.bytes_written),
        objects_words(unit),
        unit.reason,
    )


def objects_words(unit: PlannedUnit) -> str:
    """Before and after."""
    if not unit.objects_before and not unit.objects_after:
        return ""
    return f"{unit.objects_before:,} → {unit.objects_after:,}"


def table_of(header: Row, rows: Sequence[Row]) -> str:
    if not rows:
        return NOTHING
    shown = [header, *_shown(rows)]
    widths = [max(len(row[at]) for row in shown) for at in range(len(header))]
    return "\n".join(_line(header, row, widths) for row in shown)


def html_of(header: Row, rows: Sequence[Row]) -> str:
    if not rows:
        return f"<p>{NOTHING}</p>"
    head = "".join(f"<th>{name}</th>" for name in header)
    body = "".join(f"<tr>{''.join(map(_html_cell, header, row))}</tr>" for row in _shown(rows))
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _shown(rows: Sequence[Row]) -> list[Row]:
    left = len(rows) - ROWS_SHOWN_MAX
    if left <= 0:
        return list(rows)
    more = ("…", *[""] * (len(rows[0]) - 2), f"and {counted(left, 'more unit')}")
    return [*rows[:ROWS_SHOWN_MAX], more]


def _line(header: Row, row: Row, widths: Sequence[int]) -> str:
    named = zip(header, row, widths, strict=True)
    padded = (cell.rjust(width) if name in RIGHT else cell.ljust(width) for name, cell, width in named)
    return "  ".join(padded).rstrip()


def _html_cell(name: str, cell: str) -> str:
    side = "right" if name in RIGHT else "left"
    return f'<td style="text-align: {side}">{escape(cell)}</td>'


def _size(size_bytes: int) -> str:
    return size_words(size_bytes) if size_bytes else ""
