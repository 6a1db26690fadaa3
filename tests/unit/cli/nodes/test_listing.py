"""The rows of the nodes, and the columns that a narrow terminal shows."""

import pytest
from msgspec.structs import replace

from siltstone.cli.nodes.listing import (
    NodeRow,
    node_rows,
    nodes_table,
    state_words,
    unreachable_words,
    waiting_words,
)
from siltstone.cli.output import results
from siltstone.metadata.commands import CreateTopic, DrainNode, FenceNode, OpenPartition, RegisterNode
from siltstone.metadata.entities import NodeListener, NodeMetadata
from siltstone.metadata.leases.board import ENDED, Beat
from siltstone.metadata.unreachable_nodes import put_unreachable
from support.metadata.metadata_world import MetadataWorld

NOW_MS = 1_700_000_000_000
NODE = NodeMetadata(3, 1, "life", failover=False, wal_location="wal")


@pytest.mark.parametrize(
    ("changes", "state"),
    [
        ({}, "live"),
        ({"is_draining": True}, "draining"),
        ({"is_draining": True, "is_fenced": True}, "fenced"),
        ({"is_fenced": True, "failover": True, "claimed_by": 3}, "failing over"),
        ({"is_fenced": True, "failover": True, "is_draining": True}, "failed over"),
    ],
)
def test_of_several_states_the_one_is_told_that_an_operator_acts_on(changes: dict, state: str) -> None:
    assert state_words(replace(NODE, **changes)) == state


def test_a_row_for_each_node_in_the_order_of_their_numbers() -> None:
    world = MetadataWorld()
    for node_id in (2, 0, 1):
        listeners = (NodeListener("A", f"n{node_id}", 1), NodeListener("B", "out", node_id))[: 2 - node_id]
        world.do(
            RegisterNode(
                node_id, "life", f"wal-{node_id}", listeners=listeners, rack="r" if node_id else None
            )
        )
    world.do(CreateTopic(0, 1, "t", "ab" * 16, 3, leaders=(0, 0, 1)))
    world.do(DrainNode(1))
    world.do(FenceNode(2, 1))
    beats = (Beat(0, 1, NOW_MS - 400, "life"), Beat(1, 1, 17, "of an older version"))
    assert node_rows(world.image, beats) == [
        NodeRow(0, ["n0:1", "out:0"], None, "live", 1, 2, "wal-0", last_beat_ms=NOW_MS - 400),
        NodeRow(1, ["n1:1"], "r", "draining", 1, 1, "wal-1"),
        NodeRow(2, [], "r", "fenced", 1, 0, "wal-2"),
    ]


def test_a_node_that_is_silent_and_that_nobody_has_fenced_is_not_told_to_live() -> None:
    world = MetadataWorld()
    world.do(RegisterNode(0, "life", "wal"))
    beats = (Beat(0, 1, NOW_MS, "life"),)
    assert [node_rows(world.image, beats, NOW_MS + late)[0].state for late in (5_000, 5_001)] == [
        "live",
        "silent",
    ]
    assert node_rows(world.image, (), NOW_MS)[0].state == "live", "it is not known"
    ended = Beat(0, 1, NOW_MS, ENDED)
    assert node_rows(world.image, (ended,), NOW_MS)[0].state == "ended"
    assert node_rows(world.image, (replace(ended, node_epoch=0),), NOW_MS)[0].state == "live", "an older life"
    world.do(FenceNode(0, 1))
    assert node_rows(world.image, beats, NOW_MS + 5_001)[0].state == "fenced"


def test_fo03_partitions_that_wait_for_the_log_of_a_node_that_is_gone_are_counted_and_told() -> None:
    world = MetadataWorld()
    world.do(RegisterNode(0, "life", "file://lost/wal"))
    world.do(CreateTopic(0, 1, "t", "ab" * 16, 3))
    for index in (0, 2):
        world.do(OpenPartition(0, 1, "ab" * 16, index))
    (row,) = node_rows(world.image)
    assert row.waits == 0, "the node lives"
    world.do(FenceNode(0, 1))
    (row,) = node_rows(world.image)
    assert (row.leads, row.waits) == (3, 2)
    assert waiting_words(row) == (
        "2 partitions of node 0 wait until a live node on its machine has replayed its write-ahead log "
        "file://lost/wal, or it is started again: the log may hold the only copy of acknowledged records. If the "
        "machine is gone and its disk is not: siltstone serve --recover on another machine. If the log is lost for "
        "good: siltstone nodes give-up 0"
    )
    in_bucket = waiting_words(replace(row, waits=1, wal="bucket:0/wal/88/0"))
    assert in_bucket == (
        "1 partition of node 0 waits until a live node has replayed its write-ahead log bucket:0/wal/88/0, which takes "
        "seconds."
    )


def test_the_last_beat_is_told_as_an_age(capsys: pytest.CaptureFixture[str]) -> None:
    row = NodeRow(4, [], None, "live", 1, 1, "wal", last_beat_ms=NOW_MS - 12_300)
    later = replace(row, node_id=5, last_beat_ms=NOW_MS + 5)
    results().print(nodes_table([row, later, replace(row, node_id=6, last_beat_ms=None)], NOW_MS))
    lines = capsys.readouterr().out.splitlines()[-3:]
    assert ["12.3 s ago" in lines[0], "0 ms ago" in lines[1], "ago" in lines[2]] == [True, True, False]


@pytest.mark.parametrize(("columns", "is_wide"), [("109", False), ("110", True), (None, True)])
def test_a_narrow_terminal_shows_neither_rack_nor_log(
    columns: str | None, is_wide: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A pipe gets all columns."""
    if columns is None:
        monkeypatch.delenv("COLUMNS", raising=False)
    else:
        monkeypatch.setenv("COLUMNS", columns)
    row = NodeRow(4, [], None, "live", 12, 1_500, "folder-of-4")
    results().print(
        nodes_table([row, replace(row, node_id=5, addresses=["a:1", "b:2"], rack="east")], NOW_MS)
    )
    shown = capsys.readouterr().out
    assert ("folder-of-4" in shown, "east" in shown, "rack" in shown) == (is_wide,) * 3
    first, second = (line.split() for line in shown.splitlines()[-2:])
    assert first[:4] == ["4", "-", "live", "12"] and second[:3] == ["5", "a:1,", "b:2"]


def test_a_node_that_cannot_reach_others_is_told_with_what_waits() -> None:
    world = MetadataWorld()
    for node_id in range(3):
        world.do(RegisterNode(node_id, "life", "wal"))
    world.do(put_unreachable(world.image.nodes[0].life, [1, 2]))
    first, *others = node_rows(world.image)
    assert first.cannot_reach == [1, 2] and all(not each.cannot_reach for each in others)
    assert unreachable_words(first).startswith("Node 0 cannot reach node 1, 2: transactions over both wait.")
