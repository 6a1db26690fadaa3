"""Several processes on one log: each version exactly once, and what was acknowledged survives SIGKILL."""

import random
import subprocess
import sys

import pytest

from siltstone.metadata.log_entry import decode_entry
from siltstone.metadata.store.opening import open_log

POSTGRES = pytest.param("postgres", marks=pytest.mark.postgres)
both = pytest.mark.parametrize("url", ["sqlite", POSTGRES], indirect=True)

APPENDER = """
import sys
from siltstone.metadata.log_entry import LogEntry, decode_entry, encode_entry
from siltstone.metadata.records import KeySet
from siltstone.metadata.store.opening import open_log
from siltstone.metadata.store.port import VersionMovedOn
url, name, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
log = open_log(url)
done = 0
while done < count:
    value, head = f"{name}/{done}", log.head()
    entry = LogEntry(value.encode().hex().zfill(32), (KeySet("value", value.encode()),), head.append_id)
    try:
        print(log.append(encode_entry(entry), head).version, value, flush=True)
    except VersionMovedOn:
        continue
    done += 1
"""


def appender(url: str, name: str, count: int) -> subprocess.Popen:
    command = [sys.executable, "-c", APPENDER, url, name, str(count)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def acknowledged(output: str) -> list[tuple[int, bytes]]:
    """Whole lines only: the last may be cut by the kill."""
    whole = output[: output.rfind("\n") + 1]
    return [(int(version), entry.encode()) for version, entry in map(str.split, whole.splitlines())]


def values(log) -> list[tuple[int, bytes]]:
    return [(version, decode_entry(entry).records[0].value) for version, entry in log.read_after(0, 100_000)]


def rest_of(process: subprocess.Popen[str]) -> str:
    """Not ``communicate``: with a time limit it passes over what ``readline`` took from the pipe."""
    rest = process.stdout.read()
    process.stdout.close()
    process.wait()
    return rest


@both
def test_p01_two_processes_append_at_once(url) -> None:
    """They also create the log at once."""
    processes = [appender(url, name, 60) for name in ("a", "b")]
    told = sorted(line for process in processes for line in acknowledged(process.communicate(timeout=60)[0]))
    log = open_log(url, create=False)
    assert told == values(log)
    assert [version for version, _ in told] == list(range(1, 121))
    log.close()


@pytest.mark.crash
@both
def test_rule_1_acknowledged_versions_survive_sigkill(url) -> None:
    rng = random.Random(7)
    told: list[tuple[int, bytes]] = []
    for life in range(5):
        process = appender(url, f"life{life}", 1_000_000)
        lines = [process.stdout.readline() for _ in range(rng.randrange(1, 40))]
        process.kill()
        told += acknowledged("".join(lines) + rest_of(process))
    log = open_log(url, create=False)
    stored = dict(values(log))
    assert len(told) >= 5
    assert all(stored[version] == entry for version, entry in told)
    assert sorted(stored) == list(range(1, log.head().version + 1))
    assert len(stored) <= len(told) + 5, "a life leaves at most one append that nobody heard of"
    log.close()
