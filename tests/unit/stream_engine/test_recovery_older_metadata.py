"""Metadata that lost its newest entries beside a log that was used with them (rule 13): who meets it, and what then."""

import asyncio

import pytest
from msgspec.structs import replace

from siltstone.metadata.commands import FenceNode, GiveUpLog, UnregisterNode
from siltstone.metadata.entities import NO_NODE, StreamState
from siltstone.object_formats.log_file import DamagedWal
from siltstone.stream_engine.recovery import RecordsFitNowhere
from siltstone.stream_engine.wal.ownership import MetadataBehindLog, WalLost
from support.engine.engine_world import SMALL, SMALL_WAL, HeldPuts, Node, World, payloads_of
from support.engine.lost_entries import fenced_and_failed_over, killed, opened, put_entries

DEAD = 0
PAYLOADS = [b"%d|" % number * 40 for number in range(10)]


def run(scenario) -> None:
    asyncio.run(asyncio.wait_for(scenario(), 60))


@pytest.mark.parametrize("in_bucket", [True, False])
def test_rule_13_a_failover_with_metadata_that_lacks_an_opening_is_refused_until_it_is_whole(
    tmp_path, in_bucket
):
    async def scenario():
        world = World(tmp_path, wal_in_bucket=in_bucket)
        dead = await opened(world, DEAD)
        first, second = await dead.new_stream(), await dead.engine.create_stream()
        HeldPuts(dead)
        older = len(world.log._entries)
        unknown = await dead.engine.open_stream(second, 0)
        for stream in (first, unknown):
            for payload in PAYLOADS:
                await world.passing(dead.append(stream, payload), step_ms=20)
        killed(dead)
        whole = list(world.log._entries)

        put_entries(world.log, whole[:older])
        other = await opened(world, 1)
        for _ in range(2):
            with pytest.raises(RecordsFitNowhere, match="Restore the newest copy") as refused:
                await fenced_and_failed_over(world, other, DEAD)
            assert (refused.value.stream_id, refused.value.base_offset) == (second, 0)
            assert other.metadata.image.nodes[DEAD].claimed_by == NO_NODE
            assert other.metadata.image.streams[first.stream_id].state is StreamState.OPENED
        killed(other)

        put_entries(world.log, whole)
        again = await opened(world, 2)
        await fenced_and_failed_over(world, again, DEAD)
        for stream in (first, unknown):
            epoch = again.metadata.image.streams[stream.stream_id].epoch + 1
            handle = await again.engine.open_stream(stream.stream_id, epoch)
            assert payloads_of(await world.passing(again.read_all(handle))) == PAYLOADS
        await world.passing(again.close())

    run(scenario)


@pytest.mark.parametrize("in_bucket", [True, False])
def test_rule_13_a_log_that_a_person_gave_up_is_dropped_with_a_line_and_no_other(tmp_path, in_bucket, caplog):
    async def scenario():
        world = World(tmp_path, wal_in_bucket=in_bucket)
        dead = await opened(world, DEAD)
        stream = await dead.new_stream()
        HeldPuts(dead)
        for payload in PAYLOADS:
            await world.passing(dead.append(stream, payload), step_ms=20)
        killed(dead)
        other = await opened(world, 1)
        await other.metadata.execute(FenceNode(DEAD, 1))
        await other.metadata.execute(GiveUpLog(DEAD, 1, "f" * 32))
        with pytest.raises(WalLost, match="declared lost"):
            await opened(world, DEAD)
        given_up = replace(SMALL, wal=replace(SMALL_WAL, lost_epoch=1))
        back = await started(world, given_up)
        assert "10 batches of the write-ahead log that was given up are dropped" in caplog.text
        handle = await back.engine.open_stream(stream.stream_id, 1)
        assert handle.confirmed_offset == 0
        HeldPuts(back)
        await world.passing(back.append(handle, b"since"), step_ms=20)
        killed(back)

        caplog.clear()
        again = await started(world, given_up)  # the setting stays: it is about another log
        handle = await again.engine.open_stream(stream.stream_id, 2)
        assert payloads_of(await world.passing(again.read_all(handle))) == [b"since"]
        assert "given up" not in caplog.text

    run(scenario)


@pytest.mark.parametrize("in_bucket", [True, False])
def test_n23_the_log_of_a_node_that_was_unregistered_is_refused_beside_metadata_that_is_older(
    tmp_path, in_bucket
):
    """Beside the newest metadata it is not, although these no longer know the node."""

    async def scenario():
        world = World(tmp_path, wal_in_bucket=in_bucket)
        staying = await opened(world, 0)
        await lived_and_unregistered(world, staying, 2)
        older = list(world.log._entries)
        await lived_and_unregistered(world, staying, 1)
        whole = list(world.log._entries)
        killed(staying)
        put_entries(world.log, older)
        with pytest.raises(MetadataBehindLog, match=r"older copy\. Restore the newest copy"):
            await opened(world, 1)
        put_entries(world.log, whole)
        for node_id in (1, 2):
            again = await opened(world, node_id)
            assert again.engine.node_epoch == 3
            await world.passing(again.close())

    run(scenario)


@pytest.mark.parametrize("in_bucket", [True, False])
def test_rule_13_records_of_a_node_that_was_unregistered_without_them_refuse_its_start(tmp_path, in_bucket):
    """The metadata lost the opening of a stream, so nothing seemed open, and a person unregistered the node."""

    async def scenario():
        world = World(tmp_path, wal_in_bucket=in_bucket)
        staying, dead = await opened(world, 0), await opened(world, 1)
        HeldPuts(dead)
        older = list(world.log._entries)
        stream = await dead.new_stream()
        await world.passing(dead.append(stream, PAYLOADS[0]), step_ms=20)
        killed(dead)
        killed(staying)
        put_entries(world.log, older)
        other = await opened(world, 2)
        await fenced_and_unregistered(other, 1)
        for _ in range(2):
            with pytest.raises(DamagedWal, match=r"fit nowhere .* Restore the newest copy"):
                await opened(world, 1)

    run(scenario)


async def lived_and_unregistered(world: World, other: Node, node_id: int) -> None:
    """The node stores records, ends well, and is unregistered."""
    node = await opened(world, node_id)
    await world.passing(node.append(await node.new_stream(), PAYLOADS[0]), step_ms=20)
    await world.passing(node.close())
    await fenced_and_unregistered(other, node_id)


async def fenced_and_unregistered(other: Node, node_id: int) -> None:
    epoch = (await other.metadata.refresh()).nodes[node_id].node_epoch
    await other.metadata.execute(FenceNode(node_id, epoch))
    await other.metadata.execute(UnregisterNode(node_id))


async def started(world: World, settings) -> Node:
    return await world.passing(world.open(settings, wal=world.folder / f"node-{DEAD}"))
