"""A store as a user has it: made by a real node, in a folder (objects elsewhere when ``bucket`` says so), with small
thresholds; and the history of what was appended, to compare with what is read back through a new node.

The settings lie in the store's own ``siltstone.toml``, so any process finds them.
"""

import asyncio
import hashlib
import random
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from siltstone.maintenance.checking.check import check
from siltstone.maintenance.sweep.sweeping import SweepReport, sweep
from siltstone.metadata.entities import JobMetadata
from siltstone.model.limits import GRACE_PERIOD_MS, HOUR_MS
from siltstone.model.objects import ObjectKind, ObjectState, object_key
from siltstone.object_store.bucket_identity import MARKER_KEY
from siltstone.object_store.metadata_mark import mark_of_key
from siltstone.offline.opening.settings import SETTINGS_FILE
from siltstone.offline.opening.store import Store, open_store
from siltstone.runtime.clock import ManualClock, SystemClock
from siltstone.server.components import Node, open_node
from siltstone.server.settings.node import NodeSettings, load_node_settings
from siltstone.stream_engine.stream import Stream

TIMESTAMP_MS = 1_357_000_000_000

THRESHOLDS = """\
[engine]
append_bytes_max = "64KiB"
[engine.upload]
cache_block_bytes_max = "64KiB"
split_size_bytes = "32KiB"
block_size_bytes = "4KiB"
[engine.wal]
segment_bytes = "256KiB"
capacity_bytes = "8MiB"
[compaction]
split_size_bytes = "48KiB"
memory_bytes = "64KiB"
part_bytes_min = "4KiB"
"""
"""A second of appends makes a dozen stream set objects, and their compaction some ten iterations."""

Found = list[tuple[int, int, bytes]]


class Batch(msgspec.Struct, frozen=True):
    stream: int
    """The number of its stream in the history, from 0."""
    record_count: int
    payload: bytes


def batches(count: int, streams: int, seed: int, bytes_max: int = 4_000) -> list[Batch]:
    """Half of all goes to the first stream: it becomes stream objects, the others stay together."""
    rng = random.Random(seed)
    return [
        Batch(
            0 if rng.random() < 0.5 else rng.randrange(streams),
            rng.randint(1, 9),
            rng.randbytes(rng.randint(1, bytes_max)),
        )
        for _ in range(count)
    ]


class History:
    """Returns the acknowledged records in order, by stream id."""

    def __init__(self) -> None:
        self.stream_ids: list[int] = []
        self.appended: dict[int, Found] = {}

    async def open(self, node: Node, streams: int) -> list[Stream]:
        """Makes the streams that are not there yet, opens all."""
        while len(self.stream_ids) < streams:
            stream_id = await node.engine.create_stream({"number": str(len(self.stream_ids))})
            self.stream_ids.append(stream_id)
            self.appended[stream_id] = []
        epochs = {each: node.metadata.image.streams[each].epoch + 1 for each in self.stream_ids}
        return [await node.engine.open_stream(each, epochs[each]) for each in self.stream_ids]

    async def append(self, node: Node, streams: list[Stream], given: list[Batch]) -> None:
        """Appends all at once, in order; returns when all are acknowledged."""
        answers = []
        for number, each in enumerate(given):
            stream, base = streams[each.stream], streams[each.stream].next_offset
            timestamp_ms = TIMESTAMP_MS + number
            answers.append(
                node.engine.append(stream, each.payload, each.record_count, timestamp_ms, timestamp_ms)
            )
            self.appended[stream.stream_id].append((base, base + each.record_count, each.payload))
        await asyncio.gather(*answers)


def store_settings(folder: Path, thresholds: str = THRESHOLDS, *, bucket: str | None = None) -> NodeSettings:
    folder.mkdir(parents=True, exist_ok=True)
    placed = f'[buckets]\n0 = "{bucket}"\n' if bucket else ""
    (folder / SETTINGS_FILE).write_text(thresholds + placed)
    return settings_at(folder)


def settings_at(folder: Path) -> NodeSettings:
    return load_node_settings(folder, environment={})


async def produce(settings: NodeSettings, history: History, streams: int, given: list[Batch]) -> None:
    """Runs a node; when it ends everything is in objects."""
    async with open_node(settings) as node:
        await history.append(node, await history.open(node, streams), given)


def copy_of(settings: NodeSettings, folder: Path) -> NodeSettings:
    """The same store once more: of one whose objects lie in its folder."""
    shutil.copytree(settings.folder, folder)
    return settings_at(folder)


async def read_back(settings: NodeSettings, history: History) -> dict[int, Found]:
    """Reads from objects, by a new node with empty caches."""
    async with open_node(settings) as node:
        streams = await history.open(node, 0)
        return {stream.stream_id: await read_stream(node, stream) for stream in streams}


