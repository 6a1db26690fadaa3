"""What keeps a process running, with small programs in place of maintenance. tests/integration has the real one."""

import logging
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from siltstone.cli import maintenance_process
from siltstone.cli.maintenance_process import WITH_PARENT, MaintenanceProcess, command_of
from siltstone.cli.runner_options import RunnerChoice
from siltstone.cli.store_options import StoreChoice

UNTIL_PARENT_IS_GONE = "import sys; sys.stdin.read()"


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maintenance_process, "RESTART_MS_MIN", 1)


def kept(program: str, on_started: Callable[[int], None]) -> MaintenanceProcess:
    process = MaintenanceProcess([sys.executable, "-c", program], on_started=on_started)
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
        f"maintenance ended with exit status 7; it is started again in {wait}. The broker is not affected"
        for wait in ("1 ms", "2 ms")
    ]


def test_a_process_that_is_stopped_is_not_started_again(caplog: pytest.LogCaptureFixture) -> None:
    begun = threading.Event()
    process = kept(UNTIL_PARENT_IS_GONE, lambda _: begun.set())
    assert begun.wait(60)
    process.stop()
    process.close()
    process.close()
    assert caplog.records == []


def test_stopped_before_it_starts_nothing_is_started() -> None:
    started: list[int] = []
    process = MaintenanceProcess([sys.executable, "-c", ""], on_started=started.append)
    process.close()
    process.start()
    process.close()
    assert started == []


def test_a_program_that_is_not_there_is_said(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    process = MaintenanceProcess([str(tmp_path / "nothing")])
    process.start()
    deadline = threading.Event()
    while not caplog.records:
        assert not deadline.wait(0.01)
    process.close()
    assert "maintenance could not be started (" in caplog.records[0].message
    assert caplog.records[0].levelno == logging.ERROR


def test_the_process_gets_the_options_of_the_broker_and_no_admin_listeners() -> None:
    choice = StoreChoice(Path("s"), Path("c.toml"), {"buckets.0": "s3://b", "admin.listeners": "127.0.0.1:1"})
    runner = RunnerChoice("spark", "spark://host:7077", {"spark.executor.memory": "4g"})
    command = command_of(choice, runner, "info", "json")
    assert command[0] == sys.executable
    assert command[3:] == [
        "maintain", "serve", WITH_PARENT, "--store", "s", "--config", "c.toml", "--set", "buckets.0=s3://b",
        "--set", "admin.listeners=off", "--runner", "spark", "--master", "spark://host:7077",
        "--conf", "spark.executor.memory=4g", "--log-level", "info", "--log-format", "json",
    ]  # fmt: skip
