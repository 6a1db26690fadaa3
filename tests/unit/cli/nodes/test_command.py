"""``siltstone nodes`` on a store whose nodes are registered, and do not run."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from siltstone.cli.nodes.command import NODES_LOOK_INTERVAL_MS, _wait_until_drained
from siltstone.metadata.commands import (
    CreateTopic,
    DrainNode,
    FenceNode,
    MovePartitions,
    OpenPartition,
    RegisterNode,
)
from siltstone.metadata.entities import NodeListener
from siltstone.metadata.image import MetadataImage
from siltstone.metadata.leases.board import ENDED, Beat
from siltstone.metadata.leases.sqlite_board import SqliteBoard
from siltstone.offline.opening.store import open_store
from siltstone.server.settings.node import load_node_settings
from support.metadata.metadata_world import MetadataWorld
from support.processes.cli import Outcome, assert_one_line, run

JOINING = [
    RegisterNode(node_id, "life", f"wal-{node_id}", listeners=(NodeListener("PLAINTEXT", "host", 9092),))
    for node_id in range(2)
]
TOPIC = CreateTopic(0, 1, "t", "ab" * 16, 2, leaders=(1, 1))


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with the nodes 0 and 1; 1 leads two partitions."""
    folder = tmp_path_factory.mktemp("store")
    with open_store(load_node_settings(folder, environment={}), create=True) as store:
        store.metadata.execute_all([*JOINING, TOPIC])
    return folder


@pytest.fixture
def nodes(prepared: Path, tmp_path: Path):
    """Runs a subcommand on a copy of the prepared store."""
    shutil.copytree(prepared, tmp_path, dirs_exist_ok=True)

    def called(*words: object) -> Outcome:
        return run("nodes", *words, "--store", tmp_path)

    return called


def did(folder: Path, command: Any) -> None:
    with open_store(load_node_settings(folder, environment={})) as store:
        store.metadata.execute(command)


def test_a_store_without_nodes_says_what_starts_one(tmp_path: Path) -> None:
    open_store(load_node_settings(tmp_path, environment={}), create=True).close()
    for words in (["nodes"], ["nodes", "list"]):
        assert (
            run(*words, "--store", tmp_path).out
            == "This store has no nodes yet; siltstone serve starts one.\n"
        )
    assert run("nodes", "--json", "--store", tmp_path).json == {"nodes": []}


def test_the_nodes_are_listed_by_either_command_for_people_and_as_json(nodes) -> None:
    assert nodes().out == nodes("list").out
    assert "host:9092" in nodes().out
    rows = nodes("--json").json["nodes"]
    assert [(row["node_id"], row["state"], row["leads"]) for row in rows] == [(0, "live", 0), (1, "live", 2)]
    assert nodes("list", "--json").json == {"nodes": rows}


def test_the_last_beats_are_read_where_there_are_any_and_no_board_is_made(nodes, tmp_path: Path) -> None:
    assert [row["last_beat_ms"] for row in nodes("--json").json["nodes"]] == [None, None]
    board = tmp_path / "metadata.sqlite-leases"
    assert not board.exists()
    with closing(SqliteBoard(board)) as written:
        written.beat(Beat(1, 1, 1_700_000_000_000, "life"))
    assert [row["last_beat_ms"] for row in nodes("--json").json["nodes"]] == [None, 1_700_000_000_000]
    assert " ago" in nodes().out


def test_a_board_that_cannot_be_read_costs_a_remark(nodes, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "metadata.sqlite-leases")) as other:
        other.execute("CREATE TABLE something (a)")
    told = nodes()
    assert "host:9092" in told.out
    assert "The last beats are not known" in told.err


def test_fo03_partitions_that_wait_are_told_below_the_table(nodes, tmp_path: Path) -> None:
    did(tmp_path, OpenPartition(1, 1, "ab" * 16, 0))
    did(tmp_path, FenceNode(1, 1))
    assert "1 partition of node 1 waits until a live node on its machine has replayed its" in nodes().err
    assert [row["waits"] for row in nodes("--json").json["nodes"]] == [0, 1]


