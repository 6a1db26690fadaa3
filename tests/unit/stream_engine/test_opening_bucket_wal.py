"""Nodes whose write-ahead log is in the bucket: crashes, the same node anew, another place between lives."""

import asyncio
import shutil

import pytest
from msgspec.structs import replace

from siltstone.metadata.entities import StreamState
from siltstone.metadata.store.sqlite import SqliteLog
from siltstone.object_formats.wal_object import WAL_PREFIX, wal_object_name
from siltstone.object_store.port import StoreDenied
from siltstone.stream_engine.errors import EngineNotRunning
from siltstone.stream_engine.wal.ownership import MetadataBehindLog, WalLost
from support.engine.engine_world import SMALL, SMALL_WAL, FreezableCalls, HeldPuts, World, payloads_of


def run(scenario) -> None:
    asyncio.run(asyncio.wait_for(scenario(), 60))


def bucket_world(tmp_path, **options) -> World:
    return World(tmp_path, wal_in_bucket=True, **options)


async def append_all(world: World, node, stream, payloads: list[bytes]) -> None:
    for payload in payloads:
        await world.passing(node.append(stream, payload), step_ms=20)


async def crashed_life(world: World, payloads: list[bytes]) -> int:
    """Acknowledged and committed nowhere; then the process is killed. → The stream's id."""
    node = await world.passing(world.open())
    stream = await node.new_stream()
    HeldPuts(node)
    await append_all(world, node, stream, payloads)
    world.crash(node.calls)
    return stream.stream_id


async def read_back(world: World, stream_id: int, settings=SMALL) -> list[bytes]:
    """In a further life, which ends well."""
    node = await world.passing(world.open(settings))
    epoch = node.metadata.image.streams[stream_id].epoch + 1
    stream = await node.engine.open_stream(stream_id, epoch)
    payloads = payloads_of(await node.read_all(stream))
    await world.passing(node.close())
    assert node.engine.is_clean
    return payloads


def wal_keys(world: World) -> list[str]:
    return [summary.key for summary in world.store.list(WAL_PREFIX)]


PAYLOADS = [b"%d|" % number * 40 for number in range(12)]


def test_what_was_acknowledged_is_there_in_the_next_life_and_uploaded(tmp_path):
    async def scenario():
        world = bucket_world(tmp_path)
        stream_id = await crashed_life(world, PAYLOADS)
        assert wal_keys(world) == sorted(world.keys())
        assert await read_back(world, stream_id) == PAYLOADS
        assert wal_keys(world) != sorted(world.keys())

    run(scenario)


def test_the_node_is_registered_with_the_place_of_its_log(tmp_path):
    async def scenario():
        world = bucket_world(tmp_path)
        node = await world.passing(world.open())
        assert node.metadata.image.nodes[0].wal_location == "bucket:0/wal/88/0"
        await world.passing(node.close())

    run(scenario)


def test_w22_a_life_that_opened_streams_and_died_before_a_bulk_needs_no_person(tmp_path):
    async def scenario():
        world = bucket_world(tmp_path)
        stream_id = await crashed_life(world, [])
        assert await read_back(world, stream_id) == []

    run(scenario)


@pytest.mark.parametrize("first_in_bucket", [False, True])
def test_w19_another_place_after_a_clean_end_is_taken(tmp_path, first_in_bucket):
    async def scenario():
        world = World(tmp_path, wal_in_bucket=first_in_bucket)
        node = await world.passing(world.open())
        stream = await node.new_stream()
        await append_all(world, node, stream, PAYLOADS)
        await world.passing(node.close())
        for _ in range(3):
            world.wal_in_bucket = not world.wal_in_bucket
            assert await read_back(world, stream.stream_id) == PAYLOADS

    run(scenario)


@pytest.mark.parametrize("first_in_bucket", [False, True])
def test_w19_another_place_after_a_crash_is_refused_with_what_to_do(tmp_path, first_in_bucket):
    async def scenario():
        world = World(tmp_path, wal_in_bucket=first_in_bucket)
        stream_id = await crashed_life(world, PAYLOADS)
        world.wal_in_bucket = not first_in_bucket
        last = "bucket:0/wal/88/0" if first_in_bucket else "file://"
        for _ in range(2):
            with pytest.raises(WalLost, match=rf"start the node with the log that it last used, {last}"):
                await world.passing(world.open())
        world.wal_in_bucket = first_in_bucket
        assert await read_back(world, stream_id) == PAYLOADS

    run(scenario)


