"""The end of an engine (T17), and of one that cannot commit any more."""

import asyncio

import pytest

from siltstone.metadata.entities import StreamState
from siltstone.metadata.refusals import NodeEpochExpired
from siltstone.metadata.service import ServiceClosed
from siltstone.metadata.store.port import LogDamaged
from siltstone.object_store.port import ObjectTruncated
from siltstone.stream_engine.errors import EngineNotRunning
from siltstone.stream_engine.wal.log_directory import LogDirectory
from siltstone.stream_engine.wal.port import WalInUse
from support.engine.engine_world import SMALL, HeldPuts, World, payloads_of, settled


def run(tmp_path, scenario) -> None:
    async def main() -> None:
        world = World(tmp_path)
        await scenario(world, await world.open(SMALL))

    asyncio.run(main())


def test_t17_shutdown_waits_for_a_commit_and_closes_the_log_after_it(tmp_path):
    async def scenario(world, node):
        stream = await node.new_stream()
        held = HeldPuts(node)
        await node.append(stream, b"x")
        closing = asyncio.ensure_future(node.engine.close())
        await settled()
        assert not closing.done()
        assert node.engine.statistics().state == "CLOSING"
        with pytest.raises(WalInUse):
            await world.open()
        with pytest.raises(EngineNotRunning, match="closing"):
            node.engine.append(stream, b"late", 1)
        held.release()
        await closing
        assert node.engine.statistics().state == "CLOSED"
        with pytest.raises(EngineNotRunning, match="closed"):
            node.engine.append(stream, b"later", 1)
        metadata = node.metadata.image.streams[stream.stream_id]
        assert (metadata.state, metadata.end_offset) == (StreamState.CLOSED, 1)
        await (await world.open()).close()

    run(tmp_path, scenario)


def test_t17_shutdown_awaits_a_trim_that_has_begun(tmp_path):
    async def scenario(world, node):
        stream = await node.new_stream()
        trim, begun, go_on = node.engine._wal.trim, asyncio.Event(), asyncio.Event()

        async def slow_trim(position):
            begun.set()
            await go_on.wait()
            await trim(position)

        node.engine._wal.trim = slow_trim
        await node.append(stream, b"x")
        closing = asyncio.ensure_future(node.engine.close())
        await begun.wait()
        await settled()
        assert not closing.done()
        go_on.set()
        await closing
        assert node.engine.statistics().wal.bytes_untrimmed == 0

    run(tmp_path, scenario)


def test_t17_shutdown_is_not_blocked_by_a_failing_trim(tmp_path, monkeypatch):
    def refuse(self, segment, **_):
        raise PermissionError("no")

    monkeypatch.setattr(LogDirectory, "retire", refuse)

    async def scenario(world, node):
        stream = await node.new_stream()
        for _ in range(20):
            await node.append(stream, bytes(3000))
        await asyncio.wait_for(node.engine.close(), 60)
        assert node.metadata.image.streams[stream.stream_id].end_offset == 20

    run(tmp_path, scenario)


def test_t17_shutdown_drains_appends_that_wait_for_room(tmp_path):
    async def scenario(world, node):
        stream = await node.new_stream()
        held = HeldPuts(node)
        answers = [node.engine.append(stream, bytes(4000), 1) for _ in range(30)]
        assert node.engine.statistics().appends_waiting > 0
        closing = asyncio.ensure_future(node.engine.close())
        await settled()
        held.release()
        await closing
        assert [answer.result() for answer in answers] == list(range(30))
        assert node.metadata.image.streams[stream.stream_id].end_offset == 30

    run(tmp_path, scenario)


def test_closing_twice_and_at_once(tmp_path):
    async def scenario(world, node):
        await node.append(await node.new_stream(), b"x")
        await asyncio.gather(node.engine.close(), node.engine.close())
        await node.engine.close()
        assert node.engine.statistics().state == "CLOSED"

    run(tmp_path, scenario)


def test_who_gives_up_waiting_for_the_end_may_ask_again_and_recovery_does_the_rest(tmp_path):
    async def scenario(world, node):
        stream = await node.new_stream()
        HeldPuts(node)
        await node.append(stream, b"x")
        closing = asyncio.ensure_future(node.engine.close())
        await settled()
        closing.cancel()
        await settled()
        await asyncio.wait_for(node.engine.close(), 60)
        async with world.node() as node:
            again = await node.engine.open_stream(stream.stream_id, 1)
            assert payloads_of(await node.read_all(again)) == [b"x"]

    run(tmp_path, scenario)


