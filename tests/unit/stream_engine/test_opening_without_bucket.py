"""A start while the bucket refuses or hangs: the log is carried into the new life, and nothing acknowledged is lost."""

import asyncio

import pytest

from siltstone.metadata.entities import StreamState
from siltstone.metadata.refusals import NodeLogBehind
from siltstone.object_store.port import StoreDenied
from siltstone.stream_engine.opening import UPLOAD_PATIENCE_MS
from siltstone.stream_engine.settings import EngineSettings
from support.engine.engine_world import SMALL, SMALL_WAL, FreezableCalls, HeldPuts, World, payloads_of


def run(scenario) -> None:
    asyncio.run(asyncio.wait_for(scenario(), 60))


class Outage:
    """A world whose bucket refuses every put until ``end``, after a crash with records that only the log holds."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.sent: dict[int, list[bytes]] = {}
        self._count = 0

    async def crashed_node(self, appends: int = 25) -> None:
        node = await self.world.open()
        HeldPuts(node)
        await self.append(node, [await node.new_stream() for _ in range(3)], appends)
        self.world.crash(node.calls)
        self.begin()

    def begin(self) -> None:
        def refuse(*_):
            raise StoreDenied("no credentials")

        self.world.store.put = refuse

    def end(self) -> None:
        del self.world.store.put

    async def open(self, **options) -> object:
        return await self.world.passing(self.world.open(**options))

    async def append(self, node, streams, count: int) -> None:
        for _ in range(count):
            stream = streams[self._count % len(streams)]
            payload = (b"%d|" % self._count) * 100
            self._count += 1
            await node.append(stream, payload)
            self.sent.setdefault(stream.stream_id, []).append(payload)

    async def streams_read_back(self, node, epoch: int) -> list:
        streams = [await node.engine.open_stream(stream_id, epoch) for stream_id in self.sent]
        for stream in streams:
            assert payloads_of(await node.read_all(stream)) == self.sent[stream.stream_id]
        return streams


def test_records_are_read_and_appended_before_the_bucket_grants_and_uploaded_after(tmp_path, caplog):
    async def scenario():
        world = World(tmp_path)
        outage = Outage(world)
        await outage.crashed_node()
        node = await outage.open()
        streams = await outage.streams_read_back(node, epoch=0)
        await outage.append(node, streams, 10)
        statistics = node.engine.statistics()
        assert (statistics.state, statistics.readiness) == ("RUNNING", "filling")
        assert "no credentials" in statistics.reason and "permission to write" in statistics.reason
        assert "The node starts all the same" in caplog.text
        assert not world.keys()
        outage.end()
        await world.passing(node.engine.flush())
        assert node.engine.statistics().readiness == "ready"
        for stream in streams:
            assert payloads_of(await node.read_all(stream)) == outage.sent[stream.stream_id]
        await node.close()
        assert node.engine.is_clean
        async with world.node() as node:
            await outage.streams_read_back(node, epoch=1)
            assert node.engine.statistics().wal.bytes_untrimmed == 0

    run(scenario)


@pytest.mark.parametrize("lives", [1, 2, 4])
def test_crashes_in_a_row_during_one_outage_lose_nothing(tmp_path, lives):
    async def scenario():
        world = World(tmp_path)
        outage = Outage(world)
        await outage.crashed_node(20)
        for _ in range(lives):
            node = await outage.open()
            await outage.append(node, await outage.streams_read_back(node, epoch=0), 7)
            world.crash(node.calls)
        outage.end()
        async with world.node() as node:
            states = {stream.state for stream in node.metadata.image.streams.values()}
            assert states == {StreamState.CLOSED}
            await outage.streams_read_back(node, epoch=1)

    run(scenario)


@pytest.mark.parametrize("crash_at", range(1, 60, 2))
def test_a_crash_at_any_call_after_the_outage_loses_nothing(tmp_path, crash_at):
    """Uploads of old and new blocks, commits, and the deletion of the old log files: each is a call."""

    async def scenario():
        world = World(tmp_path)
        outage = Outage(world)
        await outage.crashed_node()
        calls = FreezableCalls()
        node = await outage.open(calls=calls)
        await outage.append(node, await outage.streams_read_back(node, epoch=0), 10)
        left = crash_at

        def count_down(_):
            nonlocal left
            left -= 1
            if left == 0:
                world.crash(calls)

        calls.before_call = count_down
        outage.end()
        ending = asyncio.ensure_future(world.passing(node.close()))
        while not (ending.done() or calls.is_frozen):
            await asyncio.sleep(0)
        ending.cancel()  # else time passes for the next life, and it starts without waiting for its bucket
        async with world.node() as after:
            await outage.streams_read_back(after, epoch=1)

    run(scenario)


def test_a_bucket_that_never_answers_does_not_keep_a_node_from_starting(tmp_path):
    class HangingPuts(FreezableCalls):
        async def run(self, call, *args, **kwargs):
            if getattr(call, "__name__", "") == "put":
                await asyncio.get_running_loop().create_future()
            return await super().run(call, *args, **kwargs)

    async def scenario():
        world = World(tmp_path)
        outage = Outage(world)
        await outage.crashed_node()
        outage.end()
        before_ms = world.clock.monotonic_ms()
        node = await outage.open(calls=HangingPuts())
        assert world.clock.monotonic_ms() - before_ms < 2 * UPLOAD_PATIENCE_MS
        await outage.streams_read_back(node, epoch=0)
        await world.passing(node.engine.close())
        assert not node.engine.is_clean

    run(scenario)


def test_streams_that_nobody_opens_after_the_start_are_closed_with_the_engine(tmp_path):
    async def scenario():
        world = World(tmp_path)
        outage = Outage(world)
        await outage.crashed_node()
        node = await outage.open()
        outage.end()
        await world.passing(node.engine.close())
        assert {stream.state for stream in node.metadata.image.streams.values()} == {StreamState.CLOSED}

    run(scenario)


def test_a_log_that_is_larger_than_the_tail_cache_is_uploaded_before_the_start(tmp_path):
    async def scenario():
        world = World(tmp_path)
        outage = Outage(world)
        await outage.crashed_node(30)
        smaller = EngineSettings(
            tail_cache_bytes_max=16 * 1024, append_bytes_max=4 * 1024, wal=SMALL_WAL, upload=SMALL.upload
        )
        opening = asyncio.ensure_future(world.passing(world.open(smaller), steps_max=1000))
        for _ in range(20_000):
            await asyncio.sleep(0)
        assert not opening.done()
        outage.end()
        node = await opening
        await outage.streams_read_back(node, epoch=0)
        await world.passing(node.engine.close())

    run(scenario)


def test_the_log_of_a_start_without_bucket_is_the_one_that_the_node_needs_next(tmp_path):
    """A copy of the log from before that start lacks what was appended since."""

    async def scenario():
        world = World(tmp_path)
        outage = Outage(world)
        await outage.crashed_node()
        before = world.wal_folder
        world.take_wal_along()
        node = await outage.open()
        await outage.append(node, await outage.streams_read_back(node, epoch=0), 3)
        world.crash(node.calls)
        with pytest.raises(Exception, match="was last used under node epoch 1") as refused:
            await world.open(wal=before)
        assert isinstance(refused.value.__cause__, NodeLogBehind)

    run(scenario)
