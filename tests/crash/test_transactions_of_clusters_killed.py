"""Three real nodes on one store, with the partitions of each transaction at all of them; one is killed with SIGKILL
while transactional producers commit and abort. What must hold is what ``test_transactions_killed`` says."""

import time
from pathlib import Path

import pytest
from confluent_kafka import Producer

from support.broker.broker_process import checked_store
from support.broker.cluster_clients import made_topic, until
from support.broker.cluster_processes import ClusterProcesses
from support.kafka.transactional_writers import (
    PARTITIONS,
    QUIET,
    SECONDS,
    TOPIC,
    Writer,
    committed_numbers,
    committed_offset,
    refuse_torn,
)
from support.processes.seeds import seed_of_this_run
from support.processes.tried import RecordTried, unrecorded

pytestmark = [
    pytest.mark.crash, pytest.mark.clients, pytest.mark.xdist_group("cluster"), pytest.mark.timeout(600),
]  # fmt: skip

NODES = 3


def killed_while_they_write(folder: Path, seed: int, kills: int, record_tried: RecordTried) -> None:
    with ClusterProcesses(folder, NODES) as cluster:
        made_topic(cluster.bootstrap, TOPIC, PARTITIONS)
        assert len(set(cluster.leaders(TOPIC))) == NODES
        servers = cluster.bootstrap
        writers = [Writer(servers, f"writer-{each}", seed + each, 1_000_000 * each) for each in range(2)]

        def told() -> int:
            return sum(outcome is not None for writer in writers for outcome in writer.outcomes.values())

        for number in range(kills):
            before = told()
            until(lambda before=before: told() > before + 10, "transactions over three nodes")
            victim = (seed + number) % NODES
            cluster.nodes[victim].kill()
            until(lambda victim=victim: victim not in cluster.leaders(TOPIC), "the failover")
            cluster.start(victim)
        before = told()
        until(lambda: told() > before + 10, "transactions after the last failover")
        until(lambda: all(True in writer.outcomes.values() for writer in writers), "a commit of each writer")
        for writer in writers:
            writer.end()
        record_tried("programs abandoned", sum(writer.abandoned for writer in writers))
        for writer in writers:  # a new instance ends what the last one has left open
            last = Producer({"bootstrap.servers": servers, "transactional.id": writer.name, **QUIET})
            last.init_transactions(SECONDS)
        time.sleep(0.5)  # the last markers are on their way to other nodes
        found = committed_numbers(servers)
        refuse_torn(found, writers)
        for writer in writers:
            own = [number for number in found[0] if number in writer.outcomes]
            assert committed_offset(servers, writer.group) == own[-1]
        record_tried("kills", kills)
        record_tried("transactions", told())
        assert not any("Traceback" in node.log for node in cluster.nodes.values())
    checked_store(folder)


@pytest.mark.nightly(tried="killed nodes")
def test_tg21_tx45_a_killed_node_of_three_shows_no_torn_transaction(tmp_path: Path) -> None:
    killed_while_they_write(tmp_path / "store", seed=1, kills=1, record_tried=unrecorded)


@pytest.mark.nightly
def test_tg21_tx45_many_killed_nodes_show_no_torn_transaction(
    tmp_path: Path, record_tried: RecordTried
) -> None:
    killed_while_they_write(
        tmp_path / "store", seed_of_this_run("CRASH_SEED"), kills=9, record_tried=record_tried
    )
