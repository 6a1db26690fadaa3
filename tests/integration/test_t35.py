"""T35 of docs/scenarios.md, the rows that fit a store in a folder: compaction, leak, memory. (Its crash row is
``tests/crash`` and ``tests/simulation``; quotas are the broker's.)"""

import asyncio
import os
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import psutil
import pytest

from siltstone.model.limits import MIB
from siltstone.model.objects import ObjectKind
from siltstone.object_store.bucket_identity import MARKER_KEY
from siltstone.object_store.metadata_mark import key_of_mark, marks_in
from siltstone.offline.opening.store import open_store
from siltstone.offline.tasks.runner import InProcessRunner
from siltstone.server.components import Node, open_node
from siltstone.server.settings.node import NodeSettings
from siltstone.stream_engine.stream import Stream
from support.maintenance.compacting import RoundReport, compact
from support.maintenance.live_store import (
    Batch,
    Found,
    History,
    assert_bucket_is_exact,
    assert_checked,
    assert_reads_back,
    counts,
    produce,
    store_settings,
    sweep_after,
    until_sets,
)

# -- compaction ------------------------------------------------------------------------------------------

STREAMS = 12
RECORDS = 120_000
RECORDS_PER_BATCH = 100


def records(count: int, seed: int) -> list[Batch]:
    rng = random.Random(seed)
    return [
        Batch(
            0 if rng.random() < 0.3 else rng.randrange(STREAMS),
            RECORDS_PER_BATCH,
            rng.randbytes(rng.randint(500, 3_000)),
        )
        for _ in range(count // RECORDS_PER_BATCH)
    ]


def compacted(settings: NodeSettings, *, force_split: bool = False) -> RoundReport:
    compaction = settings.compaction
    if force_split:
        compaction = msgspec.structs.replace(compaction, force_split_age_ms=0)
    with open_store(settings) as store:
        return compact(store.context, InProcessRunner(), compaction)


@pytest.mark.parametrize("force_split", [False, True])
def test_t35_compaction(tmp_path: Path, force_split: bool) -> None:
    """Two sets of 120,000 records, compacted and swept while they are produced and consumed."""
    settings, history = store_settings(tmp_path / "store"), History()

    async def scenario() -> tuple[list[RoundReport], dict[int, Found]]:
        reports = []
        async with open_node(settings) as node:
            streams = await history.open(node, STREAMS)
            async with consuming(node, streams) as consumed:
                for seed in range(2):
                    given = records(RECORDS, seed)
                    for first in range(0, len(given), 300):
                        await history.append(node, streams, given[first : first + 300])
                        await until_sets(node, 2)
                        reports.append(await asyncio.to_thread(compacted, settings, force_split=force_split))
                    await asyncio.to_thread(sweep_after, settings, 1)
            await node.engine.flush()
        return reports, consumed

    reports, consumed = asyncio.run(scenario())
    assert consumed == history.appended
    assert sum(end for batches in consumed.values() for _, end, _ in batches[-1:]) == 2 * RECORDS
    assert_kind_of_compaction(reports, force_split=force_split)
    assert_reads_back(settings, history)
    compacted(
        settings, force_split=force_split
    )  # commits nothing when the last block was sealed before the last round
    assert_checked(settings)
    assert_reads_back(settings, history)
    if force_split:
        assert counts(settings)[ObjectKind.STREAM_SET_OBJECT] == 0


def assert_kind_of_compaction(reports: Sequence[RoundReport], *, force_split: bool) -> None:
    assert len(reports) == 8 and all(report.committed for report in reports)
    if force_split:
        assert all(report.stream_objects > 0 and report.stream_set_object is None for report in reports)
    else:  # which rounds make which depends on what was sealed by age before them
        assert any(report.stream_objects > 0 for report in reports)
        assert any(report.stream_set_object is not None for report in reports)


@asynccontextmanager
async def consuming(node: Node, streams: Sequence[Stream]) -> AsyncIterator[dict[int, Found]]:
    """A consumer of each stream, from its beginning; it ends when it has all that was confirmed in the body."""
    consumed: dict[int, Found] = {stream.stream_id: [] for stream in streams}
    ended = asyncio.Event()
    tasks = [
        asyncio.ensure_future(_consume(node, stream, consumed[stream.stream_id], ended)) for stream in streams
    ]
    try:
        yield consumed
        ended.set()
        await asyncio.wait_for(asyncio.gather(*tasks), 60)
    finally:
        for task in tasks:
            task.cancel()


async def _consume(node: Node, stream: Stream, found: Found, ended: asyncio.Event) -> None:
    at = 0
    while not (ended.is_set() and at == stream.confirmed_offset):
        assert not stream.is_closed, "the node ended first"
        if at == stream.confirmed_offset:
            waits = [asyncio.ensure_future(stream.wait_for(at)), asyncio.ensure_future(ended.wait())]
            _, pending = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            for wait in pending:
                wait.cancel()
            continue
        for batch in await node.engine.read(stream, at, 20_000):
            found.append((batch.base_offset, batch.end_offset, bytes(batch.payload)))
            at = batch.end_offset


# -- leak ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("compacts_before_deleting", [True, False])
def test_t35_leak(tmp_path: Path, compacts_before_deleting: bool) -> None:
    settings, history = store_settings(tmp_path / "store"), History()
    asyncio.run(produce(settings, history, STREAMS, records(20_000, seed=1)))
    asyncio.run(produce(settings, history, STREAMS, records(20_000, seed=2)))
    if compacts_before_deleting:
        assert compacted(settings).committed
    assert_reads_back(settings, history)
    held = counts(settings)
    assert held[ObjectKind.STREAM_SET_OBJECT] > 0 and held[ObjectKind.STREAM_OBJECT] > 0

    asyncio.run(delete_streams(settings, history))
    assert compacted(settings).objects_after == 0
    sweep_after(settings, hours=1)
    assert_bucket_is_exact(settings)
    with open_store(settings) as store:
        marks = {key_of_mark(mark) for mark in marks_in(store.buckets.store(0))}
        assert {each.key for each in store.buckets.store(0).list()} == {MARKER_KEY} | marks
        assert len(marks) < 5
        image = store.metadata.image
        assert (dict(image.streams), dict(image.objects)) == ({}, {})
    files = [path for path in (settings.folder / "bucket").rglob("*") if path.is_file()]
    assert {str(path.relative_to(settings.folder / "bucket")) for path in files} == {MARKER_KEY} | marks


async def delete_streams(settings: NodeSettings, history: History) -> None:
    async with open_node(settings) as node:
        for stream_id in history.stream_ids:
            await node.engine.delete_stream(stream_id, node.metadata.image.streams[stream_id].epoch)


# -- memory ----------------------------------------------------------------------------------------------

DATA_BYTES = 256 * MIB
CACHE_BYTES = 32 * MIB
PAYLOAD_BYTES = MIB // 2
WRITERS = 4
APPENDS_UNANSWERED = 6
MEMORY = """\
[engine]
append_bytes_max = "1MiB"
tail_cache_bytes_max = "32MiB"
waiting_bytes_max = "16MiB"
[engine.wal]
segment_bytes = "16MiB"
capacity_bytes = "64MiB"
[engine.upload]
cache_block_bytes_max = "8MiB"
split_size_bytes = "4MiB"
uploads_in_flight_max = 2
[read]
block_cache_bytes_max = "32MiB"
under_way_bytes_max = "16MiB"
read_ahead_bytes_max = "4MiB"
"""
GROWTH_BYTES_MAX = 4 * CACHE_BYTES + 64 * MIB
"""Both caches, as much again for what is on its way between network, log and bucket, and what the allocator keeps.
The data that goes through is 256 MiB in and four times that out."""


class Sample(msgspec.Struct, frozen=True):
    tail_bytes: int
    block_cache_bytes: int
    waiting_bytes: int
    resident_bytes: int


def test_t35_memory(tmp_path: Path) -> None:
    settings = store_settings(tmp_path / "store", MEMORY)
    samples: list[Sample] = []
    read: list[int] = []

    async def scenario() -> None:
        async with open_node(settings) as node, sampling(node, samples):
            made = [await node.engine.create_stream() for _ in range(WRITERS)]
            streams = [await node.engine.open_stream(stream_id, 0) for stream_id in made]
            followers = [
                asyncio.ensure_future(follow(node, stream, DATA_BYTES // WRITERS)) for stream in streams
            ]
            await asyncio.gather(*(write(node, stream) for stream in streams))
            read.extend(await asyncio.gather(*followers))
            for _ in range(2):  # from the beginning, two readers beside each other, each at its own pace
                catching_up = [
                    follow(node, stream, DATA_BYTES // WRITERS) for stream in streams for _ in range(2)
                ]
                read.extend(await asyncio.gather(*catching_up))

    resident_before = resident_bytes()
    asyncio.run(scenario())
    assert sum(read) == 5 * DATA_BYTES
    assert len(samples) > 50
    assert max(sample.tail_bytes for sample in samples) <= CACHE_BYTES
    assert max(sample.block_cache_bytes for sample in samples) <= CACHE_BYTES
    assert max(sample.waiting_bytes for sample in samples) <= 16 * MIB
    assert max(sample.tail_bytes for sample in samples) > CACHE_BYTES // 2, "the limit was never near"
    assert max(sample.block_cache_bytes for sample in samples) > CACHE_BYTES // 2, "the limit was never near"
    growth = max(sample.resident_bytes for sample in samples) - resident_before
    assert growth <= GROWTH_BYTES_MAX, f"{growth / MIB:.0f} MiB"


def payload_at(stream_id: int, number: int) -> bytes:
    """Not compressible to a page of zeros, and its own: cheap to make and to compare."""
    return b"%16d%16d" % (stream_id, number) + FILLING[: PAYLOAD_BYTES - 32]


FILLING = os.urandom(PAYLOAD_BYTES)


async def write(node: Node, stream: Stream) -> None:
    unanswered: list[asyncio.Future[int]] = []
    for number in range(DATA_BYTES // WRITERS // PAYLOAD_BYTES):
        if len(unanswered) >= APPENDS_UNANSWERED:
            await unanswered.pop(0)
        unanswered.append(node.engine.append(stream, payload_at(stream.stream_id, number), 1))
    await asyncio.gather(*unanswered)


async def follow(node: Node, stream: Stream, bytes_wanted: int) -> int:
    """From the beginning, until so much is read. How many bytes it was."""
    at = size_bytes = 0
    while size_bytes < bytes_wanted:
        await stream.wait_for(at)
        assert not stream.is_closed, "the writers failed"
        for batch in await node.engine.read(stream, at, 2 * MIB):
            assert batch.base_offset == at
            assert bytes(batch.payload) == payload_at(stream.stream_id, at)
            at, size_bytes = batch.end_offset, size_bytes + len(batch.payload)
    return size_bytes


@asynccontextmanager
async def sampling(node: Node, samples: list[Sample]) -> AsyncIterator[None]:
    task = asyncio.ensure_future(_sample(node, samples))
    try:
        yield
    finally:
        task.cancel()


async def _sample(node: Node, samples: list[Sample]) -> None:
    while True:
        engine, blocks = node.engine.statistics(), node.reader.statistics().blocks
        samples.append(
            Sample(engine.tail.bytes_used, blocks.bytes_used, engine.bytes_waiting, resident_bytes())
        )
        await asyncio.sleep(0.01)


def resident_bytes() -> int:
    return psutil.Process().memory_info().rss
