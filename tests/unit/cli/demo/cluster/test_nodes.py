"""The processes of the brokers: one that cannot start is reported, with the file that says why."""

from pathlib import Path

import pytest

from siltstone.cli.demo.cluster.nodes import LOG_NAME, NodeNotStarted, NodeProcess, running_nodes
from siltstone.server.embedded import Broker


def test_one_that_cannot_start_is_told_with_the_file_that_says_why(tmp_path: Path) -> None:
    with Broker(tmp_path / "store", settings={"engine.wal.location": "bucket:0"}) as broker:
        node = NodeProcess(tmp_path / "store", 1, tmp_path / LOG_NAME)
        node.address = broker.bootstrap_servers
        with pytest.raises(NodeNotStarted, match=f"broker 1 did not start: .*{LOG_NAME} says why"):
            node.start()
        node.close()
    assert broker is not None and "listen" in (tmp_path / LOG_NAME).read_text()


def test_a_node_that_is_killed_starts_again_at_its_address(tmp_path: Path) -> None:
    with running_nodes(tmp_path / "store", 1) as (node,):
        before = node.address
        node.kill()
        node.start()
        assert node.address == before != "127.0.0.1:0"
