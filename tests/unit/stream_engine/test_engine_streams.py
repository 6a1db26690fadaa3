"""Several streams opened and closed together, and those whose deletion is committed."""

import asyncio

import pytest

from siltstone.metadata.client import MetadataClient
from siltstone.metadata.commands import CreateTopic, DeleteTopic
from siltstone.metadata.entities import StreamState
from siltstone.metadata.refusals import PartitionNotExist, StreamFenced, StreamNotExist
from siltstone.metadata.store.port import LogUnavailable
from siltstone.object_store.port import ObjectTruncated
from siltstone.stream_engine.errors import (
    EngineNotRunning,
    StreamAlreadyOpen,
    StreamHandleClosed,
    StreamHeld,
)
from support.engine.engine_world import SMALL, HeldPuts, World, payloads_of, settled
from support.scenarios import in_loop

TOPIC_ID = "a" * 32


def run(tmp_path, scenario) -> None:
    async def main() -> None:
        world = World(tmp_path)
        async with world.node(SMALL) as node:
            await scenario(world, node)

    asyncio.run(main())


async def new_streams(node, count):
    ids = await asyncio.gather(*(node.engine.create_stream() for _ in range(count)))
    return await asyncio.gather(*(node.engine.open_stream(stream_id, 0) for stream_id in ids))


async def new_topic(node):
    """Its data and meta stream, open."""
    engine = node.engine
    topic = await node.metadata.execute(CreateTopic(engine.node_id, engine.node_epoch, "t", TOPIC_ID, 1))
    (partition,) = topic.partitions
    return [
        await engine.open_stream(stream_id, 0)
        for stream_id in (partition.data_stream_id, partition.meta_stream_id)
    ]


async def delete_topic(node):
    await node.metadata.execute(DeleteTopic(node.engine.node_id, node.engine.node_epoch, TOPIC_ID))


def blocks_committed(node) -> int:
    return node.engine.statistics().upload.blocks_committed


def test_streams_opened_at_once_share_an_append_of_the_metadata(tmp_path):
    async def scenario(world, node):
        before = world.log.head().version
        await new_streams(node, 50)
        assert world.log.head().version - before == 2, "one for the creations, one for the openings"

    run(tmp_path, scenario)


def test_streams_are_closed_with_one_seal_and_one_append_of_the_metadata(tmp_path):
    async def scenario(world, node):
        streams = await new_streams(node, 20)
        for stream in streams:
            node.engine.append(stream, b"x", 1)
        await settled()
        before = world.log.head().version
        await node.engine.close_streams(streams)
        assert blocks_committed(node) == 1
        assert world.log.head().version - before == 3, "prepare, commit, close"
        states = {node.metadata.image.streams[stream.stream_id].state for stream in streams}
        assert states == {StreamState.CLOSED}
        assert node.engine.statistics().streams_open == 0
        await node.engine.close_streams(streams)
        assert world.log.head().version - before == 3

    run(tmp_path, scenario)


def test_streams_that_are_committed_are_closed_without_a_seal(tmp_path):
    async def scenario(world, node):
        stream, other = await new_streams(node, 2)
        await node.append(stream, b"x")
        await node.engine.flush()
        await node.append(other, b"y")
        await node.engine.close_streams([stream])
        assert blocks_committed(node) == 1
        await node.engine.close_streams([other])
        assert blocks_committed(node) == 2

    run(tmp_path, scenario)


@pytest.mark.parametrize("where", ["active", "sealed", "on its way to the log", "waiting for room"])
def test_rule_3_a_stream_is_given_back_when_all_of_it_is_committed_wherever_it_is(tmp_path, where):
    """Also when a trim went past all of it, and the metadata already has the end it will have."""

    async def scenario(world, node):
        stream, other = await new_streams(node, 2)
        held = HeldPuts(node)
        if where == "waiting for room":
            for _ in range(17):
                node.engine.append(other, bytes(3000), 1)
        answer = node.engine.append(stream, b"x", 1)
        assert node.engine.has_waiting_appends == (where == "waiting for room")
        if where in ("active", "sealed"):
            await answer
            await node.engine.trim(stream, 1)
        if where == "sealed":
            flushed = asyncio.ensure_future(node.engine.flush())
            await settled()
            assert held.puts == 1
        closing = asyncio.ensure_future(node.engine.close_streams([stream]))
        await settled()
        assert not closing.done()
        assert node.metadata.image.streams[stream.stream_id].state is StreamState.OPENED
        held.release()
        await closing
        assert node.metadata.image.streams[stream.stream_id].end_offset == 1
        assert not node.engine._cache.has_uncommitted(stream.stream_id)
        if where == "sealed":
            await flushed

    run(tmp_path, scenario)


