"""The processes of several nodes are started and stopped; small programs stand in for brokers."""

import io
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from functools import partial
from pathlib import Path
from typing import TextIO

import pytest

from siltstone.cli.deadline import counted_signals
from siltstone.cli.failures import Failure
from siltstone.cli.serve import several_nodes
from siltstone.cli.serve.several_nodes import NodeProcesses

PROMISED_MS = 60_000
ENDS_WITH_PARENT = (
    "import os, signal, threading; end = lambda: (os.read(0, 1), os.kill(os.getpid(), signal.SIGTERM)); "
    "threading.Thread(target=end, daemon=True).start(); "
)
READY = "print('Siltstone is ready at host:{port} (PLAINTEXT, store s)', flush=True); "
CAN_BE_STOPPED = "import signal; signal.signal(signal.SIGTERM, lambda *_: exit({status})); "
UNTIL_STOPPED = "signal.pause()"


def node(port: int, *, status: int = 0) -> list[str]:
    """A program that is ready, and ends with this status when it is stopped."""
    return program(CAN_BE_STOPPED.format(status=status) + READY.format(port=port) + UNTIL_STOPPED)


def program(text: str) -> list[str]:
    return [sys.executable, "-c", ENDS_WITH_PARENT + text]


def run_until(
    nodes: NodeProcesses,
    holds: Callable[[], bool],
    numbers: Sequence[signal.Signals] = (signal.SIGINT,),
    *,
    first_alone: bool = False,
    heard: TextIO | None = None,
) -> int:
    """Signals this process when ``holds``. → The exit status. ``heard`` gets what is printed meanwhile."""
    ended = threading.Event()

    def watch() -> None:
        for number in numbers:
            while not holds() and not ended.wait(0.01):
                pass
            if not ended.is_set():
                os.kill(os.getpid(), number)  # the signal goes to the process, as from a terminal

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        with redirect_stdout(heard or sys.stdout), redirect_stderr(heard or sys.stderr):
            nodes.run(first_alone=first_alone)
    except Failure as failure:
        return failure.status
    finally:
        ended.set()
        watching.join()
    return 0


class Heard(io.TextIOWrapper):
    """What is printed, read by another thread: ``capsys`` would lose what is printed between its read and its
    clearing."""

    def __init__(self) -> None:
        self._printed = io.BytesIO()
        super().__init__(self._printed, encoding="utf-8", write_through=True)

    @property
    def text(self) -> str:
        return self._printed.getvalue().decode()


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.mark.parametrize("first_alone", [True, False])
def test_all_run_until_a_signal_and_their_addresses_are_said(first_alone: bool, heard: Heard) -> None:
    nodes = NodeProcesses({4: node(1), 5: node(2), 6: node(3)}, PROMISED_MS)
    assert run_until(nodes, lambda: "bootstrap" in heard.text, first_alone=first_alone, heard=heard) == 0
    everything = heard.text
    assert (
        "3 nodes are ready; clients may name any of them, or all:\n  bootstrap.servers=host:1,host:2,host:3"
        in everything
    )
    assert everything.count("Siltstone is ready at") == 3
    assert everything.count("press again to exit now") == 1


@pytest.mark.parametrize(("statuses", "of_all"), [((0, 3), 3), ((0, 0), 0), ((3, 1), 1)])
def test_the_exit_status_is_the_worst_of_all(statuses: tuple[int, int], of_all: int, heard: Heard) -> None:
    nodes = NodeProcesses({at: node(at, status=status) for at, status in enumerate(statuses)}, PROMISED_MS)
    assert run_until(nodes, lambda: "bootstrap" in heard.text, heard=heard) == of_all


def test_one_that_dies_right_after_it_was_ready_has_started() -> None:
    """The end of the process may be handled before its output."""
    nodes = NodeProcesses({0: node(1), 1: node(2)}, PROMISED_MS)
    process = nodes._nodes[1]
    assert not process._on_ended(9)
    assert process._on_line is not None
    process._on_line("Siltstone is ready at host:2 (PLAINTEXT, store s)")
    assert process._on_ended(9)


def test_one_that_refuses_to_start_ends_all_with_its_status(caplog: pytest.LogCaptureFixture) -> None:
    nodes = NodeProcesses({0: node(1), 1: program("raise SystemExit(2)")}, PROMISED_MS)
    assert run_until(nodes, lambda: False) == 2
    assert [each.message for each in caplog.records if each.levelno == logging.ERROR] == [
        "node 1 did not start, so none runs: all 2 are stopped"
    ]


def test_when_the_first_refuses_the_others_are_never_started(tmp_path: Path) -> None:
    trace = tmp_path / "started"
    other = program(f"open({str(trace)!r}, 'w')")
    nodes = NodeProcesses({0: program("raise SystemExit(1)"), 1: other, 2: other}, PROMISED_MS)
    assert run_until(nodes, lambda: False, first_alone=True) == 1
    assert not trace.exists()


def test_one_that_was_ready_and_dies_is_started_again(
    heard: Heard, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    trace = tmp_path / "started"
    once = f"import os; path = {str(trace)!r}; again = os.path.exists(path); open(path, 'w')\n"
    stays = CAN_BE_STOPPED.format(status=0) + READY.format(port=2)
    dies_once = program(once + stays + "again or exit(9); " + UNTIL_STOPPED)
    nodes = NodeProcesses({0: node(1), 1: dies_once}, PROMISED_MS, restart_ms_min=1)

    def all_are_ready() -> bool:
        everything = heard.text
        return everything.count("Siltstone is ready at host:2 ") == 2 and "2 nodes are ready" in everything

    assert run_until(nodes, all_are_ready, heard=heard) == 0
    assert "node 1 ended with exit status 9; it is started again in 1 ms" in [
        each.message for each in caplog.records
    ]
    assert heard.text.count("2 nodes are ready") == 1


def test_one_that_is_silent_after_a_signal_is_killed(heard: Heard, caplog: pytest.LogCaptureFixture) -> None:
    deaf = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
    deaf = program(deaf + READY.format(port=2) + "\nwhile True: signal.pause()")
    nodes = NodeProcesses({0: node(1), 1: deaf}, 0, late_seconds=0.1)
    assert run_until(nodes, lambda: "bootstrap" in heard.text, heard=heard) == 3
    assert "nodes that did not end in time were killed" in caplog.text


def test_a_second_signal_reaches_the_nodes_again(heard: Heard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(several_nodes, "counted_signals", partial(counted_signals, one_signal_ms_max=0))
    counting = (
        "import signal; left = [2]\n"
        "def arrived(*_):\n"
        "    left[0] -= 1\n"
        "    print('signalled', flush=True)\n"
        "    left[0] or exit(3)\n"
        "signal.signal(signal.SIGTERM, arrived)\n"
    )
    counting = program(counting + READY.format(port=1) + "\nwhile True: signal.pause()")
    seen = {signal.SIGINT: "bootstrap", signal.SIGTERM: "signalled"}
    left = [signal.SIGINT, signal.SIGTERM]

    def holds() -> bool:
        if seen[left[0]] not in heard.text:
            return False
        if len(left) > 1:
            left.pop(0)
        return True

    assert (
        run_until(
            NodeProcesses({0: counting}, PROMISED_MS), holds, (signal.SIGINT, signal.SIGTERM), heard=heard
        )
        == 3
    )
