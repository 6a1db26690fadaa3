"""Several processes on one log: each version exactly once, and what was acknowledged survives SIGKILL."""

import random
import subprocess
import sys

import pytest

from siltstone.metadata.store.opening import open_log

APPENDER = """
import sys
from siltstone.metadata.store.opening import open_log
from siltstone.metadata.store.port import VersionMovedOn
url, name, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
log = open_log(url)
done = 0
while done < count:
    entry = f"{name}/{done}".encode()
    try:
        version = log.append(entry, log.head_version())
    except VersionMovedOn:
        continue
    print(version, entry.decode(), flush=True)
    done += 1
"""


@pytest.fixture(params=["sqlite"])
def url(request: pytest.FixtureRequest, tmp_path) -> str:
    return f"sqlite://{tmp_path}/metadata.sqlite"


def appender(url: str, name: str, count: int) -> subprocess.Popen:
    command = [sys.executable, "-c", APPENDER, url, name, str(count)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def acknowledged(output: str) -> list[tuple[int, bytes]]:
    """Whole lines only: the last may be cut by the kill."""
    whole = output[: output.rfind("\n") + 1]
    return [(int(version), entry.encode()) for version, entry in map(str.split, whole.splitlines())]


def rest_of(process: subprocess.Popen[str]) -> str:
    """Not ``communicate``: with a time limit it passes over what ``readline`` took from the pipe."""
    rest = process.stdout.read()
    process.stdout.close()
    process.wait()
    return rest


def test_two_processes_append_at_once(url) -> None:
    """They also create the file at once."""
    processes = [appender(url, name, 60) for name in ("a", "b")]
    told = sorted(line for process in processes for line in acknowledged(process.communicate(timeout=60)[0]))
    log = open_log(url, create=False)
    assert told == log.read_after(0, 1_000)
    assert [version for version, _ in told] == list(range(1, 121))
    log.close()


@pytest.mark.crash
def test_rule_1_acknowledged_versions_survive_sigkill(url) -> None:
    rng = random.Random(7)
    told: list[tuple[int, bytes]] = []
    for life in range(5):
        process = appender(url, f"life{life}", 1_000_000)
        lines = [process.stdout.readline() for _ in range(rng.randrange(1, 40))]
        process.kill()
        told += acknowledged("".join(lines) + rest_of(process))
    log = open_log(url, create=False)
    stored = dict(log.read_after(0, 100_000))
    assert len(told) >= 5
    assert all(stored[version] == entry for version, entry in told)
    assert sorted(stored) == list(range(1, log.head_version() + 1))
    assert len(stored) <= len(told) + 5, "a life leaves at most one append that nobody heard of"
    log.close()