def test_one_stream_that_cannot_be_given_back_keeps_none_of_the_others(tmp_path):
    async def scenario(world, node):
        streams = await new_streams(node, 3)
        streams[1].epoch = -1  # as if another node had taken it over
        with pytest.raises(StreamFenced):
            await node.engine.close_streams(streams)
        states = [node.metadata.image.streams[stream.stream_id].state for stream in streams]
        assert states == [StreamState.CLOSED, StreamState.OPENED, StreamState.CLOSED]

    run(tmp_path, scenario)


@in_loop
async def test_after_a_failure_only_what_is_closed_already_closes(tmp_path) -> None:
    world = World(tmp_path)
    node = await world.open()
    streams = await new_streams(node, 2)
    await node.engine.close_streams(streams[:1])
    node.engine._fail(RuntimeError("a reason"))
    await node.engine.close_streams(streams[:1])
    with pytest.raises(EngineNotRunning, match="a reason"):
        await node.engine.close_streams(streams)
    await node.close()


# -- streams whose deletion is committed -----------------------------------------------------------------


def test_a_forgotten_stream_takes_nothing_more_wakes_who_waits_and_waits_for_nothing(tmp_path):
    async def scenario(world, node):
        data, meta = await new_topic(node)
        held = HeldPuts(node)
        await node.append(data, b"cached")
        sealed = asyncio.ensure_future(node.engine.flush())
        await settled()
        on_its_way = node.engine.append(data, b"x", 1)
        waiter = asyncio.ensure_future(meta.wait_for(0))
        heard = []
        data.watch(lambda: heard.append(data.is_closed))
        await delete_topic(node)
        for stream in (data, meta, meta):
            node.engine.forget_stream(stream)
        assert heard[-1] is True
        await waiter
        with pytest.raises(StreamHandleClosed):
            await meta.wait_for(0)
        with pytest.raises(StreamHandleClosed):
            node.engine.append(data, b"late", 1)
        assert await on_its_way == 1, "what was under way is answered"
        assert node.engine.statistics().streams_open == 0
        held.release()
        await sealed
        other = await node.new_stream()
        assert await node.append(other, b"others continue") == 0
        await node.engine.flush()
        assert set(node.metadata.image.streams) == {other.stream_id}
        with pytest.raises(StreamNotExist):
            await node.engine.open_stream(data.stream_id, 1)

    run(tmp_path, scenario)


def test_appends_that_wait_for_room_at_a_forgotten_stream_are_answered(tmp_path):
    async def scenario(world, node):
        data, _ = await new_topic(node)
        held = HeldPuts(node)
        answers = [node.engine.append(data, bytes(3000), 1) for _ in range(20)]
        assert node.engine.has_waiting_appends
        await delete_topic(node)
        node.engine.forget_stream(data)
        held.release()
        assert await world.passing(asyncio.gather(*answers)) == list(range(20))
        assert node.engine.statistics().state == "RUNNING"

    run(tmp_path, scenario)


def test_closing_what_was_deleted_meanwhile_is_no_fault(tmp_path, caplog):
    async def scenario(world, node):
        data, _ = await new_topic(node)
        await node.append(data, b"x")
        await delete_topic(node)
        await node.engine.close_stream(data)
        assert node.engine.statistics().streams_open == 1
        await node.engine.close()
        assert node.engine.statistics().streams_open == 0

    run(tmp_path, scenario)
    assert "before everything was uploaded" not in caplog.text


@pytest.mark.parametrize("appended_after", [False, True])
@in_loop
async def test_recovery_passes_over_what_the_log_holds_of_a_deleted_topic(tmp_path, appended_after) -> None:
    """It is neither uploaded nor lost, and what else the log holds is recovered."""
    world = World(tmp_path)
    node = await world.open()
    data, _ = await new_topic(node)
    other = await node.new_stream()
    HeldPuts(node)
    for number in range(5):
        await node.append(data, b"dead %d" % number)
        await node.append(other, b"alive %d" % number)
    await delete_topic(node)
    if appended_after:  # its handle is not forgotten yet
        await node.append(data, b"dead")
    world.crash(node.calls)
    async with world.node() as again:
        stream = await again.engine.open_stream(other.stream_id, 1)
        assert payloads_of(await again.read_all(stream)) == [b"alive %d" % number for number in range(5)]
        assert set(again.metadata.image.streams) == {other.stream_id}


