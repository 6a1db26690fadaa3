from io import StringIO

import pytest
from rich.console import Console, Group
from rich.text import Text

from siltstone.cli.output import table
from siltstone.cli.result_table import PlainConsole


def plain(*parts: object) -> str:
    written = StringIO()
    PlainConsole(file=written, width=1_000_000, force_terminal=False).print(*parts)
    return written.getvalue()


def test_a_row_is_one_line_whatever_is_in_its_cells() -> None:
    shown = table("key", ">offset")
    shown.add_row(Text("two\nlines and\ta tab"), "7")
    shown.add_row("", "")
    assert plain(shown) == "key\toffset\ntwo lines and a tab\t7\n\t\n"


def test_markup_of_our_own_is_not_written_and_foreign_text_is_as_it_stands() -> None:
    shown = table("a", "b")
    shown.add_row("[green]clean[/]", Text("[green]"))
    assert plain(shown) == "a\tb\nclean\t[green]\n"


def test_several_tables_stand_below_each_other_with_their_titles() -> None:
    one, other = table("a", title="One"), table("b")
    one.add_row("1")
    assert plain(Group(one, "", other)) == "One\na\n1\n\nb\n"


@pytest.mark.parametrize("columns", [20, 80])
def test_any_other_console_draws(columns: int) -> None:
    shown = table("name", ">count")
    shown.add_row("a", "1")
    written = StringIO()
    Console(file=written, width=columns).print(shown)
    assert "─" in written.getvalue() and "\t" not in written.getvalue()
