"""Another node takes over for a dead one: claims, replay, closing; with its log in the bucket and in files."""

import asyncio

import pytest
from msgspec.structs import replace

from siltstone.metadata.commands import ClaimFailover, CreateTopic, FenceNode, OpenPartition
from siltstone.metadata.entities import NO_NODE, StreamState
from siltstone.metadata.refusals import FailoverUnderWay, NodeInUse, NodeSuspended
from siltstone.metadata.store_id import store_id_of
from siltstone.model.errors import Fenced
from siltstone.object_formats.log_file import DamagedWal
from siltstone.object_formats.wal_object import wal_object_key
from siltstone.object_store.buckets import Buckets
from siltstone.object_store.port import StoreDenied
from siltstone.stream_engine.components import EngineComponents
from siltstone.stream_engine.errors import EngineNotRunning
from siltstone.stream_engine.failing_over import FailoverDone, FailoverStuck, fail_over
from siltstone.stream_engine.wal.opening import WalOutOfReach, open_wal_of
from siltstone.stream_engine.wal.port import WalInUse
from support.engine.engine_world import SMALL, FreezableCalls, HeldPuts, Node, World, payloads_of, settled

DEAD = 0
PAYLOADS = [b"%d|" % number * 40 for number in range(10)]


def run(scenario) -> None:
    asyncio.run(asyncio.wait_for(scenario(), 60))


async def opened(world: World, node_id: int, calls: FreezableCalls | None = None) -> Node:
    settings = replace(SMALL, node_id=node_id)
    folder = world.folder / f"node-{node_id}"
    return await world.passing(world.open(settings, calls=calls, wal=folder))


async def appended(world: World, node: Node) -> int:
    """Acknowledged by a node that can upload nothing. → The stream's id."""
    stream = await node.new_stream()
    HeldPuts(node)
    for payload in PAYLOADS:
        await world.passing(node.append(stream, payload), step_ms=20)
    return stream.stream_id


async def dies(world: World, node: Node) -> None:
    """Killed; a lock that it had is free."""
    node.calls.is_frozen = True
    directory = getattr(world.newest_log, "_directory", None)
    if directory is not None:
        directory.close()


def components_of(world: World, node: Node, calls: FreezableCalls) -> EngineComponents:
    buckets = Buckets({0: world.store})
    image = node.metadata.image
    store_id = store_id_of(image)
    assert store_id is not None
    wal = open_wal_of(image.nodes[DEAD], SMALL.wal, buckets, store_id, calls, world.clock, world.rng)
    return EngineComponents(node.metadata, buckets, wal, node.reader, calls, world.clock)


async def failed_over(world: World, node: Node, calls: FreezableCalls | None = None) -> FailoverDone:
    components = components_of(world, node, calls or FreezableCalls())
    location = node.metadata.image.nodes[DEAD].wal_location
    settings = replace(SMALL, node_id=node.engine.node_id)
    try:
        return await world.passing(fail_over(components, settings, DEAD, location))
    finally:
        await world.passing(components.wal.close())


async def fenced(node: Node) -> None:
    await node.metadata.execute(FenceNode(DEAD, node.metadata.image.nodes[DEAD].node_epoch))


async def read_at(world: World, node: Node, stream_id: int) -> list[bytes]:
    stream = await node.engine.open_stream(stream_id, node.metadata.image.streams[stream_id].epoch + 1)
    return payloads_of(await world.passing(node.read_all(stream)))


@pytest.mark.parametrize("in_bucket", [True, False])
def test_fo01_fo02_what_the_dead_node_acknowledged_is_read_at_another(tmp_path, in_bucket):
    async def scenario():
        world = World(tmp_path, wal_in_bucket=in_bucket)
        dead = await opened(world, DEAD)
        stream_id = await appended(world, dead)
        await dies(world, dead)
        other = await opened(world, 1)
        await fenced(other)
        done = await failed_over(world, other)
        assert (done.node_id, done.node_epoch, done.streams_closed) == (DEAD, 2, 1)
        image = other.metadata.image
        assert image.streams[stream_id].state is StreamState.CLOSED
        assert image.nodes[DEAD].claimed_by == NO_NODE
        assert await read_at(world, other, stream_id) == PAYLOADS
        await world.passing(other.close())

    run(scenario)


def test_fo08_a_node_that_was_fenced_wrongly_and_failed_over_acknowledges_nothing_more(tmp_path):
    async def scenario():
        world = World(tmp_path, wal_in_bucket=True)
        wrong = await opened(world, DEAD)
        stream_id = await appended(world, wrong)
        stream = wrong.engine._streams[stream_id]
        other = await opened(world, 1)
        await fenced(other)
        await failed_over(world, other)
        with pytest.raises(EngineNotRunning, match="taken over"):
            await world.passing(wrong.append(stream, b"late"))
        assert await read_at(world, other, stream_id) == PAYLOADS
        await world.passing(wrong.close())
        await world.passing(other.close())

    run(scenario)