def test_a_node_is_drained_and_resumed(nodes) -> None:
    told = nodes("drain", 1, "--no-wait")
    assert (told.out, told.err) == ("Node 1 is draining and leads 2 partitions.\n", "")
    (row,) = nodes("resume", 1, "--json").json["nodes"]
    assert (row["node_id"], row["state"]) == (1, "live")
    assert nodes("drain", 0).out == "Node 0 is draining and leads 0 partitions.\n", (
        "there is nothing to wait for"
    )
    assert nodes("resume", 0).out == "Node 0 is live and leads 0 partitions.\n"


def test_a_node_that_is_gone_hands_nothing_over_so_nobody_waits_for_it(nodes, tmp_path: Path) -> None:
    did(tmp_path, FenceNode(1, 1))
    told = nodes("drain", 1)
    assert (told.out, told.err) == ("Node 1 is fenced and leads 2 partitions.\n", "")


def test_a_node_is_forgotten_once_it_has_ended(nodes, tmp_path: Path) -> None:
    assert_one_line(nodes("unregister", 0), 1, "node 0 is live; stop it, then unregister it")
    did(tmp_path, FenceNode(0, 1))
    assert nodes("unregister", 0).out == "Node 0 is forgotten.\n"
    assert [row["node_id"] for row in nodes("--json").json["nodes"]] == [1]


def beat(folder: Path, node_id: int, incarnation: str, sent_ms: int) -> None:
    with closing(SqliteBoard(folder / "metadata.sqlite-leases")) as board:
        board.beat(Beat(node_id, 1, sent_ms, incarnation))


def test_a_node_that_ended_with_all_others_is_forgotten_if_it_leads_nothing(nodes, tmp_path: Path) -> None:
    for node_id in (0, 1):
        beat(tmp_path, node_id, ENDED, 1_700_000_000_000)
    assert nodes("resume", 0).out == "Node 0 is ended and leads 0 partitions.\n"
    assert_one_line(
        nodes("unregister", 1), 2, "node 1 has ended, and leads 2 partitions again after its next"
    )
    assert nodes("unregister", 0).out == "Node 0 is forgotten.\n"


def test_a_silent_node_that_no_node_has_fenced_is_not_called_live(nodes, tmp_path: Path) -> None:
    beat(tmp_path, 0, "life", 1_700_000_000_000)
    assert_one_line(nodes("unregister", 0), 2, "node 0 is silent, and no node runs that would take its place")
    assert nodes("drain", 0).out == "Node 0 is silent and leads 0 partitions.\n"


def test_the_forgotten_node_is_named_in_json(nodes, tmp_path: Path) -> None:
    did(tmp_path, FenceNode(0, 1))
    assert nodes("unregister", 0, "--json").json == {"unregistered": 0}


@pytest.mark.parametrize("command", ["drain", "resume", "unregister"])
def test_an_unknown_node_is_refused_with_those_that_there_are(nodes, command: str, tmp_path: Path) -> None:
    assert_one_line(nodes(command, 7), 2, "there is no node 7; the nodes of this store are: 0, 1")
    other = tmp_path / "empty"
    open_store(load_node_settings(other, environment={}), create=True).close()
    assert_one_line(run("nodes", command, 0, "--store", other), 2, "the nodes of this store are: none yet")


def test_a_drain_looks_until_the_last_partition_has_left(capsys: pytest.CaptureFixture[str]) -> None:
    world = MetadataWorld()
    for command in (*JOINING, TOPIC, DrainNode(1)):
        world.do(command)
    draining = world.image
    world.do(MovePartitions((("ab" * 16, 0, 0), ("ab" * 16, 1, 0))))
    moving = world.image
    world.do(FenceNode(1, 1))
    images, waited = iter([draining, moving, moving, world.image]), []

    def refresh() -> MetadataImage:
        return next(images)

    clock = SimpleNamespace(block_ms=waited.append)
    store: Any = SimpleNamespace(
        metadata=SimpleNamespace(refresh=refresh), context=SimpleNamespace(clock=clock)
    )
    _wait_until_drained(store, 1)
    assert waited == [NODES_LOOK_INTERVAL_MS] * 3 and next(images, None) is None
    assert capsys.readouterr().err == "2 partitions to hand over ...\n"