@in_loop
async def test_recovery_passes_over_a_topic_that_is_deleted_between_its_attempts(tmp_path) -> None:
    """The first attempt cannot upload. A tool that speaks for the node deletes the topic, then it starts again."""
    world = World(tmp_path)
    node = await world.open()
    data, _ = await new_topic(node)
    HeldPuts(node)
    await node.append(data, b"dead")
    world.crash(node.calls)

    def refuse(*_):
        raise ObjectTruncated("no such thing")

    world.store.put = refuse
    with pytest.raises(EngineNotRunning, match="no such thing"):
        await world.open()
    del world.store.put
    client = MetadataClient(world.log, world.clock, world.rng)
    client.execute(DeleteTopic(0, client.image.nodes[0].node_epoch, TOPIC_ID))
    async with world.node() as again:
        assert not again.metadata.image.streams


def test_a_stream_has_the_tags_it_was_created_with(tmp_path):
    async def scenario(world, node):
        tagged, plain = await node.engine.create_stream({"topic": "t"}), await node.engine.create_stream()
        streams = node.metadata.image.streams
        assert (streams[tagged].tags, streams[plain].tags) == ({"topic": "t"}, {})

    run(tmp_path, scenario)


def test_a_held_stream_takes_no_appends_and_is_read_until_it_is_released(tmp_path):
    async def scenario(world, node):
        (stream,) = await new_streams(node, 1)
        under_way = node.engine.append(stream, b"before", 1)
        stream.hold()
        with pytest.raises(StreamHeld):
            node.engine.append(stream, b"held", 1)
        assert await under_way == 0
        assert stream.next_offset == 1
        assert payloads_of(await node.engine.read(stream, 0, 100)) == [b"before"]
        await node.engine.flush()
        stream.release()
        assert await node.append(stream, b"after") == 1

    run(tmp_path, scenario)


def test_both_streams_of_a_partition_are_opened_by_one_command_and_once(tmp_path):
    async def scenario(world, node):
        topic = await node.metadata.execute(CreateTopic(0, node.engine.node_epoch, "t", TOPIC_ID, 1))
        partition = topic.partitions[0]
        stream_ids = (partition.data_stream_id, partition.meta_stream_id)
        version = node.metadata.image.version
        data, meta = await node.engine.open_partition(TOPIC_ID, 0, stream_ids)
        assert node.metadata.image.version == version + 1
        assert (data.stream_id, meta.stream_id) == stream_ids
        with pytest.raises(StreamAlreadyOpen):
            await node.engine.open_partition(TOPIC_ID, 0, stream_ids)
        await node.engine.close_streams([data, meta])
        with pytest.raises(PartitionNotExist):
            await node.engine.open_partition(TOPIC_ID, 1, stream_ids)
        again, _ = await node.engine.open_partition(TOPIC_ID, 0, stream_ids)
        assert again.epoch == data.epoch + 1

    run(tmp_path, scenario)


@pytest.mark.parametrize("is_recorded", [True, False])
def test_a_partition_whose_closing_failed_is_opened_again(tmp_path, monkeypatch, is_recorded):
    """The metadata log was out when the streams were to be closed: the entries were written or not."""

    async def scenario(world, node):
        topic = await node.metadata.execute(CreateTopic(0, node.engine.node_epoch, "t", TOPIC_ID, 1))
        partition = topic.partitions[0]
        stream_ids = (partition.data_stream_id, partition.meta_stream_id)
        streams = await node.engine.open_partition(TOPIC_ID, 0, stream_ids)
        execute = node.metadata.execute

        async def without_answer(command):
            if is_recorded:
                await execute(command)
            raise LogUnavailable("out")

        with monkeypatch.context() as out:
            out.setattr(node.metadata, "execute", without_answer)
            with pytest.raises(LogUnavailable):
                await node.engine.close_streams(streams)
        data, _ = await node.engine.open_partition(TOPIC_ID, 0, stream_ids)
        assert data.epoch == streams[0].epoch + 1
        assert await node.append(data, b"continues") == 0

    run(tmp_path, scenario)


def test_a_stream_that_another_node_opened_since_its_closing_failed_is_forgotten(tmp_path, monkeypatch):
    async def scenario(world, node):
        (stream,) = await new_streams(node, 1)
        stream.epoch -= 1  # as if another node had opened it since
        with pytest.raises(StreamFenced):
            await node.engine.close_stream(stream)
        assert node.engine.statistics().streams_open == 0

    run(tmp_path, scenario)
