"""The three formats in which rows are printed, whatever their values are."""

import json
from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest

from siltstone.cli import sql as module
from siltstone.cli.sql import _print_csv, _print_json, _print_table
from siltstone.scanning.querying import QueryRows

NAMES = ("text", "bytes", "none", "list", "struct", "number", "time")
ROW = ("a,b", b"\xff\x00", None, [1, "x"], {"k": Decimal("1.50")}, 7, datetime(2024, 1, 2, 3, 4, 5))


def found(*rows: tuple[Any, ...], columns: tuple[str, ...] = NAMES) -> QueryRows:
    return QueryRows(columns, iter(rows), ())


def test_csv_has_a_header_and_cells_in_one_form(capsys: pytest.CaptureFixture[str]) -> None:
    """Bytes are hexadecimal digits, lists and structs JSON, and null is nothing."""
    _print_csv(found(ROW))
    header, line = capsys.readouterr().out.splitlines()
    assert header == "text,bytes,none,list,struct,number,time"
    assert line == '"a,b",ff00,,"[1,""x""]","{""k"":""1.50""}",7,2024-01-02 03:04:05'
    _print_csv(found(columns=("a", "b")))
    assert capsys.readouterr().out.splitlines() == ["a,b"]


def test_json_has_an_object_for_each_row(capsys: pytest.CaptureFixture[str]) -> None:
    _print_json(found((1, None), (2, {"x": [Decimal(3)]}), columns=("n", "v")))
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert lines == [{"n": 1, "v": None}, {"n": 2, "v": {"x": ["3"]}}]


@pytest.mark.parametrize(
    ("rows", "told"), [(3, ""), (4, "and 1 more rows: --format csv or json prints all\n")]
)
def test_a_table_has_so_many_rows_and_says_how_many_more_there_are(
    rows: int, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    _print_table(found(*((f"row{number}",) for number in range(rows)), columns=("name",)), 3)
    printed = capsys.readouterr()
    assert [f"row{number}" in printed.out for number in range(4)] == [True, True, True, False]
    assert printed.err == told


WIDE = tuple(f"column{number:02d}" for number in range(20))


@pytest.mark.parametrize("columns", [40, 80, 140])
def test_a_table_that_is_wider_than_the_terminal_leaves_columns_out_and_says_so(
    columns: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    place = {"partition": 0, "offset": 7, "timestamp": "2013-07-01 12:00:29", "key": "k"}
    row = (
        *(f"value {number}" for number in range(10)),
        place,
        *(f"value {number}" for number in range(10, 20)),
    )
    _print_table(found(row, row, columns=(*WIDE[:10], "kafka", *WIDE[10:])))
    printed = capsys.readouterr()
    header = printed.out.splitlines()[0].split()
    assert all(len(line) <= columns for line in printed.out.splitlines())
    assert header[0] == "column00" and header[-2:] == ["…", "kafka"]
    left_out = 21 - (len(header) - 1)
    assert printed.err == (
        f"{left_out} of 21 columns are left out: name columns in the query, or print to a pipe\n"
    )
    assert "value 0" in printed.out and len(printed.out.splitlines()) <= 12


def test_a_pipe_receives_every_column(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    _print_table(found(tuple(WIDE), columns=WIDE))
    printed = capsys.readouterr()
    assert printed.out == "\t".join(WIDE) + "\n" + "\t".join(WIDE) + "\n" and printed.err == ""


@pytest.mark.parametrize(
    ("names", "widths", "width", "shown"),
    [
        ("abc", [5, 5, 5], 19, [0, 1, 2]),
        ("abc", [5, 5, 5], 18, [0, -1, 2]),
        ("abcd", [5, 5, 5, 5], 24, [0, 1, -1, 3]),
        ("a", [90], 20, [0]),
        ("ab", [90, 90], 20, [0, 1]),
        ("abc", [90, 90, 90], 20, [0, -1, 2]),
        ((*"abc", "kafka", "e"), [5, 5, 5, 5, 5], 25, [0, 1, -1, 3]),
        ((*"abc", "kafka", "e"), [5, 5, 5, 5, 5], 33, [0, 1, 2, 3, 4]),
    ],
)
def test_which_columns_are_shown(names: Any, widths: list[int], width: int, shown: list[int]) -> None:
    assert module.columns_shown([*names], widths, width) == shown