async def read_stream(node: Node, stream: Stream, bytes_max: int = 100_000) -> Found:
    """Returns the records that were confirmed when the reading began."""
    found: Found = []
    at, end = stream.start_offset, stream.confirmed_offset
    while at < end:
        for each in await node.engine.read(stream, at, bytes_max, end):
            found.append((each.base_offset, each.end_offset, bytes(each.payload)))
            at = each.end_offset
    return found


def assert_reads_back(settings: NodeSettings, history: History) -> None:
    """Asserts that every acknowledged record is there exactly once and in order."""
    assert asyncio.run(read_back(settings, history)) == history.appended


def assert_checked(settings: NodeSettings) -> None:
    with open_store(settings) as store:
        report = check(store.context)
    assert report.is_clean, report.findings
    assert report.objects_checked > 0


def digests(settings: NodeSettings) -> dict[int, str]:
    """Returns the checksums of the bytes of every committed object."""
    with open_store(settings) as store:
        return {
            each.object_id: hashlib.sha256(bytes_of(store, each.object_id)).hexdigest()
            for each in store.metadata.image.objects.values()
            if each.state is ObjectState.COMMITTED
        }


def bytes_of(store: Store, object_id: int) -> bytes:
    metadata = store.metadata.image.objects[object_id]
    return store.buckets.store(metadata.bucket_id).get_range(object_key(object_id), 0, metadata.size_bytes)


def counts(settings: NodeSettings) -> dict[ObjectKind, int]:
    """Committed stream set objects and stream objects."""
    with open_store(settings) as store:
        kinds = [
            each.kind for each in store.metadata.image.objects.values() if each.state is ObjectState.COMMITTED
        ]
    return {kind: kinds.count(kind) for kind in ObjectKind}


def jobs(settings: NodeSettings) -> list[JobMetadata]:
    """Returns the jobs in the order in which they were started."""
    with open_store(settings) as store:
        return [job for _, job in sorted(store.metadata.image.jobs.items())]


def sweep_after(settings: NodeSettings, hours: float) -> SweepReport:
    """Two sweeps on a clock that is so much ahead: what the first gives up, the second deletes after the grace."""
    later = ManualClock(SystemClock().now_ms() + int(hours * HOUR_MS))
    with open_store(settings, clock=later) as store:
        store.trust_clock()
        first = sweep(store.context)
        later.advance_ms(GRACE_PERIOD_MS)
        second = sweep(store.context)
    assert (first.passed_over, second.passed_over) == ((), ())
    return msgspec.structs.replace(
        second,
        objects_expired=first.objects_expired + second.objects_expired,
        objects_deleted=first.objects_deleted + second.objects_deleted,
        uploads_aborted=first.uploads_aborted + second.uploads_aborted,
    )


def assert_bucket_is_exact(settings: NodeSettings) -> None:
    """Nothing destroyed or prepared is left in the metadata; the bucket holds what is committed and nothing else."""
    with open_store(settings) as store:
        objects = store.metadata.image.objects.values()
        assert all(each.state is ObjectState.COMMITTED for each in objects)
        bucket = store.buckets.store(0)
        expected = {object_key(each.object_id) for each in objects} | {MARKER_KEY}
        assert {each.key for each in bucket.list() if not mark_of_key(each.key)} == expected
        assert list(bucket.list_multipart()) == []
        assert check(store.context).findings == ()


@asynccontextmanager
async def appending(settings: NodeSettings, history: History, streams: int) -> AsyncIterator[Node]:
    """A node that appends as long as the body runs, a few batches at a time."""
    async with open_node(settings) as node:
        opened = await history.open(node, streams)
        stop = asyncio.Event()
        writing = asyncio.ensure_future(_append_until(stop, node, opened, history))
        try:
            yield node
        finally:
            stop.set()
            await writing


async def _append_until(stop: asyncio.Event, node: Node, streams: list[Stream], history: History) -> None:
    """Writes at most some 200 batches a second, so that the data stays small however long the body takes."""
    seed = 1_000
    while not stop.is_set():
        await history.append(node, streams, batches(10, len(streams), seed))
        seed += 1
        await asyncio.sleep(0.05)


async def until_sets(node: Node, count: int) -> None:
    """So many stream set objects are committed: what was appended last is uploaded a little after its answer."""
    while await _sets_of(node) < count:
        await asyncio.sleep(0.02)


async def _sets_of(node: Node) -> int:
    """After a look at the log: what compaction did meanwhile is known to the node only when it looks."""
    objects = (await node.metadata.refresh()).objects.values()
    return sum(
        each.kind is ObjectKind.STREAM_SET_OBJECT and each.state is ObjectState.COMMITTED for each in objects
    )
