"""A node whose log is in the bucket is killed under load, and others take its partitions over. The scenarios FO.. are
those of the page of scenarios."""

from pathlib import Path

import pytest

from support.broker.broker_process import checked_store
from support.broker.cluster_clients import SECONDS_MAX, Sending, made_topic, read_all, until
from support.broker.cluster_processes import ClusterProcesses

IN_BUCKET = {"engine.wal.location": "bucket:0"}


@pytest.mark.clients
@pytest.mark.xdist_group("cluster")
def test_fo01_fo17_a_killed_nodes_partitions_are_led_by_the_other_and_nothing_is_lost_or_doubled(
    tmp_path: Path,
) -> None:
    with ClusterProcesses(tmp_path / "store", 2, IN_BUCKET) as cluster:
        made_topic(cluster.bootstrap, "t", 4)
        sending = Sending(cluster.bootstrap, "t", 4)
        until(lambda: sending.answered > 100, "answers")
        cluster.nodes[1].kill()
        until(lambda: set(cluster.leaders("t")) == {0}, "the failover")
        answered = dict(sending.acked_counts())
        until(
            lambda: all(count > answered[each] for each, count in sending.acked_counts().items()), "answers"
        )
        sending.stop()
        for partition, acked in sending.acked.items():
            assert read_all(cluster.address(0), "t", partition, len(acked)) == acked
            assert list(acked.values()) == sorted(acked.values())
        assert cluster.nodes[0].stop(SECONDS_MAX) == 0
        assert "Traceback" not in cluster.nodes[0].log
    checked_store(cluster.folder)
