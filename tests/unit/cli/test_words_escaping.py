import io

import pytest
from rich.console import Console

from siltstone.cli.output import table
from siltstone.cli.words import cell, shown, shown_bytes


@pytest.mark.parametrize(
    "text", ["", "plain", "größe 東京 \u3000 \u00a0", 'C:\\temp {"a": "\\n"}', "👩\u200d🔬", "می\u200cخواهم"]
)
def test_what_can_be_printed_stays_as_it_is(text: str) -> None:
    assert shown(text) == text
    assert shown_bytes(text.encode()) == text


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"two\nlines\r\n", r"two\nlines\r\n"),
        (b"a\tb", r"a\tb"),
        (b"\x1b[31mred\x07\x00", r"\x1b[31mred\x07\x00"),
        (b"\xff\xfe ok", r"\xff\xfe ok"),
        ("\u202egnp.exe".encode(), r"\u202egnp.exe"),
        ("\x9b31m".encode(), r"\x9b31m"),
        ("\U000e0041".encode(), r"\U000e0041"),
        ("\u2028".encode(), r"\u2028"),
        (b"\x80", r"\x80"),
        ("\uffff".encode(), r"\uffff"),
    ],
)
def test_what_a_terminal_would_obey_is_spelt_out(data: bytes, text: str) -> None:
    assert shown_bytes(data) == text
    assert shown_bytes(memoryview(bytearray(data))) == text


def test_a_cell_holds_no_markup() -> None:
    out = io.StringIO()
    shown_table = table("name")
    shown_table.add_row(cell("[red]x[/nonsense]\x1b[1m"))
    Console(file=out, width=80).print(shown_table)
    assert r"[red]x[/nonsense]\x1b[1m" in out.getvalue()


def test_halves_of_characters_are_no_bytes() -> None:
    assert shown("\udc7f \udd00") == r"\udc7f \udd00"
