"""Reading committed data against a plain model: whatever the objects, the caches and the order of reads, the answer is
the batches of the stream from the start on, as many as fit.

Worlds are made from a seed; a failure names it.
"""

import asyncio
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from siltstone.model.record_batch import RecordBatch
from siltstone.stream_engine.settings import ReadSettings
from support.engine.batches import batch
from support.engine.committed_world import CommittedWorld, settle
from support.values.examples import examples

STREAMS = (1, 2, 5)
SEEDS = st.integers(0, 2**32)

Batches = dict[int, list[RecordBatch]]


def random_batches(rng: Random) -> Batches:
    """Contiguous batches of each stream, some spanning more offsets than they have records."""
    made: Batches = {}
    for stream_id in STREAMS:
        next_offset = rng.choice([0, 7, 2**31 - 3])
        made[stream_id] = []
        for _ in range(rng.randint(1, 25)):
            count = rng.randint(1, 5)
            spanned = count + rng.choice([0, 0, 0, 3, 2**32])
            size = rng.choice([0, 1, 30, 100, 400])
            made[stream_id].append(batch(stream_id, next_offset, count, size, offsets=spanned))
            next_offset += spanned
    return made


def random_settings(rng: Random) -> ReadSettings:
    ahead_min = rng.choice([100, 500])
    ahead_max = ahead_min * rng.choice([1, 4, 16])
    return ReadSettings(
        block_cache_bytes_max=2 * ahead_max + rng.choice([0, 3000, 100_000]),
        index_cache_bytes_max=rng.choice([0, 800, 100_000]),
        request_bytes_max=rng.choice([1, 300, 5000]),
        under_way_bytes_max=rng.choice([1, 1000, 50_000]),
        read_ahead_bytes_min=ahead_min,
        read_ahead_bytes_max=ahead_max,
        sequential_readers_max=rng.choice([1, 100]),
    )


def commit(world: CommittedWorld, rng: Random, batches: Batches) -> None:
    """The streams cut into objects at random, each with a piece of one or of several streams, in place of those there
    were. A reader that holds an older image meets objects that are gone."""
    object_id = max(world.objects, default=-1) + 1
    for compacted in list(world.objects):
        world.destroy(compacted)
    rest = {stream_id: list(of) for stream_id, of in batches.items()}
    while any(rest.values()):
        piece: list[RecordBatch] = []
        for stream_id in STREAMS:
            count = rng.randint(0, len(rest[stream_id]))
            piece += rest[stream_id][:count]
            del rest[stream_id][:count]
        if piece:
            world.commit(object_id, piece, rng.choice([1, 300, 2000]))
            object_id += 1


def random_read(rng: Random, batches: Batches) -> tuple[int, int, int, int]:
    """Stream, start, end, largest number of bytes."""
    stream_id = rng.choice(STREAMS)
    first, last = batches[stream_id][0].base_offset, batches[stream_id][-1].end_offset
    borders = [one.base_offset for one in batches[stream_id]]
    start = rng.choice([rng.choice(borders), rng.randint(first, last)])
    end = rng.choice([rng.choice([*borders, last, 2**62]), rng.randint(start, last)])
    return stream_id, start, max(start, end), rng.choice([0, 1, 150, 1000, 2**40])


def expected(batches: list[RecordBatch], start: int, end: int, bytes_max: int) -> list[RecordBatch]:
    taken: list[RecordBatch] = []
    for one in batches:
        if one.end_offset <= start:
            continue
        fits = 0 < bytes_max >= len(one.payload)
        if one.base_offset >= end or start >= end or (taken and not fits):
            break
        taken.append(one)
        bytes_max -= len(one.payload)
    return taken


@given(SEEDS)
@settings(max_examples=examples(250))
def test_reads_are_those_of_the_model_whatever_is_cached_or_compacted(seed):
    rng = Random(seed)
    batches, chosen = random_batches(rng), random_settings(rng)
    world = CommittedWorld()
    commit(world, rng, batches)

    async def scenario():
        reader = world.reader(chosen)
        for _ in range(rng.randint(1, 6)):
            if rng.random() < 0.3:
                commit(world, rng, batches)
            together = [random_read(rng, batches) for _ in range(rng.randint(1, 5))]
            answers = await asyncio.gather(*(reader.read(*one) for one in together))
            assert answers == [expected(batches[one[0]], *one[1:]) for one in together]
            assert reader.statistics().blocks.bytes_used <= chosen.block_cache_bytes_max
            assert reader.statistics().indexes.bytes_used <= chosen.index_cache_bytes_max
        await settle(60)
        assert reader.statistics().fetches.bytes_under_way == 0
        await reader.close()

    asyncio.run(scenario())


@given(SEEDS)
@settings(max_examples=examples(200))
def test_consumers_side_by_side_get_everything_once_and_in_order(seed):
    rng = Random(seed)
    batches, chosen = random_batches(rng), random_settings(rng)
    world = CommittedWorld()
    commit(world, rng, batches)
    bytes_max = rng.choice([1, 150, 1000, 2**40])

    async def consume(reader, stream_id):
        read: list[RecordBatch] = []
        offset, end = batches[stream_id][0].base_offset, batches[stream_id][-1].end_offset
        while offset < end:
            answer = await reader.read(stream_id, offset, end, bytes_max)
            assert answer, "never empty inside what the image covers"
            read += answer
            offset = answer[-1].end_offset
        return read

    async def scenario():
        reader = world.reader(chosen)
        consumers = [*STREAMS, *STREAMS]
        read = await asyncio.gather(*(consume(reader, one) for one in consumers))
        assert read == [batches[one] for one in consumers]
        await reader.close()

    asyncio.run(scenario())
