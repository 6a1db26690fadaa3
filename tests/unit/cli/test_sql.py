"""The three formats in which rows are printed, whatever their values are."""

import json
from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest

from siltstone.cli import sql as module
from siltstone.cli.sql import _print_csv, _print_json, _print_table
from siltstone.server.querying import QueryRows

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
    rows: int, told: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(module, "SHOWN_MAX", 3)
    _print_table(found(*((f"row{number}",) for number in range(rows)), columns=("name",)))
    printed = capsys.readouterr()
    assert [f"row{number}" in printed.out for number in range(4)] == [True, True, True, False]
    assert printed.err == told