def test_fo10_the_log_in_files_of_a_live_process_is_not_taken(tmp_path):
    async def scenario():
        world = World(tmp_path)
        live = await opened(world, DEAD)
        other = await opened(world, 1)
        await fenced(other)
        with pytest.raises(WalInUse):
            await failed_over(world, other)
        assert other.metadata.image.nodes[DEAD].claimed_by == NO_NODE
        await world.passing(live.close())
        await world.passing(other.close())

    run(scenario)


def test_a_live_node_is_not_failed_over_and_a_log_elsewhere_cannot_be(tmp_path):
    async def scenario():
        world = World(tmp_path, wal_in_bucket=True)
        live, other = await opened(world, DEAD), await opened(world, 1)
        with pytest.raises(NodeInUse):
            await failed_over(world, other)
        dead = other.metadata.image.nodes[DEAD]
        for location in ("file:///on/another/machine", "bucket:7/wal/88/0", "nowhere"):
            with pytest.raises(WalOutOfReach, match="start that node"):
                open_wal_of(
                    replace(dead, wal_location=location), SMALL.wal, Buckets({0: world.store}), "ab" * 16,
                    FreezableCalls(), world.clock, world.rng,
                )  # fmt: skip
        await world.passing(live.close())
        await world.passing(other.close())

    run(scenario)


def test_fo05_of_two_recoverers_one_works(tmp_path):
    async def scenario():
        world = World(tmp_path, wal_in_bucket=True)
        dead = await opened(world, DEAD)
        stream_id = await appended(world, dead)
        await dies(world, dead)
        first, second = await opened(world, 1), await opened(world, 2)
        await fenced(first)
        held, location = FreezableCalls(), "bucket:0/wal/88/0"
        working = asyncio.ensure_future(
            fail_over(components_of(world, first, held), replace(SMALL, node_id=1), DEAD, location)
        )
        while first.metadata.image.nodes[DEAD].claimed_by != 1:
            assert not working.done()
            await asyncio.sleep(0)
        held.is_frozen = True
        await second.metadata.refresh()
        with pytest.raises(FailoverUnderWay):
            await failed_over(world, second)
        await second.metadata.execute(FenceNode(1, 1))
        await failed_over(world, second)
        assert await read_at(world, second, stream_id) == PAYLOADS
        held.is_frozen = False
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
        await world.passing(second.close())

    run(scenario)


@pytest.mark.parametrize("crash_at", range(1, 26, 2))
def test_fo06_a_recoverer_that_dies_at_any_call_is_followed_by_another(tmp_path, crash_at):
    async def scenario():
        world = World(tmp_path, wal_in_bucket=True)
        dead = await opened(world, DEAD)
        stream_id = await appended(world, dead)
        await dies(world, dead)
        first = await opened(world, 1)
        await fenced(first)
        calls, left = FreezableCalls(), crash_at

        def count_down(_):
            nonlocal left
            left -= 1
            if left == 0:
                calls.is_frozen = first.calls.is_frozen = True

        calls.before_call = count_down
        location = "bucket:0/wal/88/0"
        dying = asyncio.ensure_future(
            fail_over(components_of(world, first, calls), replace(SMALL, node_id=1), DEAD, location)
        )
        while not (dying.done() or calls.is_frozen):
            world.clock.advance_ms(10)
            await asyncio.sleep(0)
        second = await opened(world, 2)
        await second.metadata.execute(FenceNode(1, 1))
        await failed_over(world, second)
        assert await read_at(world, second, stream_id) == PAYLOADS
        dying.cancel()
        await world.passing(second.close())

    run(scenario)


class PausableCalls(FreezableCalls):
    """As those of a process that is stopped by SIGSTOP and continues after SIGCONT."""

    def __init__(self) -> None:
        super().__init__()
        self._woken = asyncio.Event()

    async def _stop_when_frozen(self) -> None:
        if self.is_frozen:
            await self._woken.wait()

    def wake(self) -> None:
        self.is_frozen = False
        self._woken.set()


