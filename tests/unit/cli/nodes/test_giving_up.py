"""``siltstone nodes give-up`` on a store whose node 1 is gone (FO04)."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from siltstone.cli.nodes import giving_up
from siltstone.metadata.commands import (
    CommitUpload,
    CreateStream,
    CreateTopic,
    FenceNode,
    NewObject,
    OpenPartition,
    OpenStream,
    PrepareObjects,
    RegisterNode,
)
from siltstone.metadata.entities import NodeListener, StreamState
from siltstone.model.objects import ObjectRange
from siltstone.offline.opening.store import open_store
from siltstone.server.settings.node import load_node_settings
from support.processes.cli import Outcome, assert_one_line, run

JOINING = [
    RegisterNode(
        node_id, "life", f"file://host/wal-{node_id}", listeners=(NodeListener("PLAINTEXT", "host", 9092),)
    )
    for node_id in range(2)
]
TOPICS = [
    CreateTopic(0, 1, "t", "ab" * 16, 3, leaders=(1, 1, 0)),
    CreateTopic(0, 1, "a", "cd" * 16, 1, leaders=(1,)),
]
GONE = 1


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with the nodes 0 and 1. Node 1 died with t-0, t-1, a-0 and a stream of no topic open; t-1 is committed up
    to offset 1,234. Node 0 leads t-2."""
    folder = tmp_path_factory.mktemp("store")
    with open_store(load_node_settings(folder, environment={}), create=True) as store:
        metadata = store.metadata
        metadata.execute_all([*JOINING, *TOPICS])
        metadata.execute(OpenPartition(0, 1, "ab" * 16, 2))
        metadata.execute(OpenPartition(GONE, 1, "ab" * 16, 0))
        opened = metadata.execute(OpenPartition(GONE, 1, "ab" * 16, 1))
        metadata.execute(OpenPartition(GONE, 1, "cd" * 16, 0))
        metadata.execute(OpenStream(GONE, 1, metadata.execute(CreateStream(GONE, 1)), 0))
        number = metadata.execute(PrepareObjects(1, 1_000_000, node_id=GONE, node_epoch=1))
        held = ObjectRange(opened.data.stream_id, number, 0, 1_234, 5_000, 1)
        metadata.execute(CommitUpload(GONE, 1, NewObject(number, 6_000, (held,))))
        metadata.execute(FenceNode(GONE, 1))
    return folder


@pytest.fixture
def nodes(prepared: Path, tmp_path: Path) -> Callable[..., Outcome]:
    shutil.copytree(prepared, tmp_path, dirs_exist_ok=True)
    return lambda *words: run("nodes", *words, "--store", tmp_path)


def opened(folder: Path) -> int:
    with open_store(load_node_settings(folder, environment={})) as store:
        streams = store.metadata.image.streams.values()
        return sum(each.owner == GONE and each.state is StreamState.OPENED for each in streams)


def test_fo04_it_shows_where_each_partition_goes_on_and_does_nothing_unasked(nodes, tmp_path: Path) -> None:
    outcome = nodes("give-up", GONE)
    assert outcome.status == 2
    assert [line.split() for line in outcome.out.splitlines()[2:]] == [
        ["a", "0", "0"], ["t", "0", "0"], ["t", "1", "1,234"], ["(stream", "8,", "of", "no", "topic)", "-", "0"],
    ]  # fmt: skip
    assert (
        "Records that were acknowledged from these offsets on are only in file://host/wal-1, if anywhere."
        in outcome.err
    )
    assert "Give the write-ahead log of node 1 up for good? Not a terminal, so I cannot ask" in outcome.err
    assert opened(tmp_path) == 7


def test_fo04_with_yes_the_streams_are_closed_and_the_node_is_shown_as_failed_over(
    nodes, tmp_path: Path
) -> None:
    assert "siltstone nodes give-up 1" in nodes().err
    outcome = nodes("give-up", GONE, "--yes")
    assert (outcome.status, opened(tmp_path)) == (0, 0)
    assert (
        "The log of node 1 is given up: all 4 continue at the offsets above, led by live nodes."
        in outcome.out
    )
    row = nodes("--json").json["nodes"][GONE]
    assert (row["state"], row["waits"], row["epoch"]) == ("failed over", 0, 2)
    again = nodes("give-up", GONE, "--yes")
    assert (again.status, again.out) == (0, "Node 1 left nothing open, so there is nothing to give up.\n")


def test_as_json_it_has_every_end(nodes) -> None:
    found = nodes("give-up", GONE, "--yes", "--json").json
    assert (found["given_up"], found["wal"]) == (GONE, "file://host/wal-1")
    assert [(end["topic"], end["partition"], end["offset"]) for end in found["ends"]] == [
        ("a", 0, 0), ("t", 0, 0), ("t", 1, 1_234), (None, None, 0),
    ]  # fmt: skip
    assert nodes("give-up", GONE, "--yes", "--json").json == {"given_up": None, "ends": []}


def test_a_live_node_and_an_unknown_one_are_refused(nodes, tmp_path: Path) -> None:
    assert_one_line(nodes("give-up", 0, "--yes"), 2, "node 0 is live, as far as the metadata know")
    assert_one_line(nodes("give-up", 7, "--yes"), 2, "there is no node 7; the nodes of this store are: 0, 1")
    assert opened(tmp_path) == 7


def test_many_rows_are_counted(nodes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(giving_up, "SHOWN_MAX", 1)
    out = nodes("give-up", GONE, "--yes").out
    assert "and 3 more" in out and "1,234" not in out
