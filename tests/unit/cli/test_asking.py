import io
import sys

import pytest

from siltstone.cli.asking import NobodyToAsk, confirm, tell_deleted
from siltstone.cli.failures import Failure


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def asked(monkeypatch: pytest.MonkeyPatch, answer: str) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal(answer))
    confirm("Delete t?", is_answered=False)


def test_yes_goes_on(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    asked(monkeypatch, "y\n")
    out, err = capsys.readouterr()
    assert (out, "Delete t? [y/N]" in err) == ("", True)


@pytest.mark.parametrize("answer", ["n\n", "\n"])
def test_anything_else_does_nothing(
    answer: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(Failure):
        asked(monkeypatch, answer)
    assert "Nothing was done." in capsys.readouterr().err


def test_without_a_terminal_the_answer_has_to_be_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    with pytest.raises(NobodyToAsk, match=r"Delete t\? .* --yes"):
        confirm("Delete t?", is_answered=False)
    confirm("Delete t?", is_answered=True)


def test_what_was_deleted_is_told_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    names = ["[b]a[/b]", *(f"a-topic-with-a-long-name-{number}" for number in range(20))]
    tell_deleted(names, {}, False)
    assert tuple(capsys.readouterr()) == (f"Deleted {', '.join(names)}.\n", "")


@pytest.mark.parametrize(
    ("as_json", "told"),
    [
        (False, "Deleted a.\n"),
        (True, '{\n  "deleted": [\n    "a"\n  ],\n  "refused": {\n    "b": "[b] is gone"\n  }\n}\n'),
    ],
)
def test_what_was_refused_is_told_with_its_reason_and_is_a_failure(
    as_json: bool, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(Failure):
        tell_deleted(["a", "b"], {"b": "[b] is gone"}, as_json)
    assert tuple(capsys.readouterr()) == (told, "not deleted: [b] is gone\n")


def test_of_nothing_deleted_only_the_reasons_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    reason = "it is long and stays on one line, however narrow the terminal: " + "x" * 200
    with pytest.raises(Failure):
        tell_deleted(["a"], {"a": reason}, False)
    assert tuple(capsys.readouterr()) == ("", f"not deleted: {reason}\n")


@pytest.mark.parametrize("stdin", [None, io.StringIO("y\n")])
def test_a_process_without_a_terminal_on_stdin_cannot_ask(
    monkeypatch: pytest.MonkeyPatch, stdin: io.StringIO | None
) -> None:
    monkeypatch.setattr(sys, "stdin", stdin)
    with pytest.raises(NobodyToAsk):
        confirm("Delete t?", is_answered=False)
