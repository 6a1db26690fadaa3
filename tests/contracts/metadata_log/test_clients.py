"""Clients in several processes over one log, with snapshots replacing entries all the time, one of them killed."""

import random
import subprocess
import sys

import pytest

from siltstone.metadata.client import MetadataClient
from siltstone.metadata.commands import RegisterNode
from siltstone.metadata.store.opening import open_log
from siltstone.metadata.store.port import LogTruncated
from siltstone.metadata.store.postgres.log import ENTRY_AGE_MIN
from siltstone.runtime.clock import SystemClock
from siltstone.runtime.randomness import seeded_randomness

CREATOR = """
import sys, time
from siltstone.metadata.client import MetadataClient
from siltstone.metadata.commands import CreateStream, RegisterNode
from siltstone.metadata.store.opening import open_log
from siltstone.runtime.clock import SystemClock
from siltstone.runtime.randomness import seeded_randomness
url, node, count, seconds, age = sys.argv[1], *map(int, sys.argv[2:5]), sys.argv[5]
log = open_log(url)
log._entries_kept, log._entry_age_min = 4, age
client = MetadataClient(log, SystemClock(), seeded_randomness(node), snapshot_interval_records=10)
epoch = client.execute(RegisterNode(node, f"node {node}", "")).node_epoch
ends = time.monotonic() + seconds
while count > 0 or time.monotonic() < ends:
    count -= 1
    print(client.execute(CreateStream(node, epoch, {"by": str(node)})), flush=True)
"""


def creator(url: str, node: int, count: int, seconds: int, age: str) -> subprocess.Popen:
    """Creates at least ``count`` streams, for at least ``seconds``."""
    command = [sys.executable, "-c", CREATOR, url, str(node), str(count), str(seconds), age]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def whole_lines(output: str) -> list[int]:
    return [int(line) for line in output[: output.rfind("\n") + 1].splitlines()]


@pytest.mark.crash
@pytest.mark.parametrize(
    ("url", "seconds", "age"),
    [
        ("sqlite", 0, "an age that SQLite does not need"),
        pytest.param("postgres", 0, ENTRY_AGE_MIN, marks=pytest.mark.postgres),
        pytest.param("postgres", 12, "9 seconds", marks=[pytest.mark.postgres, pytest.mark.nightly]),
    ],
    indirect=["url"],
)
def test_ids_are_given_out_once_and_survive_a_killed_client(url, seconds, age, record_tried) -> None:
    """In PostgreSQL entries are dropped during the long one only. They must be older than the longest statement, or
    one that the machine let sleep writes below the oldest entry (P21)."""
    told: dict[int, list[int]] = {}
    steady = [creator(url, node, 120, seconds, age) for node in (0, 1)]
    rng = random.Random(3)
    record_tried("kills", 3)
    for node in (2, 3, 4):
        victim = creator(url, node, 1_000_000, 0, age)
        begun = "".join(victim.stdout.readline() for _ in range(rng.randrange(5, 40)))
        victim.kill()
        told[node] = whole_lines(
            begun + victim.stdout.read()
        )  # communicate() would pass over what is buffered
        victim.stdout.close()
        victim.wait()
    for node, process in enumerate(steady):
        told[node] = whole_lines(process.communicate(timeout=60)[0])
        assert process.returncode == 0

    log = open_log(url, create=False)
    client = MetadataClient(log, SystemClock(), seeded_randomness(9))
    streams = client.image.streams
    for node, ids in told.items():
        assert all(streams[stream_id].tags == {"by": str(node)} for stream_id in ids)
    everything = [stream_id for ids in told.values() for stream_id in ids]
    assert len(everything) == len(set(everything))
    assert len(streams) <= len(everything) + 3, "a killed client leaves at most one nobody heard of"
    assert sorted(streams) == list(range(len(streams)))
    assert log.snapshot_version() > len(everything) / 2
    if seconds:
        with pytest.raises(LogTruncated):
            log.read_after(0, 1)
    assert client.execute(RegisterNode(0, "again", "")).node_epoch == 2
    client.close()
