"""``siltstone balance`` on a cluster that runs: real loads, real moves."""

import pytest

from support.broker.cluster_clients import until
from support.broker.one_sided_cluster import leaders, one_sided_cluster
from support.processes.cli import run


@pytest.mark.clients
@pytest.mark.xdist_group("cluster")
def test_partitions_that_are_all_at_one_broker_are_spread_while_records_flow() -> None:
    with one_sided_cluster() as (broker, sending):
        until(
            lambda: "was not measured" not in run("balance", "--store", broker.folder).out,
            "a load of each broker",
        )
        outcome = run("balance", "run", "--store", broker.folder)
        assert outcome.status == 0, outcome
        assert set(leaders(broker)) == {0, 1, 2}
        assert "partitions: broker 0 has" in outcome.out or "bytes in: broker 0 has" in outcome.out
        before = sending.acked_counts()
        until(lambda: all(sending.acked_counts()[each] > before[each] for each in before), "answers of all")
        sending.stop()
        assert len(broker.records("t")) == sending.sent
