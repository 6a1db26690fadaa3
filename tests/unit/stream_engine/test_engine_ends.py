"""Trim, close, delete, seal and failures on a running engine."""

import asyncio
import errno
import os

import pytest

from siltstone.metadata.entities import StreamState
from siltstone.metadata.refusals import StreamFenced, StreamNotClosed, StreamNotExist, StreamNotOpened
from siltstone.stream_engine.errors import (
    EngineNotRunning,
    OffsetBeyondEnds,
    StreamAlreadyOpen,
    StreamHandleClosed,
)
from siltstone.stream_engine.stream import Stream
from support.engine.engine_tests import forget_tail, run
from support.engine.engine_world import SMALL, World, offsets_of, payloads_of, settled
from support.engine.wal_disk import put_disk_in
from support.scenarios import in_loop


def test_trim(tmp_path):
    async def scenario(world, node):
        stream = await node.new_stream()
        for _ in range(10):
            await node.append(stream, b"x" * 100, 10)
        await node.engine.trim(stream, 35)
        assert stream.start_offset == 35
        with pytest.raises(OffsetBeyondEnds, match=r"outside \[35, 100\]"):
            await node.engine.read(stream, 34, 100)
        assert offsets_of(await node.engine.read(stream, 35, 200)) == [(30, 40), (40, 50)]
        await node.engine.trim(stream, 20)
        assert stream.start_offset == 35, "a trim never goes back"
        with pytest.raises(OffsetBeyondEnds, match="it ends at 100"):
            await node.engine.trim(stream, 101)
        await node.engine.flush()
        await forget_tail(node, world)
        assert offsets_of(await node.engine.read(stream, 35, 200)) == [(30, 40), (40, 50)]
        await node.engine.trim(stream, 100)
        assert await node.engine.read(stream, 100, 100) == []
        assert await node.append(stream, b"y", 1) == 100

    run(tmp_path, scenario)


def test_two_trims_at_once_end_with_the_further_one(tmp_path):
    async def scenario(world, node):
        stream = await node.new_stream()
        await node.append(stream, b"x", 100)
        await asyncio.gather(node.engine.trim(stream, 60), node.engine.trim(stream, 50))
        assert stream.start_offset == 60
        assert node.metadata.image.streams[stream.stream_id].start_offset == 60

    run(tmp_path, scenario)


def test_closing_commits_and_gives_the_stream_back(tmp_path):
    async def scenario(world, node):
        stream, other = await node.new_stream(), await node.new_stream()
        answers = [node.engine.append(stream, b"%d" % number, 1) for number in range(10)]
        await node.engine.close_stream(stream)
        assert [answer.result() for answer in answers] == list(range(10))
        metadata = node.metadata.image.streams[stream.stream_id]
        assert (metadata.state, metadata.end_offset) == (StreamState.CLOSED, 10)
        with pytest.raises(StreamHandleClosed):
            node.engine.append(stream, b"late", 1)
        await node.engine.close_stream(stream)
        assert await node.append(other, b"others continue") == 0
        assert payloads_of(await node.read_all(stream)) == [b"%d" % number for number in range(10)]
        with pytest.raises(StreamNotOpened):
            await node.engine.trim(stream, 5)

    run(tmp_path, scenario)


def test_closing_twice_at_once_waits_for_the_commit_both_times(tmp_path):
    async def scenario(world, node):
        stream = await node.new_stream()
        node.engine.append(stream, b"x", 1)

        async def close():
            await node.engine.close_stream(stream)
            return node.metadata.image.streams[stream.stream_id].end_offset

        assert await asyncio.gather(close(), close()) == [1, 1]

    run(tmp_path, scenario)


