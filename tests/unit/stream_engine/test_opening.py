"""Opening after every kind of end: what was acknowledged is read exactly once and in order (rules 1, 3, 5, 7)."""

import asyncio
import logging

import pytest
from msgspec.structs import replace

from siltstone.metadata.entities import StreamState
from siltstone.metadata.store.memory import MemoryLog
from siltstone.object_store.memory import MemoryStore
from siltstone.object_store.port import ObjectTruncated
from siltstone.runtime.clock import ManualClock
from siltstone.stream_engine.errors import EngineNotRunning
from siltstone.stream_engine.wal.port import WalInUse
from support.engine.engine_world import (
    SMALL,
    SMALL_WAL,
    FreezableCalls,
    HeldPuts,
    World,
    offsets_of,
    payloads_of,
    settled,
)
from support.engine.faulty_store import BY_CHANCE, FaultyStore
from support.engine.faulty_store import Fault as StoreFault
from support.metadata.faulty_log import Fault, FaultyLog


def run(scenario) -> None:
    asyncio.run(asyncio.wait_for(scenario(), 60))


async def appended(node, streams, count, size=100, first=0):
    """``count`` acknowledged appends, in turn to each stream. What each stream holds of them."""
    sent = {stream.stream_id: [] for stream in streams}
    for number in range(first, first + count):
        stream = streams[number % len(streams)]
        payload = (b"%d|" % number) * (size // 4)
        await node.append(stream, payload)
        sent[stream.stream_id].append(payload)
    return sent


async def check(node, sent, epoch):
    for stream_id, payloads in sent.items():
        stream = await node.engine.open_stream(stream_id, epoch)
        found = await node.read_all(stream)
        assert payloads_of(found) == payloads
        assert offsets_of(found) == [(at, at + 1) for at in range(len(payloads))]


def test_close_and_reopen(tmp_path):
    async def scenario():
        world = World(tmp_path)
        async with world.node() as node:
            sent = await appended(node, [await node.new_stream() for _ in range(3)], 100)
        async with world.node() as node:
            assert node.engine.node_epoch == 2
            await check(node, sent, 1)

    run(scenario)


@pytest.mark.parametrize("appends", [0, 1, 7, 90, 400])
def test_restart_after_an_unclean_end(tmp_path, appends):
    async def scenario():
        world = World(tmp_path)
        node = await world.open()
        sent = await appended(node, [await node.new_stream() for _ in range(3)], appends)
        world.crash(node.calls)
        async with world.node() as node:
            states = {stream.state for stream in node.metadata.image.streams.values()}
            assert states == {StreamState.CLOSED}
            await check(node, sent, 1)
            assert not node.engine.statistics().wal.bytes_untrimmed

    run(scenario)


def test_restarts_after_unclean_ends_in_a_row(tmp_path):
    async def scenario():
        world = World(tmp_path)
        node = await world.open()
        streams = [await node.new_stream() for _ in range(3)]
        sent = {stream.stream_id: [] for stream in streams}
        for life in range(1, 6):
            for stream_id, payloads in (await appended(node, streams, 31, first=1000 * life)).items():
                sent[stream_id] += payloads
            world.crash(node.calls)
            node = await world.open()
            streams = [await node.engine.open_stream(stream_id, life) for stream_id in sent]
            for stream in streams:
                assert payloads_of(await node.read_all(stream)) == sent[stream.stream_id]
        await node.close()

    run(scenario)


@pytest.mark.parametrize("crash_at", range(1, 20))
def test_a_crash_at_any_call_of_a_recovery(tmp_path, crash_at):
    """Blocks are recovered with uploads, commits, the end of the log, the closing of streams: each is a call."""

    async def scenario():
        world = World(tmp_path)
        node = await world.open()
        HeldPuts(node)  # nothing is uploaded before the crash, so recovery has several blocks to do
        sent = await appended(node, [await node.new_stream() for _ in range(3)], 40, size=400)
        world.crash(node.calls)
        calls = FreezableCalls()
        left = crash_at

        def count_down(_):
            nonlocal left
            left -= 1
            if left == 0:
                world.crash(calls)

        calls.before_call = count_down
        opening = asyncio.ensure_future(world.open(calls=calls))
        while not (opening.done() or calls.is_frozen):
            await asyncio.sleep(0)
        calls.before_call = lambda _: None
        if opening.done():
            await opening.result().close()
        async with world.node() as node:
            await check(node, sent, 1)
        if not opening.done():
            opening.cancel()

    run(scenario)


def test_what_was_acknowledged_but_trimmed_into_is_recovered(tmp_path):
    """The trim points into an acknowledged batch that no object holds: the committed end moved into it (T24)."""

    async def scenario():
        world = World(tmp_path)
        node = await world.open()
        stream = await node.new_stream()
        for number in range(5):
            await node.append(stream, b"%d" % number, 20)
        await node.engine.trim(stream, 50)
        world.crash(node.calls)
        async with world.node() as node:
            again = await node.engine.open_stream(stream.stream_id, 1)
            assert (again.start_offset, again.confirmed_offset) == (50, 100)
            found = await node.read_all(again)
            assert offsets_of(found) == [(40, 60), (60, 80), (80, 100)]
            assert payloads_of(found) == [b"2", b"3", b"4"]

    run(scenario)


@pytest.mark.parametrize("trim_to", [1, 20, 50, 99, 100])
def test_trims_before_and_after_commits_survive_an_unclean_end(tmp_path, trim_to):
    async def scenario():
        world = World(tmp_path)
        node = await world.open()
        stream = await node.new_stream()
        for number in range(5):
            await node.append(stream, b"%d" % number, 20)
            if number == 1:
                await node.engine.flush()
        await node.engine.trim(stream, trim_to)
        await node.append(stream, b"5", 20)
        world.crash(node.calls)
        async with world.node() as node:
            again = await node.engine.open_stream(stream.stream_id, 1)
            assert (again.start_offset, again.confirmed_offset) == (trim_to, 120)
            assert payloads_of(await node.read_all(again)) == [b"%d" % n for n in range(trim_to // 20, 6)]

    run(scenario)


def test_a_deleted_and_a_closed_stream_are_left_alone_by_recovery(tmp_path, caplog):
    async def scenario():
        world = World(tmp_path)
        node = await world.open()
        deleted, closed, opened = [await node.new_stream() for _ in range(3)]
        sent = await appended(node, [deleted, closed, opened], 9)
        await node.engine.close_stream(deleted)
        await node.engine.delete_stream(deleted.stream_id, 0)
        await node.engine.close_stream(closed)
        sent[opened.stream_id] += (await appended(node, [opened], 3, first=100))[opened.stream_id]
        world.crash(node.calls)
        with caplog.at_level(logging.WARNING):
            async with world.node() as node:
                assert deleted.stream_id not in node.metadata.image.streams or (
                    node.metadata.image.streams[deleted.stream_id].state is StreamState.DELETED
                )
                del sent[deleted.stream_id]
                await check(node, sent, 1)
        assert "the write-ahead log continues it at" not in caplog.text

    run(scenario)


def test_recovery_keeps_the_limit_of_streams_in_one_object(tmp_path):
    settings = replace(SMALL, upload=replace(SMALL.upload, cache_block_streams_max=3))

    async def scenario():
        world = World(tmp_path)
        node = await world.open(settings)
        HeldPuts(node)
        sent = await appended(node, [await node.new_stream() for _ in range(10)], 10)
        world.crash(node.calls)
        async with world.node(settings) as node:
            assert max(len(one.ranges) for one in node.metadata.image.objects.values()) == 3
            await check(node, sent, 1)

    run(scenario)


def test_a_recovery_that_cannot_commit_leaves_the_log_for_the_next(tmp_path):
    async def scenario():
        world = World(tmp_path)
        node = await world.open()
        sent = await appended(node, [await node.new_stream()], 30)
        world.crash(node.calls)

        def refuse(*_):
            raise ObjectTruncated("no such thing")

        world.store.put = refuse
        for _ in range(2):
            with pytest.raises(EngineNotRunning, match=r"recovery could not commit .*: no such thing"):
                await world.open()
        del world.store.put
        async with world.node() as node:
            await check(node, sent, 1)

    run(scenario)


def test_a_second_engine_on_the_same_folder_is_turned_away_without_fencing_the_first(tmp_path):
    async def scenario():
        world = World(tmp_path)
        async with world.node() as node:
            stream = await node.new_stream()
            with pytest.raises(WalInUse):
                await world.open()
            await node.append(stream, b"x")
            await node.engine.flush()
            assert node.engine.statistics().state == "RUNNING"

    run(scenario)


def test_rule_7_two_engines_with_the_same_node_id_the_second_fences_the_first(tmp_path):
    async def scenario():
        world = World(tmp_path)
        first = await world.open()
        stream = await first.new_stream()
        await first.append(stream, b"committed")
        await first.engine.flush()
        given_up = replace(SMALL, wal=replace(SMALL_WAL, lost_epoch=1))
        second = await world.open(given_up, wal=tmp_path / "other")
        taken = await second.engine.open_stream(stream.stream_id, 1)
        assert await second.append(taken, b"of the second") == 1
        await first.append(stream, b"too late")
        with pytest.raises(EngineNotRunning, match="was registered again with epoch 2"):
            await asyncio.wait_for(first.engine.flush(), 60)
        with pytest.raises(EngineNotRunning, match="was registered again with epoch 2"):
            first.engine.append(stream, b"later", 1)
        await first.close()
        await second.engine.flush()
        assert payloads_of(await second.read_all(taken)) == [b"committed", b"of the second"]
        assert second.engine.statistics().state == "RUNNING"
        await second.close()

    run(scenario)


# -- answers that get lost -------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", [Fault.UNAVAILABLE, Fault.LOST, Fault.DONE, Fault.LATE])
@pytest.mark.parametrize("at", range(7))
def test_rule_5_metadata_appends_whose_answer_is_lost(tmp_path, fault, at):
    """Each append of a node's life in turn: the store's id, register, create, open, prepare, commit, close."""

    async def scenario():
        log = FaultyLog(MemoryLog())
        world = World(tmp_path, log=log)
        log.faults.extend([None] * at + [fault])
        node = await world.passing(world.open())
        stream = await world.passing(node.new_stream())
        await node.append(stream, b"x")
        await world.passing(node.engine.flush())
        assert len(world.keys()) == 1
        await world.passing(node.engine.close_stream(stream))
        assert not log.faults, "the fault never came"
        metadata = node.metadata.image.streams[stream.stream_id]
        assert (metadata.state, metadata.end_offset) == (StreamState.CLOSED, 1)
        await node.close()

    run(scenario)


def test_rule_5_a_commit_of_unknown_outcome_is_asked_again_and_nothing_is_deleted(tmp_path, caplog):
    """The commit is done, its answer lost, and the log is out of reach until the metadata client gives up."""

    async def scenario():
        log = FaultyLog(MemoryLog())
        world = World(tmp_path, log=log)
        node = await world.open()
        stream = await node.new_stream()
        await node.append(stream, b"x")
        deletes = []
        world.store.delete = deletes.append
        log.faults.extend([None, Fault.DONE, *[Fault.UNAVAILABLE] * 7])
        flush = asyncio.ensure_future(node.engine.flush())
        await settled()
        assert not flush.done()
        await world.passing(flush)
        assert not log.faults
        assert "tries again: the outcome of an append" in caplog.text
        assert node.metadata.image.streams[stream.stream_id].end_offset == 1
        assert not deletes and len(world.keys()) == 1
        assert node.engine.statistics().state == "RUNNING"
        await node.close()

    run(scenario)


@pytest.mark.parametrize("fault", BY_CHANCE)
def test_rule_5_puts_that_fail_or_whose_answer_is_lost(tmp_path, fault):
    async def scenario():
        clock = ManualClock()
        store = FaultyStore(MemoryStore(clock))
        world = World(tmp_path, store=store, clock=clock)
        node = await world.open()
        sent = await appended(node, [await node.new_stream() for _ in range(2)], 20)
        store.fail_next(*[fault] * 3, call="put")
        await world.passing(node.engine.flush())
        assert [failed for name, failed in store.history if name == "put"][:4] == [fault] * 3 + [None]
        await node.close()
        store.calm()
        async with world.node() as node:
            await check(node, sent, 1)
            assert all(sid in sent for sid in node.metadata.image.streams)
            assert not store.history or all(name != "delete" for name, _ in store.history)

    run(scenario)


@pytest.mark.parametrize("fault", [StoreFault.BEFORE, StoreFault.AFTER, StoreFault.LATE])
def test_a_fault_during_recovery_is_waited_out(tmp_path, fault):
    """One that passes in time: a longer one is for test_opening_without_bucket."""

    async def scenario():
        clock = ManualClock()
        store = FaultyStore(MemoryStore(clock))
        world = World(tmp_path, store=store, clock=clock)
        node = await world.open()
        sent = await appended(node, [await node.new_stream()], 30)
        world.crash(node.calls)
        store.fail_next(fault, call="put")
        node = await world.passing(world.open())
        await check(node, sent, 1)
        await node.close()

    run(scenario)
