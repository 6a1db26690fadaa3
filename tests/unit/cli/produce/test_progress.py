import io
import sys
from pathlib import Path

import pytest

from siltstone.cli.produce.progress import AnswerWatch, ProduceProgress, hint_at_terminal
from siltstone.runtime.clock import ManualClock


def test_nothing_is_drawn_where_nobody_looks(capsys: pytest.CaptureFixture[str]) -> None:
    with ProduceProgress(io.BytesIO(), ManualClock()) as progress:
        progress.tell(10, 100)
    hint_at_terminal(io.BytesIO(), "t")
    assert tuple(capsys.readouterr()) == ("", "")


def test_a_remark_is_seen_in_any_case(capsys: pytest.CaptureFixture[str]) -> None:
    with ProduceProgress(io.BytesIO(), ManualClock()) as progress:
        progress.say("the connection is lost [not markup]")
    assert capsys.readouterr().err == "the connection is lost [not markup]\n"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class TypedInput(io.BytesIO):
    def isatty(self) -> bool:
        return True


def terminal_of(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Replaces stderr."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr(sys, "stderr", Terminal())
    return sys.stderr


def test_at_a_terminal_it_shows_how_much_was_sent_and_how_fast_and_is_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terminal = terminal_of(monkeypatch)
    clock = ManualClock()
    with ProduceProgress(io.BytesIO(), clock) as progress:
        clock.block_ms(500)
        progress.tell(10, 100)
        clock.block_ms(1_500)
        progress.tell(4_000, 924)
    assert "4,000 records, 1.0 KiB, 2,000/s" in terminal.getvalue()
    assert "━" not in terminal.getvalue()  # nobody knows how long a pipe is
    assert terminal.getvalue().endswith("\x1b[2K")


def test_at_once_it_is_as_fast_as_a_millisecond(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = terminal_of(monkeypatch)
    with ProduceProgress(io.BytesIO(), ManualClock()) as progress:
        progress.tell(2, 100)
    assert "2 records, 100 B, 2,000/s" in terminal.getvalue()


def test_of_a_file_a_bar_shows_how_much_is_left(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    terminal = terminal_of(monkeypatch)
    file = tmp_path / "lines"
    file.write_bytes(b"x" * 100)
    with file.open("rb") as stream, ProduceProgress(stream, ManualClock()) as progress:
        progress.tell(10, 50)
    assert "━" * 15 in terminal.getvalue()


def test_what_is_typed_is_not_disturbed_but_hinted_at(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = terminal_of(monkeypatch)
    with ProduceProgress(TypedInput(), ManualClock()) as progress:
        progress.tell(10, 100)
    assert terminal.getvalue() == ""
    hint_at_terminal(io.BytesIO(), "t")
    assert terminal.getvalue() == ""
    hint_at_terminal(TypedInput(), "[t]")
    assert "Type one record per line for [t]; Ctrl-D ends the input." in terminal.getvalue()


def test_a_hint_that_nobody_sees_is_not_given(capsys: pytest.CaptureFixture[str]) -> None:
    hint_at_terminal(TypedInput(), "t")
    assert tuple(capsys.readouterr()) == ("", "")


def test_a_long_remark_stays_on_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with ProduceProgress(io.BytesIO(), ManualClock()) as progress:
        progress.say("word " * 100)
    assert capsys.readouterr().err == "word " * 100 + "\n"


def test_a_silent_broker_is_named_once_in_each_silence_and_never_while_nothing_is_sent() -> None:
    silence = AnswerWatch(0)
    assert not silence.seen(7_999, 0, is_waiting=True)
    assert "acknowledged nothing for 8.0 s" in silence.seen(8_000, 0, is_waiting=True)
    assert not silence.seen(20_000, 0, is_waiting=True)
    assert not silence.seen(21_000, 1, is_waiting=True)
    assert silence.seen(29_000, 1, is_waiting=True)
    assert not silence.seen(30_000, 1, is_waiting=False)
    assert not silence.seen(90_000, 1, is_waiting=False)
    assert not silence.seen(97_000, 1, is_waiting=True)
