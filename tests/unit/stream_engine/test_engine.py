"""Append, read, trim, close, delete on a running engine. Restarts: test_opening. Room: test_engine_room."""

import asyncio
import os
from array import array

import pytest

from siltstone.metadata.entities import StreamState
from siltstone.object_formats.batch_frame import ImpossibleBatch
from siltstone.stream_engine.errors import (
    AppendTooLarge,
    OffsetBeyondEnds,
    PayloadNotBytes,
    ReadRangeNotCovered,
    StreamHandleClosed,
)
from siltstone.stream_engine.stream import Stream
from support.engine.engine_tests import forget_tail, run
from support.engine.engine_world import SMALL, Node, World, offsets_of, payloads_of, settled
from support.engine.wal_disk import put_disk_in
from support.processes.case_names import name_of


def tail_of(node: Node, stream: Stream) -> list[tuple[int, int]]:
    return offsets_of(list(node.engine._cache.suffix(stream.stream_id, 0, stream.confirmed_offset)))


def test_an_append_answers_its_base_offset_and_can_be_read_then(tmp_path):
    async def scenario(world, node):
        stream = await node.new_stream()
        assert await node.append(stream, b"one", 3) == 0
        assert await node.append(stream, b"two", 1) == 3
        assert payloads_of(await node.read_all(stream)) == [b"one", b"two"]
        assert stream.confirmed_offset == 4

    run(tmp_path, scenario)


def test_rule_1_the_answer_comes_when_the_log_is_synced_and_the_batch_stands_in_the_cache(
    tmp_path, monkeypatch
):
    """Answers are looked at in each turn of the loop: none may be there before both are true."""

    async def scenario(world, node):
        stream = await node.new_stream()
        synced = []

        class WatchedOs:
            def __getattr__(self, name):
                return getattr(os, name)

            def fdatasync(self, descriptor):
                os.fdatasync(descriptor)
                synced.append(stream.next_offset)

        put_disk_in(monkeypatch, WatchedOs())
        for offset in range(20):
            synced.clear()
            answer = node.engine.append(stream, b"x" * 100, 1)
            while not answer.done():
                assert stream.confirmed_offset == offset
                await asyncio.sleep(0)
            assert synced, "answered before the sync"
            assert tail_of(node, stream)[-1] == (offset, offset + 1)

    run(tmp_path, scenario)