def test_a_log_in_the_bucket_that_is_lost_can_be_given_up(tmp_path):
    async def scenario():
        world = bucket_world(tmp_path)
        stream_id = await crashed_life(world, PAYLOADS)
        world.store.delete(wal_keys(world))
        with pytest.raises(WalLost, match="lost_epoch=1"):
            await world.passing(world.open())
        given_up = replace(SMALL, wal=replace(SMALL_WAL, lost_epoch=1))
        assert await read_back(world, stream_id, given_up) == []

    run(scenario)


def test_an_older_copy_of_the_metadata_is_refused(tmp_path):
    async def scenario():
        path = tmp_path / "metadata.sqlite"
        world = bucket_world(tmp_path, log=SqliteLog(path, create=True))
        node = await world.passing(world.open())
        stream = await node.new_stream()
        await world.passing(node.close())
        shutil.copy(path, tmp_path / "older")
        world.log = SqliteLog(path)
        assert await read_back(world, stream.stream_id) == []
        shutil.copy(tmp_path / "older", path)
        world.log = SqliteLog(path)
        before = world.keys()
        with pytest.raises(MetadataBehindLog, match=r"bucket:0/wal/88/0.*older copy"):
            await world.passing(world.open())
        assert world.keys() == before

    run(scenario)


def test_a_second_process_of_the_node_fences_the_first(tmp_path):
    async def scenario():
        world = bucket_world(tmp_path)
        first = await world.passing(world.open())
        stream = await first.new_stream()
        await append_all(world, first, stream, PAYLOADS[:3])
        assert await read_back(world, stream.stream_id) == PAYLOADS[:3]
        with pytest.raises(EngineNotRunning, match="taken over"):
            await world.passing(first.append(stream, b"late"))
        assert first.engine.statistics().readiness == "stopped"
        await world.passing(first.close())
        assert await read_back(world, stream.stream_id) == PAYLOADS[:3]

    run(scenario)


def test_a_start_whose_uploads_are_refused_carries_the_log(tmp_path):
    """Objects of the log can be put, others cannot: the records stay in the log and in the tail cache."""

    async def scenario():
        world = bucket_world(tmp_path)
        stream_id = await crashed_life(world, PAYLOADS[:6])

        def refuse(*_):
            raise StoreDenied("objects are refused")

        world.store.put = refuse
        for epoch, number in ((2, 8), (3, 12)):
            node = await world.passing(world.open())
            assert node.engine.node_epoch == epoch
            stream = await node.engine.open_stream(stream_id, 0)
            found = payloads_of(await node.read_all(stream))
            assert found == PAYLOADS[: len(found)]
            await append_all(world, node, stream, PAYLOADS[len(found) : number])
            world.crash(node.calls)
        del world.store.put
        assert await read_back(world, stream_id) == PAYLOADS
        kept = [wal_object_name(key) for key in wal_keys(world)]
        assert [name.node_epoch for name in sorted(kept)] == [1, 2, 3, 4, 4], (
            "seals, and the last life's claims"
        )

    run(scenario)


@pytest.mark.parametrize("crash_at", range(1, 80, 3))
def test_a_crash_at_any_call_of_a_start_loses_nothing(tmp_path, crash_at):
    """Registering, sealing, reading, uploading, committing, claiming, deleting: each is a call."""

    async def scenario():
        world = bucket_world(tmp_path)
        stream_id = await crashed_life(world, PAYLOADS)
        calls = FreezableCalls()
        left = crash_at

        def count_down(_):
            nonlocal left
            left -= 1
            if left == 0:
                calls.is_frozen = True

        calls.before_call = count_down

        async def start_and_end():
            node = await world.open(calls=calls)
            await node.engine.open_stream(stream_id, 1)
            await node.close()

        ending = asyncio.ensure_future(start_and_end())
        while not (ending.done() or calls.is_frozen):
            world.clock.advance_ms(50)
            await asyncio.sleep(0)
        ending.cancel()
        assert await read_back(world, stream_id) == PAYLOADS
        node = await world.passing(world.open())
        assert node.metadata.image.streams[stream_id].state is StreamState.CLOSED
        await world.passing(node.close())

    run(scenario)
