"""Clients in several processes over one log, with snapshots replacing entries all the time, one of them killed."""

import random
import subprocess
import sys

import pytest

from siltstone.metadata.client import MetadataClient
from siltstone.metadata.commands import RegisterNode
from siltstone.metadata.store.opening import open_log
from siltstone.runtime.clock import SystemClock
from siltstone.runtime.randomness import seeded_randomness

CREATOR = """
import sys
from siltstone.metadata.client import MetadataClient
from siltstone.metadata.commands import CreateStream, RegisterNode
from siltstone.metadata.store.opening import open_log
from siltstone.runtime.clock import SystemClock
from siltstone.runtime.randomness import seeded_randomness
url, node, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
log = open_log(url)
log._entries_kept, log._entry_age_min = 4, "0"
client = MetadataClient(log, SystemClock(), seeded_randomness(node), snapshot_interval_records=10)
epoch = client.execute(RegisterNode(node, f"node {node}", "")).node_epoch
for _ in range(count):
    print(client.execute(CreateStream(node, epoch, {"by": str(node)})), flush=True)
"""


def creator(url: str, node: int, count: int) -> subprocess.Popen:
    command = [sys.executable, "-c", CREATOR, url, str(node), str(count)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def whole_lines(output: str) -> list[int]:
    return [int(line) for line in output[: output.rfind("\n") + 1].splitlines()]


@pytest.mark.crash
@pytest.mark.parametrize(
    "url", ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)], indirect=True
)
def test_ids_are_given_out_once_and_survive_a_killed_client(url) -> None:
    told: dict[int, list[int]] = {}
    steady = [creator(url, node, 120) for node in (0, 1)]
    rng = random.Random(3)
    for node in (2, 3, 4):
        victim = creator(url, node, 1_000_000)
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
    assert client.execute(RegisterNode(0, "again", "")).node_epoch == 2
    client.close()
