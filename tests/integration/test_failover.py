"""A node whose log is in the bucket is killed under load, and others take its partitions over. The scenarios FO.. are
those of the page of scenarios."""

import subprocess
import sys
import time
from pathlib import Path
from random import Random

import pytest

from siltstone.broker.groups.groups import partition_of_group
from siltstone.metadata.commands import FenceNode
from support.broker.broker_process import BrokerProcess, checked_store
from support.broker.cluster_clients import SECONDS_MAX, GroupReading, Sending, made_topic, read_all, until
from support.broker.cluster_processes import ClusterProcesses
from support.processes.cli import run
from support.processes.seeds import seed_of_this_run
from support.processes.tried import RecordTried

KILLS = 8
"""Rounds of one night; each takes as long as a suspicion, and a start."""

IN_BUCKET = {"engine.wal.location": "bucket:0", "groups.group_initial_rebalance_delay_ms": "0"}


def killed_under_load(folder: Path, location: str) -> None:
    """The killed one of two nodes coordinates the group, too. Both are on one machine."""
    with ClusterProcesses(folder, 2, IN_BUCKET | {"engine.wal.location": location}) as cluster:
        made_topic(cluster.bootstrap, "t", 4)
        sending = Sending(cluster.bootstrap, "t", 4)
        with GroupReading(cluster.bootstrap, "t") as reading:
            until(lambda: len(reading.numbers) > 100, "records at the group")
            coordinators = cluster.leaders("__consumer_offsets")
            victim = coordinators[partition_of_group(reading.group, len(coordinators))]
            cluster.nodes[victim].kill()
            until(lambda: set(cluster.leaders("t")) == {1 - victim}, "the failover")
            answered = sending.acked_counts()
            until(lambda: all(sending.acked_counts()[each] > answered[each] for each in answered), "answers")
            sending.stop()
            for partition, acked in sending.acked.items():
                assert read_all(cluster.address(1 - victim), "t", partition, len(acked)) == acked
                assert list(acked.values()) == sorted(acked.values())
            until(lambda: len(reading.numbers) == sending.sent, "everything at the group")
        assert cluster.nodes[1 - victim].stop(SECONDS_MAX) == 0
        assert "Traceback" not in cluster.nodes[1 - victim].log
    checked_store(cluster.folder)


@pytest.mark.clients
@pytest.mark.xdist_group("cluster")
def test_fo02_fo16_fo17_a_killed_node_is_failed_over_by_another_of_its_machine_and_nothing_is_lost_or_doubled(
    tmp_path: Path,
) -> None:
    killed_under_load(tmp_path / "store", "file")


@pytest.mark.nightly  # by day the kill matrix kills brokers with such a log
@pytest.mark.clients
@pytest.mark.xdist_group("cluster")
def test_fo01_fo16_fo17_a_killed_node_with_its_log_in_the_bucket_is_failed_over(
    tmp_path: Path, record_tried: RecordTried
) -> None:
    killed_under_load(tmp_path / "store", "bucket:0")
    record_tried("kills", 1)


@pytest.mark.nightly(tried="logs given up")
@pytest.mark.clients
@pytest.mark.xdist_group("cluster")
def test_fo04_a_log_in_files_that_is_given_up_costs_its_records_only_and_stays_as_it_is(
    tmp_path: Path,
) -> None:
    """The killed node comes back with its log and is refused, and with an empty one is not."""
    with ClusterProcesses(tmp_path / "store", 2) as cluster:
        made_topic(cluster.bootstrap, "t", 4)
        sending = Sending(cluster.bootstrap, "t", 4)
        until(lambda: sending.answered > 100, "answers")
        sending.stop()
        cluster.nodes[1].kill()
        log_folder, away = cluster.folder / "wal" / "node-1", tmp_path / "away"
        log_folder.rename(away)  # else the other node, on the same machine, replays it
        cluster.store.metadata.execute(FenceNode(1, cluster.image.nodes[1].node_epoch))
        leaders = cluster.leaders("t")
        outcome = run("nodes", "give-up", 1, "--yes", "--json", "--store", cluster.folder)
        ends = {end["partition"]: end["offset"] for end in outcome.json["ends"] if end["topic"] == "t"}
        assert sorted(ends) == [each for each, leader in enumerate(leaders) if leader == 1]
        until(lambda: set(cluster.leaders("t")) == {0}, "leaders")
        for partition, acked in sending.acked.items():
            kept = {
                offset: number for offset, number in acked.items() if offset < ends.get(partition, len(acked))
            }
            assert read_all(cluster.address(0), "t", partition, len(kept)) == kept
        away.rename(log_folder)
        log = sorted((path.name, path.stat().st_size) for path in log_folder.iterdir())
        back = BrokerProcess(cluster.folder, options=("--node-id", "1"))
        refused = subprocess.run(
            back.command, capture_output=True, text=True, timeout=SECONDS_MAX, check=False
        )
        assert refused.returncode == 2
        assert "was declared lost up to node epoch 1, and the topics have continued without" in refused.stderr
        assert log == sorted((path.name, path.stat().st_size) for path in log_folder.iterdir())
        log_folder.rename(tmp_path / "kept")
        cluster.start(1)
        more = Sending(cluster.bootstrap, "t", 4)
        until(lambda: more.answered > 100, "answers")
        more.stop()
        for node in cluster.nodes.values():
            assert node.stop(SECONDS_MAX) == 0
    checked_store(cluster.folder)