def test_a_closed_stream_opens_again_with_the_same_or_a_higher_epoch_and_goes_on_at_its_end(tmp_path):
    async def scenario(world, node):
        stream = await node.new_stream(epoch=3)
        await node.append(stream, b"x", 7)
        await node.engine.close_stream(stream)
        again = await node.engine.open_stream(stream.stream_id, 3)
        assert await node.append(again, b"y", 1) == 7
        await node.engine.close_stream(again)
        higher = await node.engine.open_stream(stream.stream_id, 4)
        assert await node.append(higher, b"z", 1) == 8
        assert payloads_of(await node.read_all(higher)) == [b"x", b"y", b"z"]
        await node.engine.close_stream(higher)
        with pytest.raises(StreamFenced):
            await node.engine.open_stream(stream.stream_id, 3)

    run(tmp_path, scenario)


def test_a_stream_is_opened_once_at_a_time_also_when_both_ask_at_once(tmp_path):
    """Two handles would give out the same offsets."""

    async def scenario(world, node):
        stream_id = await node.engine.create_stream()
        both = await asyncio.gather(
            node.engine.open_stream(stream_id, 0),
            node.engine.open_stream(stream_id, 0),
            return_exceptions=True,
        )
        assert {type(one) for one in both} == {Stream, StreamAlreadyOpen}
        with pytest.raises(StreamAlreadyOpen):
            await node.engine.open_stream(stream_id, 0)

    run(tmp_path, scenario)


def test_a_refused_open_can_be_asked_again(tmp_path):
    async def scenario(world, node):
        for _ in range(2):
            with pytest.raises(StreamNotExist):
                await node.engine.open_stream(99, 0)

    run(tmp_path, scenario)


def test_delete(tmp_path):
    async def scenario(world, node):
        stream = await node.new_stream()
        await node.append(stream, b"x", 1)
        with pytest.raises(StreamNotClosed):
            await node.engine.delete_stream(stream.stream_id, 0)
        await node.engine.close_stream(stream)
        await node.engine.delete_stream(stream.stream_id, 0)
        await node.engine.delete_stream(stream.stream_id, 0)
        with pytest.raises(StreamNotExist):
            await node.engine.open_stream(stream.stream_id, 1)

    run(tmp_path, scenario)


def test_a_block_is_sealed_by_age(tmp_path):
    async def scenario(world, node):
        stream = await node.new_stream()
        await node.append(stream, b"x", 1)
        for _ in range(66):
            assert not world.keys()
            world.clock.advance_ms(1000)
            await settled()
            if world.keys():
                break
        assert node.metadata.image.streams[stream.stream_id].end_offset == 1
        assert node.engine.statistics().wal.bytes_untrimmed == 0

    run(tmp_path, scenario)


def test_a_block_is_sealed_by_size(tmp_path):
    async def scenario(world, node):
        stream = await node.new_stream()
        for _ in range(2):
            await node.append(stream, bytes(3000))
        await settled()
        assert not world.keys()
        await node.append(stream, bytes(3000))
        await settled()
        assert len(world.keys()) == 1

    run(tmp_path, scenario)


def test_a_block_is_sealed_by_the_number_of_streams(tmp_path):
    from msgspec.structs import replace

    settings = replace(SMALL, upload=replace(SMALL.upload, cache_block_streams_max=3))

    async def scenario(world, node):
        streams = [await node.new_stream() for _ in range(7)]
        await asyncio.gather(*(node.engine.append(stream, b"x", 1) for stream in streams))
        await settled()
        assert [len(one.ranges) for one in node.metadata.image.objects.values()] == [3, 3]

    run(tmp_path, scenario, settings)


def test_flush_commits_what_was_appended_before_and_trims_the_log(tmp_path):
    async def scenario(world, node):
        stream = await node.new_stream()
        for number in range(5):
            node.engine.append(stream, b"%d" % number, 1)
        await node.engine.flush()
        assert node.metadata.image.streams[stream.stream_id].end_offset == 5
        assert node.engine.statistics().wal.bytes_untrimmed == 0
        await node.engine.flush()

    run(tmp_path, scenario)


