"""Runs commands as a shell does: arguments in; exit status, stdout and stderr out."""

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
from click.testing import CliRunner

from siltstone.cli.main import cli


class Outcome(msgspec.Struct, frozen=True):
    status: int
    out: str
    err: str

    @property
    def json(self) -> dict:
        return msgspec.json.decode(self.out)

    @property
    def words(self) -> str:
        """Returns stdout with all space alike, to look up sentences that a table or a narrow terminal has folded."""
        return " ".join(self.out.split())


CLEAN = dict.fromkeys(
    ("SILTSTONE_STORE", "SILTSTONE_CONFIG", "SILTSTONE_BOOTSTRAP", "SILTSTONE_DEBUG", "COLUMNS")
)


DRAWN = {"COLUMNS": "160"}
"""Tables are drawn, although the output is a pipe; ``COLUMNS=None`` shows what a pipe receives."""


@contextmanager
def logging_as_before() -> Iterator[None]:
    """A command that logs sets levels and a handler for the whole process, which is that of the next tests, too."""
    root, ours = logging.getLogger(), logging.getLogger("siltstone")
    handlers, levels, hook = list(root.handlers), (root.level, ours.level), threading.excepthook
    try:
        yield
    finally:
        root.handlers[:] = handlers
        root.setLevel(levels[0])
        ours.setLevel(levels[1])
        threading.excepthook = hook


def run(*arguments: object, stdin: bytes | None = None, **environment: str | None) -> Outcome:
    """Runs the command without any variable of the environment of the tests."""
    words = [str(argument) for argument in arguments]
    with logging_as_before():
        result = CliRunner().invoke(
            cli, words, input=stdin, env={**CLEAN, **DRAWN, **environment}, prog_name="siltstone"
        )
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Outcome(result.exit_code, result.stdout, result.stderr)


def assert_one_line(outcome: Outcome, status: int, *parts: str) -> None:
    """Asserts that the error is one line on stderr, that nothing is on stdout, and that there is no traceback."""
    assert outcome.status == status, outcome
    assert outcome.out == ""
    lines = outcome.err.splitlines()
    assert len(lines) == 1, outcome.err
    assert lines[0].startswith("siltstone: ")
    for part in parts:
        assert part in lines[0], outcome.err
    assert "Traceback" not in outcome.err and "bug" not in outcome.err
