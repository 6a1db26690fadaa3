"""``siltstone maintain serve`` as people run it: a process that is stopped by a signal."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from siltstone.metadata.entities import JobState
from siltstone.offline.opening.store import open_store
from support.engine.small_store import small_store
from support.processes.cli import run

PROGRAM = "from siltstone.cli.main import main; main()"


def started(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", PROGRAM, "maintain", "serve", "--runner", "in-process", *arguments]
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"SILTSTONE_STORE": str(folder)},
    )


def test_a_service_works_and_ends_when_it_is_told_to(tmp_path: Path) -> None:
    settings = small_store(tmp_path / "store")
    process = started(settings.folder)
    assert process.stdout is not None and process.stderr is not None
    assert process.stdout.readline().startswith(f"Maintenance is running (store {settings.folder}, ")
    for line in process.stderr:  # until it has done something
        if "of 1 done" in line:
            break
    process.send_signal(signal.SIGTERM)
    said, complaint = process.communicate(timeout=60)
    assert process.returncode == 0, complaint
    assert "stopping: uncommitted work is discarded" in complaint and "Traceback" not in complaint
    assert ": 1 run, 1 unit done" in said and "sweep: nothing to do, last looked " in said
    assert run("check", "--store", settings.folder).status == 0
    with open_store(settings) as store:
        assert all(job.state is not JobState.RUNNING for job in store.metadata.image.jobs.values())


def test_once_it_ends_by_itself(tmp_path: Path) -> None:
    settings = small_store(tmp_path / "store")
    process = started(settings.folder, "--once")
    said, complaint = process.communicate(timeout=60)
    assert process.returncode == 0, complaint
    assert ": 1 run, 1 unit done" in said


def test_two_services_do_the_work_once(tmp_path: Path) -> None:
    settings = small_store(tmp_path / "store")
    both = [started(settings.folder, "--once") for _ in range(2)]
    said = [process.communicate(timeout=60) for process in both]
    done = sum(out.count(" 1 unit done") for out, _ in said)
    assert done == 1, said
    assert run("check", "--store", settings.folder).status == 0