@pytest.mark.parametrize("stopped_at", range(1, 26, 2))
def test_fo07_a_recoverer_that_is_stopped_at_any_call_and_wakes_later_changes_nothing(tmp_path, stopped_at):
    async def scenario():
        world = World(tmp_path, wal_in_bucket=True)
        dead = await opened(world, DEAD)
        stream_id = await appended(world, dead)
        await dies(world, dead)
        own, calls, left = PausableCalls(), PausableCalls(), stopped_at
        first = await opened(world, 1, own)
        await fenced(first)

        def count_down(_):
            nonlocal left
            left -= 1
            if left == 0:
                calls.is_frozen = own.is_frozen = True

        calls.before_call = count_down
        location = "bucket:0/wal/88/0"
        stopped = asyncio.ensure_future(
            fail_over(components_of(world, first, calls), replace(SMALL, node_id=1), DEAD, location)
        )
        while not (stopped.done() or calls.is_frozen):
            world.clock.advance_ms(10)
            await asyncio.sleep(0)
        second = await opened(world, 2)
        await second.metadata.execute(FenceNode(1, 1))
        if second.metadata.image.streams[stream_id].state is StreamState.OPENED:
            await failed_over(world, second)
        before = second.metadata.image
        calls.wake()
        own.wake()
        outcome = await asyncio.gather(world.passing(stopped), return_exceptions=True)
        assert left > 0 or isinstance(outcome[0], Fenced | NodeSuspended | EngineNotRunning), outcome
        after = await second.metadata.refresh()
        assert after.nodes[DEAD].node_epoch == before.nodes[DEAD].node_epoch
        assert after.streams[stream_id].ranges == before.streams[stream_id].ranges
        assert {held.object_id for held in after.streams[stream_id].ranges} <= after.objects.keys()
        assert await read_at(world, second, stream_id) == PAYLOADS
        await world.passing(second.close())

    run(scenario)


def test_fo14_a_damaged_log_is_left_closed_to_others_and_the_claim_given_back(tmp_path):
    async def scenario():
        world = World(tmp_path, wal_in_bucket=True)
        dead = await opened(world, DEAD)
        stream_id = await appended(world, dead)
        await dies(world, dead)
        key = wal_object_key(DEAD, 1, 3)
        kept = world.store._objects[key]
        world.store._objects[key] = kept._replace(content=kept.content[:-1])
        keys = world.keys()
        other = await opened(world, 1)
        await fenced(other)
        with pytest.raises(DamagedWal, match=key):
            await failed_over(world, other)
        image = other.metadata.image
        assert image.nodes[DEAD].claimed_by == NO_NODE
        assert image.streams[stream_id].state is StreamState.OPENED
        assert keys <= world.keys()
        world.store._objects[key] = kept
        await failed_over(world, other)
        assert await read_at(world, other, stream_id) == PAYLOADS
        await world.passing(other.close())

    run(scenario)


def test_fo23_a_recoverer_that_cannot_upload_gives_the_claim_back(tmp_path):
    async def scenario():
        world = World(tmp_path, wal_in_bucket=True)
        dead = await opened(world, DEAD)
        stream_id = await appended(world, dead)
        await dies(world, dead)
        other = await opened(world, 1)
        await fenced(other)

        def refuse(*_):
            raise StoreDenied("objects are refused")

        world.store.put = refuse
        with pytest.raises(FailoverStuck, match="claim is withdrawn"):
            await failed_over(world, other)
        assert other.metadata.image.nodes[DEAD].claimed_by == NO_NODE
        del world.store.put
        await failed_over(world, other)
        assert await read_at(world, other, stream_id) == PAYLOADS
        await world.passing(other.close())

    run(scenario)


def test_a_recoverer_waits_for_a_bucket_that_refuses_for_a_moment(tmp_path):
    async def scenario():
        world = World(tmp_path, wal_in_bucket=True)
        dead = await opened(world, DEAD)
        stream_id = await appended(world, dead)
        await dies(world, dead)
        other = await opened(world, 1)
        await fenced(other)
        refused_until_ms = world.clock.monotonic_ms() + 15_000
        put = world.store.put

        def refuse_for_now(*arguments):
            if world.clock.monotonic_ms() < refused_until_ms:
                raise StoreDenied("objects are refused")
            return put(*arguments)

        world.store.put = refuse_for_now
        assert (await failed_over(world, other)).streams_closed == 1
        assert world.clock.monotonic_ms() >= refused_until_ms
        assert await read_at(world, other, stream_id) == PAYLOADS
        await world.passing(other.close())

    run(scenario)


def test_the_dead_node_returns_with_an_empty_log_and_its_partitions_are_elsewhere(tmp_path):
    async def scenario():
        world = World(tmp_path, wal_in_bucket=True)
        dead = await opened(world, DEAD)
        other = await opened(world, 1)
        topic = await other.metadata.execute(CreateTopic(1, 1, "t", "ab" * 16, 4, leaders=(DEAD, DEAD, 1, 1)))
        await dead.metadata.execute(OpenPartition(DEAD, 1, topic.topic_id, 0))
        await dies(world, dead)
        await fenced(other)
        done = await failed_over(world, other)
        assert (done.streams_closed, done.partitions_placed) == (2, 2)
        assert {each.leader for each in other.metadata.image.topics[topic.topic_id].partitions} == {1}
        back = await opened(world, DEAD)
        assert back.engine.node_epoch == 3
        await world.passing(back.close())
        await world.passing(other.close())

    run(scenario)


