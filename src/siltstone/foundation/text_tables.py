"""Makes tables of texts: lines of equal width for a terminal, and HTML for a notebook. Pure.

Columns with figures, known by their names, are aligned to the right.
"""

from collections.abc import Sequence
from html import escape

from siltstone.foundation.quantity_words import counted

RIGHT = frozenset({"reads", "writes", "objects", "partitions", "offsets", "bytes"})
ROWS_SHOWN_MAX = 60
"""A table shows at most this many rows. They are the units that would be done first."""

NOTHING = "Nothing to do."

Row = tuple[str, ...]


def table_of(header: Row, rows: Sequence[Row]) -> str:
    if not rows:
        return NOTHING
    shown = [header, *_shown(rows, "unit")]
    widths = [max(len(row[at]) for row in shown) for at in range(len(header))]
    return "\n".join(_line(header, row, widths) for row in shown)


def html_of(header: Row, rows: Sequence[Row], noun: str = "unit") -> str:
    """``noun``: what a row is, for the line that counts the others."""
    if not rows:
        return f"<p>{NOTHING}</p>"
    head = "".join(_html_cell("th", name, name) for name in header)
    cells = (
        "".join(_html_cell("td", *each) for each in zip(header, row, strict=True))
        for row in _shown(rows, noun)
    )
    body = "".join(f"<tr>{row}</tr>" for row in cells)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _shown(rows: Sequence[Row], noun: str) -> list[Row]:
    left = len(rows) - ROWS_SHOWN_MAX
    if left <= 0:
        return list(rows)
    more = ("…", *[""] * (len(rows[0]) - 2), f"and {counted(left, f'more {noun}')}")
    return [*rows[:ROWS_SHOWN_MAX], more]


def _line(header: Row, row: Row, widths: Sequence[int]) -> str:
    named = zip(header, row, widths, strict=True)
    padded = (cell.rjust(width) if name in RIGHT else cell.ljust(width) for name, cell, width in named)
    return "  ".join(padded).rstrip()


def _html_cell(tag: str, name: str, cell: str) -> str:
    """``!important``: notebooks align the cells of all tables to the right."""
    side = "right" if name in RIGHT else "left"
    return f'<{tag} style="text-align: {side} !important">{escape(cell)}</{tag}>'
