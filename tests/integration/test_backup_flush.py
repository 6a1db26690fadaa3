"""``siltstone backup --flush``: the backup has what was acknowledged before it."""

from pathlib import Path

import pytest
from confluent_kafka import Producer

import siltstone
from siltstone.metadata.commands import FenceNode
from siltstone.offline.opening.store import open_store
from siltstone.server.embedded import Broker
from siltstone.server.settings.node import load_node_settings
from support.processes.cli import assert_one_line, run

UPLOADED_BY_NOBODY = {"engine.upload.cache_block_age_ms_max": "3600000"}


def produced(broker: Broker, count: int) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for number in range(count):
        producer.produce("orders", b"%d" % number)
    assert producer.flush(30) == 0


def restored_values(folder: Path, backup: Path) -> list[bytes]:
    assert run("restore", backup, "--store", folder).status == 0
    table = siltstone.scan("orders", store=folder).to_arrow()
    return sorted(table["value"].to_pylist(), key=int)


@pytest.mark.clients
def test_what_was_acknowledged_is_in_a_backup_only_if_the_nodes_are_asked_to_upload_it(
    tmp_path: Path,
) -> None:
    with Broker(tmp_path / "store", settings=UPLOADED_BY_NOBODY, nodes=2) as broker:
        broker.create_topic("orders", partitions=4)
        produced(broker, 100)
        for name, options in (("as it is", ()), ("flushed", ("--flush",))):
            assert run("backup", tmp_path / name, "--store", broker.folder, *options).status == 0
    assert restored_values(tmp_path / "first", tmp_path / "as it is") == []
    assert restored_values(tmp_path / "second", tmp_path / "flushed") == [
        b"%d" % number for number in range(100)
    ]


@pytest.mark.clients
def test_a_node_that_cannot_upload_refuses_the_backup(tmp_path: Path) -> None:
    with Broker(tmp_path / "store", settings=UPLOADED_BY_NOBODY) as broker:
        broker.create_topic("orders", partitions=1)
        produced(broker, 1)
        broker.kill()
    with open_store(load_node_settings(tmp_path / "store", environment={})) as store:
        store.metadata.execute(FenceNode(0, store.metadata.image.nodes[0].node_epoch))
    refused = run("backup", tmp_path / "backup", "--store", tmp_path / "store", "--flush")
    assert_one_line(refused, 1, "node 0 may have records in its write-ahead log", "start it again")
    assert not (tmp_path / "backup").exists()