def test_a_node_that_starts_during_its_failover_waits_for_its_end(tmp_path, caplog):
    async def scenario():
        world = World(tmp_path, wal_in_bucket=True)
        dead = await opened(world, DEAD)
        stream_id = await appended(world, dead)
        await dies(world, dead)
        other = await opened(world, 1)
        await fenced(other)
        await other.metadata.execute(ClaimFailover(1, 1, DEAD))
        starting = asyncio.ensure_future(world.open(replace(SMALL, node_id=DEAD)))
        for _ in range(30):
            await settled()
            world.clock.advance_ms(100)
        assert not starting.done()
        assert [each for each in caplog.messages if "waits before it registers" in each]
        assert other.metadata.image.nodes[DEAD].node_epoch == 1
        await failed_over(world, other)
        back = await world.passing(starting)
        assert back.engine.node_epoch == 3
        assert await read_at(world, other, stream_id) == PAYLOADS
        await world.passing(back.close())
        await world.passing(other.close())

    run(scenario)


def test_fo23_a_log_that_cannot_be_sealed_is_given_back(tmp_path):
    async def scenario():
        world = World(tmp_path, wal_in_bucket=True)
        dead = await opened(world, DEAD)
        stream_id = await appended(world, dead)
        await dies(world, dead)
        other = await opened(world, 1)
        await fenced(other)
        calls = FreezableCalls()

        def hang_at_the_seal(name):
            calls.is_frozen = other.metadata.image.nodes[DEAD].failover

        calls.before_call = hang_at_the_seal
        with pytest.raises(FailoverStuck, match="sealed"):
            await world.passing(
                fail_over(
                    components_of(world, other, calls), replace(SMALL, node_id=1), DEAD, "bucket:0/wal/88/0"
                )
            )
        assert other.metadata.image.nodes[DEAD].claimed_by == NO_NODE
        await failed_over(world, other)
        assert await read_at(world, other, stream_id) == PAYLOADS
        await world.passing(other.close())

    run(scenario)


def test_fo18_when_all_have_died_the_one_that_returns_recovers_itself_and_then_the_other(tmp_path):
    async def scenario():
        world = World(tmp_path, wal_in_bucket=True)
        dead = await opened(world, DEAD)
        other = await opened(world, 1)
        streams = [await appended(world, node) for node in (dead, other)]
        for node in (dead, other):
            await dies(world, node)
        back = await opened(world, 1)
        image = back.metadata.image
        assert [image.streams[each].state for each in streams] == [StreamState.OPENED, StreamState.CLOSED]
        await fenced(back)
        await failed_over(world, back)
        for stream_id in streams:
            assert await read_at(world, back, stream_id) == PAYLOADS
        await world.passing(back.close())

    run(scenario)


class HeldBulks(FreezableCalls):
    """The puts of a node's log wait, from ``hold`` on: before they are made, or, if they land, for their answers."""

    def __init__(self, lands: bool) -> None:
        super().__init__()
        self._lands = lands
        self._is_holding = False
        self.waiting = 0
        self._released = asyncio.Event()

    def hold(self) -> None:
        self._is_holding = True

    def release(self) -> None:
        self._released.set()

    async def run(self, call, *args, **kwargs):
        if not self._is_holding or getattr(call, "__name__", "") != "put_if_absent":
            return await super().run(call, *args, **kwargs)
        if self._lands:
            answer = await super().run(call, *args, **kwargs)
        self.waiting += 1
        await self._released.wait()
        return answer if self._lands else await super().run(call, *args, **kwargs)


@pytest.mark.parametrize("lands", [True, False])
def test_fo24_the_first_bulk_of_a_life_is_recovered_or_meets_the_seal(tmp_path, lands):
    async def scenario():
        world = World(tmp_path, wal_in_bucket=True)
        calls = HeldBulks(lands)
        wrong = await opened(world, DEAD, calls)
        stream = await wrong.new_stream()
        calls.hold()
        appending = asyncio.ensure_future(wrong.append(stream, b"first"))
        while not calls.waiting:
            world.clock.advance_ms(20)
            await settled()
        other = await opened(world, 1)
        await fenced(other)
        await failed_over(world, other)
        calls.release()
        if lands:
            assert await world.passing(appending) == 0
        else:
            with pytest.raises(EngineNotRunning, match="taken over"):
                await world.passing(appending)
        assert await read_at(world, other, stream.stream_id) == ([b"first"] if lands else [])
        await world.passing(wrong.close())
        await world.passing(other.close())

    run(scenario)
