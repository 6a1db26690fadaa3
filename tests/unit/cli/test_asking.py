import io
import sys

import pytest

from siltstone.cli.asking import NobodyToAsk, confirm
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
