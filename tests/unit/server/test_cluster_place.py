"""A node among others: it beats from its registration on, holds its lease, and records a clean end."""

import asyncio
from pathlib import Path

import pytest

from siltstone.cluster.membership import NodeIdInUse
from siltstone.metadata.entities import NodeListener
from siltstone.metadata.leases.board import ENDED
from siltstone.metadata.opening import open_board
from siltstone.offline.opening.store import open_store
from siltstone.runtime.clock import SystemClock, boottime_ms
from siltstone.server.components import Node, open_node
from siltstone.server.settings.node import NodeSettings, load_node_settings
from siltstone.stream_engine import opening
from support.scenarios import in_loop

LISTENERS = (NodeListener("PLAINTEXT", "127.0.0.1", 9092),)


def settings_of(folder: Path, **flags: str) -> NodeSettings:
    named = {name.replace("__", "."): value for name, value in flags.items()}
    return load_node_settings(folder, environment={}, flags=named)


def node_in(settings: NodeSettings, node_id: int = 0):
    with open_store(settings) as store:
        return store.metadata.image.nodes[node_id]


async def lease_of(node: Node) -> None:
    while not node.place.is_lease_held():
        await asyncio.sleep(0.01)


def test_a_clean_end_is_told_at_once_and_the_next_start_need_not_wait(tmp_path: Path) -> None:
    settings = settings_of(tmp_path, broker__rack="a")

    async def life(number: int) -> None:
        async with open_node(settings, listeners=LISTENERS) as node:
            await lease_of(node)
            found = node.metadata.image.nodes[0]
            assert (found.node_epoch, found.is_live, found.rack, found.listeners) == (
                number, True, "a", LISTENERS,
            )  # fmt: skip
            board = open_board(settings.metadata, SystemClock())
            (beat,) = board.beats()
            assert (beat.node_id, beat.node_epoch, beat.incarnation) == (0, number, found.incarnation)

    for number in (1, 2):
        asyncio.run(life(number))
        assert node_in(settings).is_fenced


def test_one_that_ends_with_all_others_keeps_its_partitions_and_the_next_start_need_not_wait(
    tmp_path: Path,
) -> None:
    settings = settings_of(tmp_path)

    async def life() -> None:
        async with open_node(settings, listeners=LISTENERS) as node:
            await lease_of(node)
            await node.place.rest()
            await node.place.rest()
            assert node.place.is_lease_held()

    asyncio.run(life())
    node = node_in(settings)
    assert node.is_live
    (beat,) = open_board(settings.metadata, SystemClock()).beats()
    assert (beat.node_id, beat.node_epoch, beat.incarnation) == (0, node.node_epoch, ENDED)


def test_a_node_that_left_something_behind_is_not_told_to_have_ended(tmp_path: Path) -> None:
    settings = settings_of(tmp_path)

    async def life() -> None:
        async with open_node(settings, listeners=LISTENERS) as node:
            node.engine.abandon("the node was killed")

    asyncio.run(life())
    assert node_in(settings).is_live


IN_A_BUCKET = {"engine__wal__location": "bucket:0"}
"""A log that no process can lock."""


@pytest.mark.parametrize(
    ("of_both", "of_the_second"),
    [({}, {"wal_folder": "elsewhere"}), (IN_A_BUCKET, {})],
    ids=["files", "bucket"],
)
def test_n02_a_second_process_under_the_same_id_is_refused_and_the_first_undisturbed(
    tmp_path: Path, of_both: dict[str, str], of_the_second: dict[str, str]
) -> None:
    first, second = settings_of(tmp_path, **of_both), settings_of(tmp_path, **of_both, **of_the_second)

    async def both() -> None:
        async with open_node(first, listeners=LISTENERS) as node:
            await lease_of(node)
            with pytest.raises(NodeIdInUse, match="another process runs as node 0"):
                async with open_node(second, listeners=LISTENERS):
                    pass
            found = (await node.metadata.refresh()).nodes[0]
            assert (found.node_epoch, found.is_live) == (node.engine.node_epoch, True)

    asyncio.run(both())


def test_n21_a_node_beats_while_it_recovers_its_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = settings_of(tmp_path)
    recover, seen = opening.replay_log, []

    async def slow(*arguments, **options):
        board = open_board(settings.metadata, SystemClock())
        while not board.beats():
            await asyncio.sleep(0.01)
        seen.append(board.beats()[0].node_epoch)
        return await recover(*arguments, **options)

    monkeypatch.setattr(opening, "replay_log", slow)

    async def life() -> None:
        async with open_node(settings, listeners=LISTENERS):
            pass

    asyncio.run(life())
    assert seen == [1]


@in_loop
async def test_n07_its_own_lease_runs_on_the_clock_that_counts_a_suspension_of_the_machine(
    tmp_path: Path,
) -> None:
    """Otherwise a node whose machine slept would believe that its lease is valid and that it still leads partitions
    which other nodes lead by then."""
    async with open_node(settings_of(tmp_path), listeners=LISTENERS) as node:
        assert node.place._lease._boottime_ms is boottime_ms