@pytest.mark.nightly
@pytest.mark.clients
@pytest.mark.xdist_group("cluster")
def test_fo06_fo16_fo17_fo18_kills_at_random_moments_lose_and_double_nothing(
    tmp_path: Path, record_tried: RecordTried
) -> None:
    """One or two of three nodes are killed, also in the middle of a failover, and come back after it, or at once. A
    group reads and commits meanwhile, and has read everything in the end."""
    random = Random(seed_of_this_run("FAILOVER_SEED"))
    with ClusterProcesses(tmp_path / "store", 3, IN_BUCKET) as cluster:
        made_topic(cluster.bootstrap, "t", 6)
        sending = Sending(cluster.bootstrap, "t", 6)
        until(lambda: sending.answered > 600, "answers")
        with GroupReading(cluster.bootstrap, "t") as reading:
            for round_ in range(KILLS):
                victims = random.sample(range(3), random.choice((1, 1, 2)))
                for victim in victims:
                    cluster.nodes[victim].kill()
                    time.sleep(random.uniform(0, 7))
                if random.random() < 0.5:
                    until(
                        lambda gone=victims: not set(gone) & set(cluster.leaders("t")),
                        f"the failover of {victims} in round {round_}",
                    )
                for victim in victims:
                    cluster.start(victim)
                answered = sending.acked_counts()
                until(
                    lambda before=answered: all(
                        count > before[each] for each, count in sending.acked_counts().items()
                    ),
                    f"answers of each partition in round {round_}, after {victims}",
                )
            sending.stop()
            for partition, acked in sending.acked.items():
                assert read_all(cluster.bootstrap, "t", partition, len(acked)) == acked
                assert list(acked.values()) == sorted(acked.values())
            numbers = {number for acked in sending.acked.values() for number in acked.values()}
            until(lambda: reading.numbers >= numbers, "everything at the group")
            assert reading.numbers == numbers
        for node in cluster.nodes.values():
            assert node.stop(SECONDS_MAX) == 0
            assert "Traceback" not in node.log
    checked_store(cluster.folder)
    record_tried("kills", KILLS)


ON_A_MACHINE_THAT_IS_GONE = (
    sys.executable,
    "-c",
    "import socket; socket.gethostname = lambda: 'gone'; from siltstone.cli.program import main; main()",
)


@pytest.mark.nightly  # by day tests/unit/server/test_failing_over.py does the same in one process
@pytest.mark.clients
@pytest.mark.xdist_group("cluster")
def test_fo25_a_broker_with_the_saved_disk_of_another_one_takes_over_what_that_acknowledged(
    tmp_path: Path, record_tried: RecordTried
) -> None:
    with ClusterProcesses(tmp_path / "store", 1) as cluster:
        gone = BrokerProcess(cluster.folder, program=ON_A_MACHINE_THAT_IS_GONE, options=("--node-id", "1"))
        gone.start()
        both = f"{cluster.address(0)},{gone.bootstrap_servers}"
        made_topic(both, "t", 4)
        sending = Sending(both, "t", 4)
        until(lambda: all(count > 20 for count in sending.acked_counts().values()), "answers")
        sending.stop()
        gone.kill()
        saved = tmp_path / "saved disk"
        (cluster.folder / "wal" / "node-1").rename(saved)
        until(lambda: cluster.image.nodes[1].is_fenced, "the fence")
        assert 1 in cluster.leaders("t"), "node 0 does not reach a log of another machine"
        listed = run("nodes", "--store", cluster.folder)
        assert "siltstone serve --recover on another machine" in " ".join(listed.err.split())
        with BrokerProcess(
            cluster.folder, options=("--node-id", "2", "--recover", saved.as_uri())
        ) as recoverer:
            until(lambda: 1 not in cluster.leaders("t"), "the failover")
            for partition, acked in sending.acked.items():
                assert read_all(cluster.bootstrap, "t", partition, len(acked)) == acked
            assert "node 2 has failed node 1 over" in recoverer.log
            cluster.nodes[0].stop(SECONDS_MAX)
        # Started again with the same option, it serves, and says that nothing is left to recover.
        with BrokerProcess(
            cluster.folder, options=("--node-id", "2", "--recover", saved.as_uri())
        ) as recoverer:
            assert "is not needed: everything it holds is committed" in recoverer.log
    checked_store(cluster.folder)
    record_tried("saved disks", 1)
