"""``siltstone balance`` on a cluster that runs: real loads, real moves."""

import pytest

from siltstone.metadata.commands import MovePartitions
from siltstone.offline.opening.store import open_store
from siltstone.server.embedded import Broker
from siltstone.server.settings.node import load_node_settings
from support.broker.cluster_clients import Sending, until
from support.processes.cli import run


def leaders(broker: Broker) -> list[int]:
    with open_store(load_node_settings(broker.folder, environment={})) as store:
        image = store.metadata.image
        return [each.leader for each in image.topics[image.topic_ids["t"]].partitions]


@pytest.mark.clients
@pytest.mark.xdist_group("cluster")
def test_partitions_that_are_all_at_one_broker_are_spread_while_records_flow() -> None:
    with Broker(nodes=3) as broker:
        broker.create_topic("t", partitions=6)
        sending = Sending(broker.bootstrap_servers, "t", 6)
        until(lambda: sending.answered > 100, "answers")
        with open_store(load_node_settings(broker.folder, environment={})) as store:
            topic_id = store.metadata.image.topic_ids["t"]
            store.metadata.execute(MovePartitions(tuple((topic_id, index, 0) for index in range(6))))
        until(lambda: set(leaders(broker)) == {0}, "the moves")
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
