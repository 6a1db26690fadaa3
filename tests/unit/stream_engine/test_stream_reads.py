"""What is read at once from the tail cache. Reads over the border of objects and tail: test_engine."""

import asyncio

import pytest

from siltstone.metadata.commands import TrimStream
from siltstone.metadata.streams import advanced, created, opened
from siltstone.model.record_batch import RecordBatch
from siltstone.stream_engine.errors import OffsetBeyondEnds, ReadRangeNotCovered
from siltstone.stream_engine.stream import Stream
from siltstone.stream_engine.stream_reads import StreamReads
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


def of_ten(base_offset: int) -> RecordBatch:
    return RecordBatch(0, 0, base_offset, base_offset + 10, 10, 0, 0, bytes(100))


class Parts:
    """Stream 0 ends at 50. Its tail begins at 30, or has gone; the objects before have the batches ``committed``, and
    ``are_whole`` says whether they cover all offsets."""

    def __init__(
        self, *committed: RecordBatch, tail: tuple[RecordBatch, ...], are_whole: bool = True
    ) -> None:
        self._committed, self._tail, self._are_whole = committed, tail, are_whole
        self.asked: list[tuple[int, int]] = []
        self.stream = Stream(advanced(opened(created(0, {}), 0, 0), 50))
        self.reads = StreamReads(self, self)

    def window(self, *_: int) -> None:
        return None

    def suffix(self, _stream_id: int, _start: int, end: int) -> tuple[RecordBatch, ...]:
        return tuple(batch for batch in self._tail if batch.base_offset < end)

    async def read(self, _stream_id: int, start: int, end: int, _bytes_max: int) -> list[RecordBatch]:
        self.asked.append((start, end))
        return list(self._committed)

    def covers(self, _stream_id: int, _start: int, _end: int) -> bool:
        return self._are_whole

    def found(self, bytes_max: int, end_offset: int | None = None) -> list[int]:
        batches = asyncio.run(self.reads.read(self.stream, 0, bytes_max, end_offset))
        return [batch.base_offset for batch in batches]


TAIL = (of_ten(30), of_ten(40))


def test_the_tail_follows_what_was_read_to_its_beginning():
    assert Parts(*map(of_ten, (0, 10, 20)), tail=TAIL).found(10**6) == [0, 10, 20, 30, 40]
    assert Parts(*map(of_ten, (0, 10, 20)), tail=TAIL).found(400) == [0, 10, 20, 30]
    assert Parts(*map(of_ten, (0, 10, 20)), tail=TAIL).found(300) == [0, 10, 20]
    assert Parts(*map(of_ten, (0, 10)), tail=TAIL).found(10**6) == [0, 10], "else a part would be passed over"


def test_objects_are_asked_only_for_what_is_before_the_tail_and_the_end():
    for tail, end_offset, asked in (
        (TAIL, None, (0, 30)),
        (TAIL, 20, (0, 20)),
        ((), None, (0, 50)),
        ((), 60, (0, 50)),
    ):
        parts = Parts(of_ten(0), tail=tail)
        parts.found(100, end_offset)
        assert parts.asked == [asked]


def test_where_key_compaction_has_removed_everything_the_tail_is_next():
    assert Parts(tail=TAIL).found(10**6) == [30, 40]
    assert Parts(tail=TAIL).found(0) == [30], "a read gives one batch at least"
    assert Parts(tail=()).found(10**6, 20) == []


def test_what_no_object_holds_is_missed():
    with pytest.raises(ReadRangeNotCovered, match="siltstone check"):
        Parts(tail=TAIL, are_whole=False).found(10**6)
    with pytest.raises(ReadRangeNotCovered):
        Parts(tail=()).found(10**6)
