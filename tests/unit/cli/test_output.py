import os
import sys
from io import StringIO
from pathlib import Path

import msgspec
import pytest
from rich.console import Console
from rich.progress import TextColumn

from siltstone.cli import output
from siltstone.cli.output import (
    UNWRAPPED_COLUMNS,
    abandon,
    facts,
    is_drawn,
    print_json,
    progress,
    remark,
    remarks,
    result,
    results,
    table,
)


def test_results_go_to_stdout_and_remarks_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    results().print("result [not markup")
    remarks().print("remark")
    assert tuple(capsys.readouterr()) == ("result [not markup\n", "remark\n")


def test_a_pipe_receives_tables_as_lines_unless_columns_says_how_wide_they_are_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = table("name", ">count")
    shown.add_row("a" * 300, "1,000")
    monkeypatch.delenv("COLUMNS", raising=False)
    assert not is_drawn()
    results().print(shown)
    assert capsys.readouterr().out == f"name\tcount\n{'a' * 300}\t1,000\n"
    assert results(80).width == 80
    monkeypatch.setenv("COLUMNS", "70")
    assert is_drawn() and results().width == 70


@pytest.mark.parametrize("console", [results, remarks])
def test_a_sentence_is_not_wrapped_in_a_pipe(
    console, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    console().print("long " * 100 + "end", style="dim")
    assert "".join(capsys.readouterr()) == "long " * 100 + "end\n"


def test_json_is_one_document(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"a": (1, 2)})
    assert capsys.readouterr().out == '{\n  "a": [\n    1,\n    2\n  ]\n}\n'


def test_numbers_stand_to_the_right() -> None:
    made = table("name", ">count")
    assert [(column.header, column.justify) for column in made.columns] == [
        ("name", "left"),
        ("count", "right"),
    ]


def test_facts_leave_out_what_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    results(40).print(facts(peak_memory="1 B", nothing=None))
    assert capsys.readouterr().out.split() == ["peak", "memory", "1", "B"]


def test_facts_in_a_pipe_are_a_name_a_tab_and_a_value(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    results().print(facts(peak_memory="1 B", nothing=None))
    assert capsys.readouterr().out == "peak memory\t1 B\n"


def test_a_bar_is_silent_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with progress(remarks()) as bars:
        bars.update(bars.add_task("x", total=2), completed=1)
    assert tuple(capsys.readouterr()) == ("", "")


@pytest.mark.parametrize("console", [results, remarks])
def test_words_stay_as_they_are_at_a_terminal_too(
    console, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    console().print("12 'flights' :smile:")
    assert "".join(capsys.readouterr()) == "12 'flights' :smile:\n"


def test_a_plain_line_goes_where_it_belongs(capsys: pytest.CaptureFixture[str]) -> None:
    result("[b]result[/b]")
    remark("remark", dim=True)
    assert tuple(capsys.readouterr()) == ("[b]result[/b]\n", "remark\n")


def test_a_terminal_has_its_own_width(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.setattr(sys, "stdout", Terminal())
    assert results().width != UNWRAPPED_COLUMNS


TABLE = """\
Of many
name               count
────────────────────────
aaaaaaaaaaaaaaaaa  1,000
aaaaaaaaaaaaa
b                      2
peak memory  1 B
state        aaaaaaaaaaa
             aaaaaaaaa
"""


def test_what_is_too_long_is_folded_and_numbers_are_whole() -> None:
    shown = table("name", ">count", title="Of many")
    shown.add_row("a" * 30, "1,000")
    shown.add_row("b", "2")
    written = StringIO()
    console = Console(file=written, width=24)
    console.print(shown)
    console.print(facts(peak_memory="1 B", state="a" * 20))
    assert [line.rstrip() for line in written.getvalue().splitlines()] == TABLE.splitlines()


def test_a_bar_at_a_terminal_shows_how_far_and_is_gone() -> None:
    written = StringIO()
    with progress(Console(file=written, width=60, force_terminal=True), TextColumn("soon")) as bars:
        bars.update(bars.add_task("reading", total=4), completed=3)
    assert all(text in written.getvalue() for text in ("reading", "3/4", "soon"))
    assert written.getvalue().endswith("\x1b[2K")


def test_what_is_written_to_an_abandoned_pipe_goes_nowhere(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    open_files = len(list(Path("/proc/self/fd").iterdir()))
    with os.fdopen(writing, "w") as stream:
        stream.write("before")
        abandon(stream)
        assert len(list(Path("/proc/self/fd").iterdir())) == open_files
        os.close(reading)
        stream.flush()


def test_a_remark_is_a_line_and_where_the_log_is_json_an_object(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    remark("made a store")
    monkeypatch.setattr(output, "logs_json", lambda: True)
    remark("made a store", dim=True)
    out, err = capsys.readouterr()
    plain, document = err.splitlines()
    assert (out, plain) == ("", "made a store")
    written = msgspec.json.decode(document)
    assert "made a store" in written.values() and "\x1b" not in document


def test_remarks_at_a_terminal_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "40")
    console = remarks()
    assert (console.file, console.is_terminal, console.width) == (terminal, True, 40)
    console.print(":smile: [7]", style="bold")
    assert ":smile:" in terminal.getvalue() and "\x1b[1m" in terminal.getvalue()
