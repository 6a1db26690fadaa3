"""Exit status and line of every kind of failure."""

import click
import pytest

from siltstone.cli.failures import (
    DEBUG_VARIABLE,
    FAILED,
    INTERRUPTED,
    STOPPED_EARLY,
    WRONG_REQUEST,
    ExtraMissing,
    Failure,
    debugging,
    exit_status,
    failure_line,
)
from siltstone.metadata.refusals import StreamFenced, StreamNotExist
from siltstone.metadata.store.port import NotMetadataLog
from siltstone.model.errors import CorruptData, InvalidRequest, Stale, Unavailable


@pytest.mark.parametrize(
    ("failure", "status"),
    [
        (InvalidRequest("x"), 2),
        (ExtraMissing("pyspark", "spark"), 2),
        (NotMetadataLog("x"), 2),
        (click.UsageError("x"), 2),
        (StreamNotExist("x"), 1),
        (StreamFenced("x"), 1),
        (Unavailable("x"), 1),
        (Stale("x"), 1),
        (CorruptData("x"), 1),
        (PermissionError(13, "Permission denied", "/x"), 1),
        (KeyError("x"), 1),
        (Failure(), 1),
        (KeyboardInterrupt(), 130),
        (click.Abort(), 130),
    ],
)
def test_every_failure_has_its_exit_status(failure: BaseException, status: int) -> None:
    assert exit_status(failure) == status


def test_a_failure_is_told_in_one_line() -> None:
    assert failure_line(Unavailable("several\n  lines")) == "several lines"
    assert failure_line(PermissionError(13, "Permission denied", "/x")) == "/x: Permission denied"
    assert failure_line(Failure()) is None
    assert failure_line(ExtraMissing("pyspark", "spark")) == (
        "pyspark is not installed: pip install 'siltstone[spark]'"
    )
    bug = failure_line(KeyError("x"))
    assert bug is not None and "this is a bug, KeyError" in bug and "SILTSTONE_DEBUG=1" in bug


def test_what_would_act_on_the_terminal_is_escaped() -> None:
    assert (
        failure_line(InvalidRequest("topic a\x1b[31m\x07: no such topic"))
        == r"topic a\x1b[31m\x07: no such topic"
    )


def test_exit_statuses_that_scripts_rely_on() -> None:
    assert (FAILED, WRONG_REQUEST, STOPPED_EARLY, INTERRUPTED) == (1, 2, 3, 130)
    assert exit_status(Failure(STOPPED_EARLY)) == 3
    assert exit_status(click.BadParameter("x")) == 2


@pytest.mark.parametrize(
    ("text", "line"), [("Bad", "Bad."), ("Bad.", "Bad."), ("Why?", "Why?"), ("No!", "No!")]
)
def test_what_was_typed_wrongly_is_a_sentence_that_names_the_help(text: str, line: str) -> None:
    assert failure_line(click.UsageError(text)) == f"{line} See siltstone --help"
    context = click.Context(click.Command("topics"), info_name="siltstone topics")
    assert failure_line(click.UsageError(text, context)) == f"{line} See siltstone topics --help"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("'x' is not a valid integer range.", "'x' is not a whole number."),
        ("'x' is not a valid integer.", "'x' is not a whole number."),
        ("No '--s'. (Did you mean one of: '--a', '--b'?)", "No '--s'. Did you mean one of '--a', '--b'?"),
    ],
)
def test_the_librarys_words_are_put_into_words_for_people(text: str, line: str) -> None:
    assert failure_line(click.UsageError(text)) == f"{line} See siltstone --help"


def test_failures_of_others_are_told_in_their_words() -> None:
    assert failure_line(click.ClickException("two\nlines")) == "two lines"
    assert failure_line(OSError(28, "No space left on device")) == "operating system: No space left on device"
    assert failure_line(KeyboardInterrupt()) == failure_line(click.Abort()) == "interrupted"
    assert failure_line(Unavailable("")) is None


@pytest.mark.parametrize(("value", "is_on"), [(None, False), ("", False), ("0", False), ("1", True)])
def test_debugging_is_switched_on_by_a_variable(
    monkeypatch: pytest.MonkeyPatch, value: str | None, is_on: bool
) -> None:
    monkeypatch.delenv(DEBUG_VARIABLE, raising=False)
    if value is not None:
        monkeypatch.setenv(DEBUG_VARIABLE, value)
    assert debugging() is is_on


def test_a_line_that_repeats_a_long_text_is_cut_and_keeps_its_end() -> None:
    line = failure_line(InvalidRequest(f"the folder {'a' * 100_000} is missing: name another with --store"))
    assert line is not None and len(line) < 2_010
    assert line.startswith("the folder aaa") and line.endswith("is missing: name another with --store")
    as_it_is = "a" * 2_000
    assert failure_line(InvalidRequest(as_it_is)) == as_it_is


def test_a_current_folder_that_was_deleted_is_named() -> None:
    assert failure_line(FileNotFoundError(2, "No such file or directory")) == (
        "the current folder does not exist any more: change to another one"
    )
