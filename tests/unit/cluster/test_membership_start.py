"""Nodes that start at once on an empty store."""

import threading

from siltstone.metadata.client import MetadataClient
from siltstone.metadata.commands import RegisterNode
from siltstone.metadata.store.sqlite import SqliteLog
from siltstone.metadata.store_id import put_store_id
from siltstone.runtime.clock import SystemClock
from siltstone.runtime.randomness import seeded_randomness


def test_n01_three_nodes_that_start_at_once_agree_on_the_store_and_see_each_other(tmp_path) -> None:
    together = threading.Barrier(3)
    clients: dict[int, MetadataClient] = {}
    store_ids: dict[int, bytes] = {}

    def start(node_id: int) -> None:
        together.wait()
        rng = seeded_randomness(node_id)
        client = MetadataClient(SqliteLog(tmp_path / "metadata.sqlite"), SystemClock(), rng)
        store_ids[node_id] = client.execute(put_store_id(rng))
        client.execute(RegisterNode(node_id, f"life of {node_id}", "wal"))
        clients[node_id] = client

    threads = [threading.Thread(target=start, args=(node_id,)) for node_id in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(store_ids.values())) == 1
    for client in clients.values():
        assert sorted(client.refresh().nodes) == [0, 1, 2]
        client.close()
