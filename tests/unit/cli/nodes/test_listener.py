"""``siltstone nodes listener`` on a store whose nodes are registered, and do not run."""

from pathlib import Path

import pytest

from siltstone.metadata.commands import FenceNode, RegisterNode
from siltstone.metadata.entities import NodeListener
from siltstone.metadata.node_address import node_address, node_listener
from siltstone.offline.opening.store import open_store
from siltstone.server.settings.node import load_node_settings
from support.processes.cli import Outcome, run

BOTH = (NodeListener("PLAINTEXT", "host", 9092), NodeListener("EXTERNAL", "::1", 9093))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A store of three nodes, of which node 2 has no listener EXTERNAL."""
    with open_store(load_node_settings(tmp_path, environment={}), create=True) as store:
        store.metadata.execute_all(
            [RegisterNode(number, "life", f"wal-{number}", listeners=BOTH[: 1 if number == 2 else 2])
             for number in range(3)]
        )  # fmt: skip
    return tmp_path


def called(folder: Path, *words: str) -> Outcome:
    return run("nodes", "listener", *words, "--store", folder)


def test_a_name_that_a_live_node_lacks_is_refused(folder: Path) -> None:
    outcome = called(folder, "external")
    assert (outcome.status, outcome.out) == (2, "")
    assert "node 2 has no listener EXTERNAL: add it there first" in outcome.err
    assert "by its first listener" in called(folder).out


def test_it_is_chosen_for_all_and_cleared(folder: Path) -> None:
    with open_store(load_node_settings(folder, environment={})) as store:
        store.metadata.execute(FenceNode(2, 1))
    assert called(folder, "EXTERNAL").out == "The nodes are reached by their listeners EXTERNAL.\n"
    with open_store(load_node_settings(folder, environment={})) as store:
        image = store.metadata.image
        assert node_listener(image) == "EXTERNAL"
        assert [node_address(image, number) for number in range(3)] == ["[::1]:9093", "[::1]:9093", None]
    assert called(folder, "--json").out == '{\n  "node_listener": "EXTERNAL"\n}\n'
    assert called(folder, "--clear", "PLAINTEXT").status == 2
    assert "by its first listener" in called(folder, "--clear").out
