"""A node that was unregistered comes back under its number, and a process that missed its unregistration ends."""

import signal
from pathlib import Path

import pytest

from support.broker.broker_process import checked_store
from support.broker.cluster_clients import SECONDS_MAX, Sending, made_topic, read_all, until
from support.broker.cluster_processes import ClusterProcesses
from support.processes.cli import run
from support.processes.tried import RecordTried

LEAVING = 1


def drained(cluster: ClusterProcesses) -> None:
    assert run("nodes", "drain", LEAVING, "--store", cluster.folder).status == 0
    until(lambda: LEAVING not in cluster.leaders("t"), "the drain")


def unregistered(cluster: ClusterProcesses) -> None:
    until(lambda: cluster.image.nodes[LEAVING].is_fenced, "the fence")
    outcome = run("nodes", "unregister", LEAVING, "--store", cluster.folder)
    assert outcome.status == 0, outcome.err


@pytest.mark.clients
@pytest.mark.xdist_group("cluster")
@pytest.mark.nightly
@pytest.mark.parametrize("location", ["file", "bucket:0"])
def test_n23_a_node_that_was_unregistered_serves_again_under_its_number(
    tmp_path: Path, location: str, record_tried: RecordTried
) -> None:
    record_tried("nodes that were unregistered", 1)
    with ClusterProcesses(tmp_path / "store", 2, {"engine.wal.location": location}) as cluster:
        made_topic(cluster.bootstrap, "t", 4)
        sending = Sending(cluster.bootstrap, "t", 4)
        until(lambda: all(count > 20 for count in sending.acked_counts().values()), "answers")
        drained(cluster)
        assert cluster.nodes[LEAVING].stop(SECONDS_MAX) == 0
        unregistered(cluster)
        checked_store(cluster.folder)

        cluster.start(LEAVING)
        cluster.move("t", 0)
        assert cluster.leaders("t")[0] == LEAVING
        answered = sending.acked_counts()[0]
        until(lambda: sending.acked_counts()[0] > answered + 20, "answers of the node that came back")
        sending.stop()
        for partition, acked in sending.acked.items():
            assert read_all(cluster.bootstrap, "t", partition, len(acked)) == acked
        for node in cluster.nodes.values():
            assert node.stop(SECONDS_MAX) == 0
            assert "Traceback" not in node.log
    checked_store(cluster.folder)


@pytest.mark.nightly(tried="stopped nodes")
@pytest.mark.clients
@pytest.mark.xdist_group("cluster")
def test_n24_a_process_that_was_unregistered_while_it_was_stopped_ends_when_it_wakes(tmp_path: Path) -> None:
    with ClusterProcesses(tmp_path / "store", 2, {"engine.wal.location": "bucket:0"}) as cluster:
        made_topic(cluster.bootstrap, "t", 4)
        drained(cluster)
        woken = cluster.nodes[LEAVING]
        woken.signal(signal.SIGSTOP)
        try:
            unregistered(cluster)
        finally:
            woken.signal(signal.SIGCONT)
        assert woken.exit_status(SECONDS_MAX) == 1
        lines = [
            line for line in woken.log.splitlines() if f"node {LEAVING} was fenced and cannot resume" in line
        ]
        assert len(lines) == 1 and f"node {LEAVING} was unregistered, so epoch 1 is fenced" in lines[0]
        assert "Traceback" not in woken.log
        cluster.start(LEAVING)
        cluster.move("t", 0)
