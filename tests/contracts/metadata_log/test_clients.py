"""Clients in several processes over one log, with snapshots replacing entries all the time, one of them killed."""

import random
import subprocess
import sys
from pathlib import Path

import pytest

from siltstone.metadata.client import MetadataClient
from siltstone.metadata.commands import RegisterNode
from siltstone.metadata.store.sqlite import SqliteLog
from siltstone.runtime.clock import SystemClock
from siltstone.runtime.randomness import seeded_randomness

CREATOR = """
import sys
from pathlib import Path
from siltstone.metadata.client import MetadataClient
from siltstone.metadata.commands import CreateStream, RegisterNode
from siltstone.metadata.store.sqlite import SqliteLog
from siltstone.runtime.clock import SystemClock
from siltstone.runtime.randomness import seeded_randomness
path, node, count = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
log = SqliteLog(path, entries_kept=4)
client = MetadataClient(log, SystemClock(), seeded_randomness(node), snapshot_interval_records=10)
epoch = client.execute(RegisterNode(node, f"node {node}", "")).node_epoch
for _ in range(count):
    print(client.execute(CreateStream(node, epoch, {"by": str(node)})), flush=True)
"""


def creator(path: Path, node: int, count: int) -> subprocess.Popen:
    command = [sys.executable, "-c", CREATOR, str(path), str(node), str(count)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def whole_lines(output: str) -> list[int]:
    return [int(line) for line in output[: output.rfind("\n") + 1].splitlines()]


@pytest.mark.crash
def test_ids_are_given_out_once_and_survive_a_killed_client(tmp_path) -> None:
    path = tmp_path / "metadata.sqlite"
    told: dict[int, list[int]] = {}
    steady = [creator(path, node, 120) for node in (0, 1)]
    rng = random.Random(3)
    for node in (2, 3, 4):
        victim = creator(path, node, 1_000_000)
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

    log = SqliteLog(path, create=False)
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