@pytest.mark.parametrize("what", ["put", "commit"])
def test_an_engine_that_cannot_commit_fails_says_why_and_still_ends(tmp_path, what):
    async def scenario(world, node):
        stream = await node.new_stream()
        await node.append(stream, b"acknowledged")
        waiter = asyncio.ensure_future(stream.wait_for(1))
        watch = asyncio.ensure_future(node.engine.raise_when_failed())
        await settled()
        assert not watch.done()

        def refuse(*_):
            raise ObjectTruncated("no credentials") if what == "put" else NodeEpochExpired("stop")

        async def refuse_commit(command):
            refuse()

        if what == "put":
            world.store.put = refuse
        else:
            node.engine._pipeline._commit = lambda *_: refuse_commit(None)
        with pytest.raises(EngineNotRunning, match=r"no credentials|stop"):
            await asyncio.wait_for(node.engine.flush(), 60)
        for waiting in (waiter, watch):
            with pytest.raises(EngineNotRunning, match=r"no credentials|stop"):
                await asyncio.wait_for(waiting, 60)
        with pytest.raises(EngineNotRunning, match=r"no credentials|stop"):
            node.engine.append(stream, b"x", 1)
        with pytest.raises(EngineNotRunning):
            await node.engine.close_stream(stream)
        assert payloads_of(await node.engine.read(stream, 0, 100)) == [b"acknowledged"]
        world.clock.advance_ms(200_000)  # a block is not sealed by age any more
        await settled()
        await asyncio.wait_for(node.engine.close(), 60)
        assert node.engine.statistics().state == "FAILED"
        if what == "put":
            del world.store.put
        async with world.node() as node:
            again = await node.engine.open_stream(stream.stream_id, 1)
            assert payloads_of(await node.read_all(again)) == [b"acknowledged"]

    run(tmp_path, scenario)


def test_an_engine_with_nothing_to_do_fails_with_its_metadata(tmp_path):
    async def scenario(world, node):
        watch = asyncio.ensure_future(node.engine.raise_when_failed())
        await settled()
        node.metadata._failed(LogDamaged("entry 7"))
        with pytest.raises(EngineNotRunning, match=r"the metadata service failed: .*entry 7"):
            await asyncio.wait_for(watch, 60)
        with pytest.raises(ServiceClosed, match="entry 7"):
            await node.new_stream()
        await asyncio.wait_for(node.engine.close(), 60)

    run(tmp_path, scenario)


def test_lost_entries_that_the_log_cannot_record_do_not_keep_the_engine_from_ending(tmp_path):
    """The newest metadata is recorded in the write-ahead log, whose bucket or disk may hang then."""

    async def scenario(world, node):
        async def hang(_):
            await asyncio.Event().wait()

        node.engine._wal.claim = hang
        node.metadata._failed(LogDamaged("entry 7"))
        closing = asyncio.ensure_future(node.engine.close())
        await settled()
        assert not closing.done()
        world.clock.advance_ms(SMALL.close_time_limit_ms)
        await asyncio.wait_for(closing, 60)
        await (await world.open()).close()

    run(tmp_path, scenario)


def test_metadata_that_cannot_be_reached_at_the_end_does_not_keep_the_log_locked(tmp_path):
    async def scenario(world, node):
        stream = await node.new_stream()
        await node.append(stream, b"x")
        await node.engine.flush()
        await node.metadata.close()
        await asyncio.wait_for(node.engine.close(), 60)
        async with world.node() as node:
            again = await node.engine.open_stream(stream.stream_id, 1)
            assert payloads_of(await node.read_all(again)) == [b"x"]

    run(tmp_path, scenario)


def test_an_outage_of_the_store_does_not_keep_a_closing_node_and_nothing_is_lost_by_it(tmp_path, caplog):
    async def scenario(world, node):
        stream = await node.new_stream()
        HeldPuts(node)
        answers = [node.engine.append(stream, b"%04d" % number * 750, 1) for number in range(25)]
        await settled()
        waiting = [answer for answer in answers if not answer.done()]
        reader = asyncio.ensure_future(stream.wait_for(100))
        room = asyncio.ensure_future(node.engine.wait_for_room())
        assert 0 < len(waiting) < 25
        closing = asyncio.ensure_future(node.engine.close())
        await settled()
        world.clock.advance_ms(SMALL.close_time_limit_ms - 1)
        await settled()
        assert not closing.done()
        world.clock.advance_ms(1)
        await asyncio.wait_for(closing, 60)
        await room
        for answer in (*waiting, reader):
            with pytest.raises(EngineNotRunning, match="was closed"):
                await answer
        assert "no progress for 15000 ms (close_time_limit_ms)" in caplog.text
        acknowledged = len(answers) - len(waiting)
        async with world.node() as again:
            taken = await again.engine.open_stream(stream.stream_id, 1)
            found = payloads_of(await again.read_all(taken))
            assert found == [b"%04d" % number * 750 for number in range(acknowledged)]

    run(tmp_path, scenario)


def test_an_end_that_is_slow_and_comes_further_is_not_cut(tmp_path):
    async def scenario(world, node):
        stream = await node.new_stream()
        put = world.store.put

        def slow_put(*arguments):
            world.clock.advance_ms(SMALL.close_time_limit_ms - 1)
            put(*arguments)

        world.store.put = slow_put
        for _ in range(15):
            node.engine.append(stream, bytes(4000), 1)
        await asyncio.wait_for(node.engine.close(), 60)
        assert node.metadata.image.streams[stream.stream_id].end_offset == 15
        assert node.metadata.image.streams[stream.stream_id].state is StreamState.CLOSED

    run(tmp_path, scenario)
