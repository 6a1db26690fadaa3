import logging
import sys

import pytest

from siltstone.cli.logs import LogFormatter, level_for, log_to_stderr


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
