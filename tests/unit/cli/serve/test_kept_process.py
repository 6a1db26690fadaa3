"""A process is kept running; small programs stand in for nodes. tests/integration has real nodes."""

import logging
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

from siltstone.cli.serve.kept_process import KeptProcess, parent_is_gone

UNTIL_PARENT_IS_GONE = "import sys; sys.stdin.read()"


def kept(program: str, on_started: Callable[[int], None] = lambda _: None, **options: Any) -> KeptProcess:
    options = {"restart_ms_min": 1, **options}
    process = KeptProcess(
        "this", [sys.executable, "-c", program], consequence=". So what", on_started=on_started, **options
    )
    process.start()
    return process


def test_a_process_that_dies_is_said_and_started_again(caplog: pytest.LogCaptureFixture) -> None:
    third = threading.Event()
    started: list[int] = []

    def on_started(number: int) -> None:
        started.append(number)
        if len(started) == 3:
            third.set()

    process = kept("import sys; sys.exit(7)", on_started)
    assert third.wait(60)
    process.close()
    assert len(set(started)) == len(started)
    said = [each.message for each in caplog.records]
    assert said[:2] == [
        f"this ended with exit status 7; it is started again in {wait}. So what" for wait in ("1 ms", "2 ms")
    ]


def test_a_process_that_is_stopped_is_not_started_again(caplog: pytest.LogCaptureFixture) -> None:
    begun = threading.Event()
    process = kept(UNTIL_PARENT_IS_GONE, lambda _: begun.set())
    assert begun.wait(60)
    process.stop()
    process.close()
    process.close()
    assert caplog.records == []


def test_one_that_ends_by_its_pipe_gets_no_signal() -> None:
    statuses: SimpleQueue[int | None] = SimpleQueue()
    begun = threading.Event()

    def ended(status: int | None) -> bool:
        statuses.put(status)
        return False

    process = kept(
        f"print('begun', flush=True); {UNTIL_PARENT_IS_GONE}; raise SystemExit(5)",
        on_line=lambda _: begun.set(), on_ended=ended, ends_by_pipe=True,
    )  # fmt: skip
    assert begun.wait(60)
    process.stop()
    process.close()
    assert statuses.get(timeout=60) == 5


def test_a_process_knows_that_the_other_end_of_its_stdin_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    read_end, write_end = os.pipe()
    with os.fdopen(read_end) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        assert not parent_is_gone()
        os.close(write_end)
        assert parent_is_gone()


def test_stopped_before_it_starts_nothing_is_started() -> None:
    started: list[int] = []
    process = KeptProcess("this", [sys.executable, "-c", ""], on_started=started.append)
    process.close()
    process.start()
    process.close()
    assert started == []


def test_a_program_that_is_not_there_is_said(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    process = KeptProcess("this", [str(tmp_path / "nothing")])
    process.start()
    deadline = threading.Event()
    while not caplog.records:
        assert not deadline.wait(0.01)
    process.close()
    assert "this could not be started (" in caplog.records[0].message
    assert caplog.records[0].levelno == logging.ERROR


def test_its_lines_are_passed_on_and_its_status_is_told() -> None:
    lines: list[str] = []
    statuses: SimpleQueue[int | None] = SimpleQueue()

    def ended(status: int | None) -> bool:
        statuses.put(status)
        return False

    process = kept("print('one'); print('two'); raise SystemExit(3)", on_line=lines.append, on_ended=ended)
    assert statuses.get(timeout=60) == 3
    process.close()
    assert lines == ["one", "two"]
    assert statuses.empty(), "it was not started again"


def test_stopped_while_it_waits_to_be_started_again_its_end_is_told() -> None:
    statuses: SimpleQueue[int | None] = SimpleQueue()

    def ended(status: int | None) -> bool:
        statuses.put(status)
        return True

    process = kept("raise SystemExit(7)", on_ended=ended, restart_ms_min=600_000)
    assert statuses.get(timeout=60) == 7
    process.close()
    assert statuses.get(timeout=60) == 7


def test_a_signal_reaches_the_process_and_none_that_has_ended() -> None:
    begun, statuses = threading.Event(), SimpleQueue()

    def ended(status: int | None) -> bool:
        statuses.put(status)
        return False

    process = kept(UNTIL_PARENT_IS_GONE, lambda _: begun.set(), on_ended=ended)
    process.signal(signal.SIGUSR1)  # perhaps before it runs
    assert begun.wait(60)
    process.signal(signal.SIGKILL)
    assert statuses.get(timeout=60) in (-signal.SIGKILL, -signal.SIGUSR1)
    process.signal(signal.SIGKILL)
    process.close()