def test_rule_2_the_log_is_trimmed_to_the_last_record_of_the_committed_block_and_no_further(tmp_path):
    async def scenario(world, node):
        stream = await node.new_stream()
        await node.append(stream, bytes(1000))
        trims = []
        trim = node.engine._wal.trim

        async def watched(position):
            trims.append((position, node.metadata.image.streams[stream.stream_id].end_offset))
            await trim(position)

        node.engine._wal.trim = watched
        flushed = asyncio.ensure_future(node.engine.flush())
        while not world.keys():
            await asyncio.sleep(0)
        await node.append(stream, bytes(500))  # durable while the block is on its way
        await flushed
        assert trims == [(1000 + 104, 1)], "before the commit, or beyond the block"
        assert node.engine.statistics().wal.bytes_untrimmed == 500 + 104

    run(tmp_path, scenario)


def test_statistics(tmp_path):
    async def scenario(world, node):
        stream = await node.new_stream()
        node.engine.append(stream, b"x" * 10, 1)
        statistics = node.engine.statistics()
        assert (statistics.state, statistics.streams_open) == ("RUNNING", 1)
        assert (statistics.appends_pending, statistics.appends_waiting, statistics.bytes_waiting) == (1, 0, 0)
        await node.engine.flush()
        statistics = node.engine.statistics()
        assert statistics.appends_pending == 0
        assert statistics.wal.appends == 1
        assert statistics.upload.blocks_committed == 1
        assert statistics.tail.bytes_uncommitted == 0
        await node.engine.close()
        assert node.engine.statistics().state == "CLOSED"

    run(tmp_path, scenario)


class FullDisk:
    def __getattr__(self, name):
        return getattr(os, name)

    def pwritev(self, *args):
        raise OSError(errno.EIO, os.strerror(errno.EIO))


@in_loop
async def test_a_log_that_cannot_be_written_fails_appends_waiters_and_what_comes_after_and_recovery_heals(
    tmp_path, monkeypatch
) -> None:
    world = World(tmp_path)
    node = await world.open()
    stream = await node.new_stream()
    assert await node.append(stream, b"before") == 0
    put_disk_in(monkeypatch, FullDisk())
    waiter = asyncio.ensure_future(stream.wait_for(1))
    answers = [node.engine.append(stream, b"lost", 1) for _ in range(3)]
    for answer in answers:
        with pytest.raises(EngineNotRunning, match="Input/output error"):
            await answer
    with pytest.raises(EngineNotRunning, match="Input/output error"):
        await waiter
    with pytest.raises(EngineNotRunning, match="Input/output error"):
        node.engine.append(stream, b"after", 1)
    for refused in (node.engine.flush(), node.engine.close_stream(stream), node.engine.open_stream(9, 0)):
        with pytest.raises(EngineNotRunning, match="Input/output error"):
            await refused
    statistics = node.engine.statistics()
    assert (statistics.state, statistics.appends_pending) == ("FAILED", 0)
    assert payloads_of(await node.engine.read(stream, 0, 100)) == [b"before"], "reading continues"
    await node.close()
    assert node.engine.statistics().state == "FAILED"
    monkeypatch.undo()
    async with world.node() as node:
        again = await node.engine.open_stream(stream.stream_id, 1)
        assert payloads_of(await node.read_all(again)) == [b"before"]
        assert await node.append(again, b"after") == 1


def test_the_bytes_that_can_be_read_without_objects(tmp_path):
    async def scenario(world, node):
        stream = await node.new_stream()
        for size in (10, 20, 30):
            await node.append(stream, bytes(size))
        cached = [node.engine.cached_bytes(stream, offset) for offset in range(4)]
        assert cached == [60, 50, 30, 0]
        assert len(node.engine.read_cached(stream, 1, 4096)) == 2
        await forget_tail(node, world)
        assert node.engine.cached_bytes(stream, 0) is None
        assert node.engine.read_cached(stream, 0, 4096) is None

    run(tmp_path, scenario)
