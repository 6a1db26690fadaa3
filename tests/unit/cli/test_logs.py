import json
import logging
import sys
import threading

import pytest

from siltstone.cli.logs import JsonLogFormatter, LogFormatter, json_line, level_for, log_to_stderr, logs_json
from siltstone.cli.main import end_with
from siltstone.cli.output import remark
from siltstone.model.errors import InvalidRequest


def record(level: int, **more: object) -> logging.LogRecord:
    made = logging.LogRecord("siltstone.stream_engine.upload", level, "x.py", 1, "waits for %s", ("b",), None)
    made.created = 1_700_000_000.0625
    made.__dict__.update(more)
    return made


def test_a_line_says_when_how_bad_where_and_what() -> None:
    line = LogFormatter(in_colour=False).format(record(logging.WARNING))
    assert line == "2023-11-14 22:13:20.062 warning  stream_engine.upload  waits for b"
    assert "error  " in LogFormatter(in_colour=False).format(record(logging.ERROR))


def test_only_the_level_has_a_colour() -> None:
    formatter = LogFormatter(in_colour=True)
    assert formatter.format(record(logging.WARNING)).count("\x1b") == 2
    assert "\x1b" not in formatter.format(record(logging.INFO))


def test_a_traceback_stands_below() -> None:
    try:
        raise ValueError("odd")
    except ValueError:
        told = LogFormatter(in_colour=False).format(record(logging.ERROR, exc_info=sys.exc_info()))
    assert told.splitlines()[1].startswith("Traceback") and told.endswith("ValueError: odd")


@pytest.mark.parametrize(
    ("level", "verbose", "chosen"),
    [(None, 0, "warning"), (None, 1, "info"), (None, 2, "debug"), (None, 5, "debug"), ("error", 2, "error")],
)
def test_which_level(level: str | None, verbose: int, chosen: str) -> None:
    assert level_for(level, verbose) == chosen


@pytest.fixture
def loggers():
    """As they were, afterwards."""
    root, ours = logging.getLogger(), logging.getLogger("siltstone")
    before = [*root.handlers], root.level, ours.level
    yield
    root.handlers[:], root.level = before[0], before[1]
    ours.setLevel(before[2])
    root.setLevel(before[1])


def test_others_are_heard_only_from_a_warning_on(loggers, capsys: pytest.CaptureFixture[str]) -> None:
    log_to_stderr("debug")
    logging.getLogger("siltstone.broker").debug("ours")
    logging.getLogger("asyncio").info("theirs, chatting")
    logging.getLogger("asyncio").error("theirs, serious")
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(maxsplit=3)[3] for line in lines] == ["broker  ours", "asyncio  theirs, serious"]


# -- JSON ------------------------------------------------------------------------------------------------


def test_ob07_a_record_is_one_object_in_one_line() -> None:
    line = JsonLogFormatter().format(record(logging.WARNING))
    assert json.loads(line) == {
        "ts": "2023-11-14T22:13:20.062Z",
        "level": "warning",
        "logger": "siltstone.stream_engine.upload",
        "message": "waits for b",
    }
    assert "\n" not in line


@pytest.mark.parametrize(
    "text", ["two\nlines", "\u2028", "\x1b[31m", "a lone surrogate \ud800", "\x00", 'a "quote"']
)
def test_ob07_nothing_in_a_message_breaks_the_line(text: str) -> None:
    line = JsonLogFormatter().format(record(logging.INFO, args=(text,)))
    assert line.isascii() and line.isprintable()
    assert json.loads(line)["message"] == f"waits for {text}"


def test_ob07_a_traceback_is_inside_the_object() -> None:
    try:
        raise ValueError("odd")
    except ValueError:
        line = JsonLogFormatter().format(record(logging.ERROR, exc_info=sys.exc_info()))
    assert "\n" not in line
    traceback = json.loads(line)["traceback"].splitlines()
    assert traceback[0].startswith("Traceback") and traceback[-1] == "ValueError: odd"


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_ob07_what_commands_and_failed_threads_say_is_json_too(
    loggers, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threading, "excepthook", threading.excepthook)
    assert not logs_json()
    remark("before")
    log_to_stderr("info", "json")
    assert logs_json()
    remark("stopping", dim=True)
    logging.getLogger("siltstone.broker").info("ours")

    def fail() -> None:
        raise ValueError("odd")

    thread = threading.Thread(target=fail, name="worker")
    thread.start()
    thread.join()
    with pytest.raises(SystemExit) as ended:
        end_with(InvalidRequest("that cannot be"))
    before, *lines = capsys.readouterr().err.splitlines()
    assert (before, ended.value.code) == ("before", 2)
    found = [json.loads(line) for line in lines]
    assert [(each["level"], each["message"]) for each in found] == [
        ("info", "stopping"), ("info", "ours"), ("error", "thread worker failed"), ("error", "that cannot be"),
    ]  # fmt: skip
    assert found[2]["traceback"].endswith("ValueError: odd")


def test_ob07_a_line_of_a_command_names_its_logger() -> None:
    assert json.loads(json_line(logging.INFO, "ready"))["logger"] == "siltstone.cli"


def test_a_message_is_one_line_whatever_name_a_client_has() -> None:
    made = logging.LogRecord(
        "siltstone.x", logging.INFO, "x.py", 1, "group %s", ("a\nb\x1b[2J\x85\u2028é",), None
    )
    line = LogFormatter(in_colour=True).format(made)
    assert line.endswith(r"group a\nb\x1b[2J\x85\u2028é") and line.splitlines() == [line]