def test_offsets_are_in_call_order_over_streams(tmp_path):
    async def scenario(world, node):
        streams = [await node.new_stream() for _ in range(3)]
        answers = [node.engine.append(streams[index % 3], b"%d" % index, 2) for index in range(30)]
        assert await asyncio.gather(*answers) == [2 * (index // 3) for index in range(30)]
        for number, stream in enumerate(streams):
            assert payloads_of(await node.read_all(stream)) == [b"%d" % i for i in range(number, 30, 3)]

    run(tmp_path, scenario)


def test_appends_of_one_turn_share_one_sync(tmp_path):
    async def scenario(world, node):
        stream = await node.new_stream()
        before = node.engine.statistics().wal.syncs
        await asyncio.gather(*(node.engine.append(stream, b"x", 1) for _ in range(25)))
        assert node.engine.statistics().wal.syncs == before + 1

    run(tmp_path, scenario)


def test_an_empty_payload_is_a_batch_all_the_same(tmp_path):
    async def scenario(world, node):
        stream = await node.new_stream()
        await node.append(stream, b"", 5)
        await node.append(stream, b"x", 1)
        assert offsets_of(await node.read_all(stream)) == [(0, 5), (5, 6)]
        await forget_tail(node, world)
        assert offsets_of(await node.read_all(stream)) == [(0, 5), (5, 6)]

    run(tmp_path, scenario)


def test_refused_appends_take_no_offset(tmp_path):
    async def scenario(world, node):
        stream = await node.new_stream()
        with pytest.raises(AppendTooLarge, match="append_bytes_max"):
            node.engine.append(stream, bytes(SMALL.append_bytes_max + 1), 1)
        with pytest.raises(ImpossibleBatch):
            node.engine.append(stream, b"x", 0)
        with pytest.raises(ImpossibleBatch):
            node.engine.append(stream, b"x", 1, 0, 2**63)
        assert await node.append(stream, bytes(SMALL.append_bytes_max)) == 0
        assert node.engine.statistics().tail.bytes_uncommitted == SMALL.append_bytes_max + 1024

    run(tmp_path, scenario)


def test_an_append_to_a_stream_that_another_engine_opened_harms_neither(tmp_path):
    async def scenario(world, node):
        stream = await node.new_stream()
        async with World(tmp_path / "other").node() as other:
            await other.new_stream()
            with pytest.raises(StreamHandleClosed, match="another engine opened it"):
                other.engine.append(stream, b"x", 1)
        assert await node.append(stream, b"x") == 0

    run(tmp_path, scenario)


@pytest.mark.parametrize(
    "payload",
    ["text", None, [1], array("i", [1, 2]), memoryview(array("i", [1, 2])), memoryview(b"abcd")[::2]],
    ids=name_of,
)
def test_a_payload_that_is_not_bytes_harms_nobody(tmp_path, payload):
    async def scenario(world, node):
        stream = await node.new_stream()
        with pytest.raises(PayloadNotBytes, match="give bytes, a bytearray or a memoryview"):
            node.engine.append(stream, payload, 1)
        assert await node.append(stream, memoryview(b"ok")) == 0
        assert payloads_of(await node.read_all(stream)) == [b"ok"]

    run(tmp_path, scenario)


def test_a_caller_that_stops_waiting_changes_nothing(tmp_path):
    async def scenario(world, node):
        stream = await node.new_stream()
        first, second, third = (node.engine.append(stream, payload, 1) for payload in (b"a", b"b", b"c"))
        second.cancel()
        assert (await first, await third) == (0, 2)
        assert payloads_of(await node.read_all(stream)) == [b"a", b"b", b"c"]

    run(tmp_path, scenario)


def test_close_commits_an_append_whose_caller_stopped_waiting(tmp_path):
    """The log is slow: close must wait until the log has synced them, not for an answer that no caller awaits."""

    async def scenario(world, node):
        stream = await node.new_stream()
        run_call, go_on = node.engine._wal._calls.run, asyncio.Event()

        async def slowly(call, *args):
            await go_on.wait()
            return await run_call(call, *args)

        node.engine._wal._calls = SlowCalls(slowly)
        node.engine.append(stream, b"a", 1).cancel()
        closing = asyncio.ensure_future(node.engine.close_stream(stream))
        await settled()
        assert not closing.done()
        go_on.set()
        await closing
        metadata = node.metadata.image.streams[stream.stream_id]
        assert (metadata.state, metadata.end_offset) == (StreamState.CLOSED, 1)

    run(tmp_path, scenario)


class SlowCalls:
    def __init__(self, run_slowly):
        self.run = run_slowly


def test_reading_the_tail_only(tmp_path):
    async def scenario(world, node):
        stream = await node.new_stream()
        for number in range(10):
            await node.append(stream, b"%d" % number * 10, 2)
        assert offsets_of(await node.engine.read(stream, 0, 10**6)) == [
            (at, at + 2) for at in range(0, 20, 2)
        ]
        assert not world.keys(), "nothing is uploaded yet"

    run(tmp_path, scenario)


def test_reading_objects_only(tmp_path):
    async def scenario(world, node):
        stream = await node.new_stream()
        sent = [b"%04d" % number * 100 for number in range(10)]
        for payload in sent:
            await node.append(stream, payload, 2)
        await forget_tail(node, world)
        assert tail_of(node, stream) == []
        assert payloads_of(await node.read_all(stream)) == sent
        assert offsets_of(await node.engine.read(stream, 7, 10**6, 12)) == [(6, 8), (8, 10), (10, 12)]

    run(tmp_path, scenario)


def test_reading_over_the_border_of_objects_and_tail(tmp_path):
    async def scenario(world, node):
        stream = await node.new_stream()
        sent = [b"%04d" % number * 100 for number in range(20)]
        for payload in sent[:10]:
            await node.append(stream, payload, 2)
        await forget_tail(node, world)
        for payload in sent[10:]:
            await node.append(stream, payload, 2)
        assert tail_of(node, stream)[0] == (20, 22)
        assert payloads_of(await node.engine.read(stream, 0, 10**6)) == sent
        for start in range(40):
            for bytes_max in (0, 399, 400, 1000, 3600, 10**6):
                found = await node.engine.read(stream, start, bytes_max)
                first = start // 2
                count = max(1, min(20 - first, bytes_max // 400))
                assert payloads_of(found) == sent[first : first + count]

    run(tmp_path, scenario)


@pytest.mark.parametrize("where", ["tail", "objects"])
def test_the_ends_of_a_read(tmp_path, where):
    async def scenario(world, node):
        stream = await node.new_stream()
        for number in range(5):
            await node.append(stream, b"%d" % number * 100, 10)
        if where == "objects":
            await forget_tail(node, world)

        async def read(start, bytes_max=10**6, end=None):
            return offsets_of(await node.engine.read(stream, start, bytes_max, end))

        assert await read(0, end=0) == []
        assert await read(0, end=1) == [(0, 10)]
        assert await read(0, end=10) == [(0, 10)]
        assert await read(0, end=11) == [(0, 10), (10, 20)]
        assert await read(9, end=10) == [(0, 10)], "the first batch is wanted in part"
        assert await read(10, end=1000) == [(10, 20), (20, 30), (30, 40), (40, 50)]
        assert await read(49) == [(40, 50)]
        assert await read(50) == []
        assert await read(0, bytes_max=199) == [(0, 10)]
        assert await read(0, bytes_max=200) == [(0, 10), (10, 20)]
        assert await read(15, bytes_max=1) == [(10, 20)]
        for start in (-1, 51):
            with pytest.raises(OffsetBeyondEnds, match=r"outside \[0, 50\]"):
                await read(start)

    run(tmp_path, scenario)


def test_what_no_object_holds_is_an_error_and_not_an_empty_answer(tmp_path):
    async def scenario(world, node):
        stream = await node.new_stream()
        await node.append(stream, b"x", 1)
        await forget_tail(node, world)
        for covers in (False, True):  # the last batch of all is never removed
            node.engine._reads._reader = EmptyReader(covers)
            with pytest.raises(ReadRangeNotCovered, match="no object holds offset 0"):
                await node.engine.read(stream, 0, 100)

    run(tmp_path, scenario)


def test_offsets_that_compaction_removed_lead_to_the_tail(tmp_path):
    """The records between are gone from the objects, and the batches after them are still in the cache, or already
    there."""

    async def scenario(world, node):
        stream = await node.new_stream()
        await node.append(stream, b"old", 5)
        await forget_tail(node, world)
        await node.append(stream, b"new", 5)
        node.engine._reads._reader = EmptyReader(covers=True)
        assert offsets_of(await node.engine.read(stream, 2, 0)) == [(5, 10)]
        assert await node.engine.read(stream, 2, 100, 5) == []
        node.engine._reads._reader = EmptyReader(covers=False)
        with pytest.raises(ReadRangeNotCovered):
            await node.engine.read(stream, 2, 0)

    run(tmp_path, scenario)


class EmptyReader:
    def __init__(self, covers=False):
        self.has_all = covers

    async def read(self, *args):
        return []

    def covers(self, *args):
        return self.has_all


def test_waiting_readers_are_woken_by_the_append_and_by_nothing_else(tmp_path):
    async def scenario(world, node):
        stream, other = await node.new_stream(), await node.new_stream()
        await node.append(stream, b"x", 3)
        waiter = asyncio.ensure_future(stream.wait_for(3))
        await node.append(other, b"y", 10)
        await node.engine.flush()
        await node.engine.trim(stream, 2)
        world.clock.advance_ms(10_000_000)
        await settled()
        assert not waiter.done()
        answer = node.engine.append(stream, b"z", 1)
        await waiter
        assert answer.done()
        assert payloads_of(await node.engine.read(stream, 3, 100)) == [b"z"]

    run(tmp_path, scenario)
