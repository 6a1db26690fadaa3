"""Tables that a terminal shows drawn, and a pipe receives as lines of tab-separated cells.

=============  =====================================================================================================
in a pipe
=============  =====================================================================================================
first line     the names of the columns; ``facts``, which are names and values, have no such line
a row          one line; its cells are whole, neither padded nor cut, and separated by tabs
inside a cell  a line break or a tab becomes a space
a title        a line of its own before the table
=============  =====================================================================================================
"""

from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment
from rich.table import Table


class PlainConsole(Console):
    """A console on a pipe: its tables are not drawn."""


class ResultTable(Table):
    """A table that is written as tab-separated lines to a ``PlainConsole``, and drawn on any other console."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if not isinstance(console, PlainConsole):
            yield from super().__rich_console__(console, options)
            return
        if self.title:
            yield Segment(f"{_plain(console, self.title)}\n")
        if self.show_header:
            yield _line(console, [column.header for column in self.columns])
        for cells in zip(*(column.cells for column in self.columns), strict=True):
            yield _line(console, list(cells))


def _line(console: Console, cells: list[object]) -> Segment:
    return Segment("\t".join(_plain(console, cell) for cell in cells) + "\n")


def _plain(console: Console, cell: object) -> str:
    text = console.render_str(cell).plain if isinstance(cell, str) else str(cell)
    return " ".join(text.replace("\t", " ").splitlines())
