"""What is read at once from the tail cache. Reads over the border of objects and tail: test_engine."""

import asyncio

import pytest

from siltstone.metadata.commands import TrimStream
from siltstone.stream_engine.errors import OffsetBeyondEnds
from support.engine.engine_world import SMALL, World, offsets_of, payloads_of


def run(tmp_path, scenario) -> None:
    async def main() -> None:
        world = World(tmp_path)
        async with world.node(SMALL) as node:
            await scenario(world, node)

    asyncio.run(main())


async def five_of_ten_records(node):
    stream = await node.new_stream()
    for number in range(5):
        await node.append(stream, b"%d" % number * 100, 10)
    return stream


async def push_out(world, node):
    """Everything is committed, and other streams' batches take the room."""
    await node.engine.flush()
    other = await node.new_stream()
    for _ in range(20):
        await node.append(other, bytes(4000))
    await world.passing(node.engine.flush())


@pytest.mark.parametrize(
    ("start", "bytes_max", "end", "found"),
    [
        (0, 10**6, None, [0, 10, 20, 30, 40]),
        (9, 10**6, None, [0, 10, 20, 30, 40]),
        (10, 200, None, [10, 20]),
        (10, 0, None, [10]),
        (10, 10**6, 21, [10, 20]),
        (10, 10**6, 10, []),
        (10, 10**6, 99, [10, 20, 30, 40]),
        (50, 10**6, None, []),
    ],
)
def test_what_the_cache_covers_is_given_at_once_and_as_read_gives_it(tmp_path, start, bytes_max, end, found):
    async def scenario(world, node):
        stream = await five_of_ten_records(node)
        cached = node.engine.read_cached(stream, start, bytes_max, end)
        assert [one.base_offset for one in cached] == found
        assert cached == await node.engine.read(stream, start, bytes_max, end)

    run(tmp_path, scenario)


def test_a_trim_of_which_only_the_metadata_knows_is_one_all_the_same(tmp_path):
    async def scenario(world, node):
        stream = await five_of_ten_records(node)
        await push_out(world, node)
        node.engine._stop_following()
        trim = TrimStream(node.engine.node_id, node.engine.node_epoch, stream.stream_id, stream.epoch, 20)
        await node.metadata.execute(trim)
        with pytest.raises(OffsetBeyondEnds, match="trimmed"):
            await node.engine.read(stream, 10, 10**6)
        assert offsets_of(await node.engine.read(stream, 20, 0)) == [(20, 30)]

    run(tmp_path, scenario)


def test_what_lies_in_objects_is_not_given_nor_counted(tmp_path):
    async def scenario(world, node):
        stream = await five_of_ten_records(node)
        await push_out(world, node)
        assert node.engine.read_cached(stream, 0, 10**6) is None
        assert node.engine.read_cached(stream, 49, 10**6) is None
        assert node.engine.cached_bytes(stream, 49) is None
        assert node.engine.read_cached(stream, 50, 10**6) == []
        await node.append(stream, b"new", 1)
        assert node.engine.read_cached(stream, 49, 10**6) is None
        assert payloads_of(node.engine.read_cached(stream, 50, 10**6)) == [b"new"]
        assert offsets_of(await node.engine.read(stream, 40, 10**6)) == [(40, 50), (50, 51)]

    run(tmp_path, scenario)


def test_bytes_are_counted_to_the_confirmed_end(tmp_path):
    async def scenario(world, node):
        stream = await five_of_ten_records(node)
        on_its_way = node.engine.append(stream, bytes(1000), 1)
        assert [node.engine.cached_bytes(stream, at) for at in (0, 9, 10, 49, 50)] == [500, 500, 400, 100, 0]
        await on_its_way
        assert node.engine.cached_bytes(stream, 50) == 1000

    run(tmp_path, scenario)


@pytest.mark.parametrize("start", [4, 51])
def test_offsets_outside_the_stream_are_refused(tmp_path, start):
    async def scenario(world, node):
        stream = await five_of_ten_records(node)
        await node.engine.trim(stream, 5)
        with pytest.raises(OffsetBeyondEnds, match=r"outside \[5, 50\]"):
            node.engine.read_cached(stream, start, 100)
        with pytest.raises(OffsetBeyondEnds, match=r"outside \[5, 50\]"):
            node.engine.cached_bytes(stream, start)

    run(tmp_path, scenario)


def test_a_read_costs_what_it_gives_however_long_the_tail_is(tmp_path):
    """A reader that is far behind asks thousands of times: each answer is cut out, the rest is not touched."""

    async def scenario(world, node):
        stream = await node.new_stream()
        await asyncio.gather(*(node.engine.append(stream, b"x", 1) for _ in range(60)))
        sliced = []

        class Watched(list):
            def __getitem__(self, key):
                found = super().__getitem__(key)
                if isinstance(key, slice):
                    sliced.append(len(found))
                return found

        tail = node.engine._cache._tails[stream.stream_id]
        tail._batches = Watched(tail._batches)
        assert len(await node.engine.read(stream, 7, 3)) == 3
        assert sliced == [3]

    run(tmp_path, scenario)
