"""A whole store in memory to compact: metadata, one bucket, streams, and stream set objects made from specs.

A spec is ``{stream: [(start, end, bytes), ...]}``: blocks of one batch each, ``bytes`` with our 72 bytes of frame
header. Where a spec leaves offsets out, a stream object fills the gap first, since an upload must continue its
stream.
"""

from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from random import Random

import pytest

from siltstone.maintenance.checking.check import check
from siltstone.metadata.client import MetadataClient
from siltstone.metadata.commands import (
    CloseStream,
    CommitUpload,
    CreateStream,
    DeleteStream,
    DeleteTopic,
    NewObject,
    OpenStream,
    PrepareObjects,
    RegisterNode,
    TrimStream,
)
from siltstone.metadata.entities import StreamState
from siltstone.metadata.store.memory import MemoryLog
from siltstone.model.limits import HOUR_MS
from siltstone.model.objects import ObjectKind, ObjectState, object_key
from siltstone.model.record_batch import RecordBatch
from siltstone.object_formats.batch_frame import FRAME_HEADER_BYTES, encode_frame_header
from siltstone.object_formats.object_layout import EncodedObject, ObjectBuilder, ranges_of_entries
from siltstone.object_store.buckets import Buckets
from siltstone.object_store.memory import MemoryStore
from siltstone.object_store.port import ObjectStore
from siltstone.offline.context import MaintenanceContext
from siltstone.runtime.clock import ManualClock
from support.engine.batches import payload_of
from support.engine.faulty_store import FaultyStore
from support.engine.objects import read_object
from support.engine.replacing import replace_object
from support.maintenance.opened_stores import stores_opened
from support.maintenance.spread import ONE_BUCKET, Spread
from support.metadata.faulty_log import FaultyLog

Spec = Mapping[int, Sequence[tuple[int, int, int]]]
Records = dict[int, list[tuple[int, int, bytes]]]

_names = count()


def scaled(specs: Sequence[Spec], factor: int) -> list[Spec]:
    """The same shape with larger blocks: the tables' sizes are smaller than our frame headers."""
    return [
        {
            stream: [(start, end, size * factor) for start, end, size in blocks]
            for stream, blocks in spec.items()
        }
        for spec in specs
    ]


class CompactionWorld:
    def __init__(self, store: ObjectStore | None = None, spread: Spread = ONE_BUCKET) -> None:
        """``store``: bucket 0; when tasks run in other processes, one that they can open by its URL."""
        self.clock = ManualClock()
        self.log = FaultyLog(MemoryLog())
        self.stores = {
            bucket_id: FaultyStore(MemoryStore(self.clock, f"compaction-world-{next(_names)}"))
            for bucket_id in range(1, spread.buckets)
        }
        self.store = FaultyStore(store or MemoryStore(self.clock, f"compaction-world-{next(_names)}"))
        self.stores[0] = self.store
        self._spread, self._choices = spread, spread.choices()
        self.context = self.another_context()
        self.metadata = self.context.metadata
        self.metadata.execute(RegisterNode(0, "first", "nowhere"))
        spread.list_buckets(self.metadata, self.stores)

    def another_context(self) -> MaintenanceContext:
        """Returns the context of another process: with a metadata client of its own, on the same log and bucket."""
        client = MetadataClient(self.log, self.clock, Random(7))
        return MaintenanceContext(client, Buckets(self.stores), self.clock, Random(8))

    def any_bucket(self) -> int:
        return self._choices.randrange(self._spread.buckets)

    def make_streams(self, stream_count: int) -> None:
        for _ in range(stream_count):
            stream_id = self.metadata.execute(CreateStream(0, 1))
            self.metadata.execute(OpenStream(0, 1, stream_id, 0))

    def upload(self, *specs: Spec, data_time_ms: int = 0) -> list[int]:
        """A stream set object for each spec; their ids."""
        made = []
        for spec in specs:
            self.make_streams(max(0, max(spec) + 1 - self.metadata.image.next_stream_id))
            for stream, blocks in spec.items():
                end = self.metadata.image.streams[stream].end_offset
                if blocks[0][0] > end:
                    self._commit({stream: [(end, blocks[0][0], 80)]}, ObjectKind.STREAM_OBJECT, data_time_ms)
            made.append(self._commit(spec, ObjectKind.STREAM_SET_OBJECT, data_time_ms))
        return made

    def trim(self, stream_id: int, start_offset: int) -> None:
        self.metadata.execute(TrimStream(0, 1, stream_id, 0, start_offset))

    def delete_stream(self, stream_id: int) -> None:
        self.metadata.execute(CloseStream(0, 1, stream_id, 0))
        self.metadata.execute(DeleteStream(0, 1, stream_id, 0))

    def delete_topic(self, topic_id: str) -> None:
        self.metadata.execute(DeleteTopic(0, 1, topic_id))

    def records(self, object_ids: Container[int] | None = None) -> Records:
        """Returns every live record as a reader sees it: by the image's ranges, from the bytes in the bucket. If
        objects are given, from those alone."""
        image = self.metadata.refresh()
        found: Records = {}
        for stream in image.streams.values():
            if stream.state is StreamState.DELETED:
                continue
            for held in stream.ranges:
                if object_ids is not None and held.object_id not in object_ids:
                    continue
                found.setdefault(stream.stream_id, []).extend(
                    (batch.base_offset, batch.end_offset, bytes(batch.payload))
                    for batch in self._batches(held.object_id)
                    if batch.stream_id == stream.stream_id and batch.end_offset > stream.start_offset
                )
        return {stream_id: records for stream_id, records in found.items() if records}

    def ids(self, kind: ObjectKind) -> set[int]:
        """Returns the ids of the committed objects of the kind."""
        objects = self.metadata.refresh().objects.values()
        return {
            held.object_id for held in objects if held.kind is kind and held.state is ObjectState.COMMITTED
        }

    def bucket_keys(self) -> set[str]:
        return {each.key for bucket in self.stores.values() for each in bucket.store.list()}

    def bytes_of(self, object_id: int) -> bytes:
        """Returns the bytes of an object; one that another client has prepared is in bucket 0."""
        known = self.metadata.image.objects.get(object_id)
        key, store = object_key(object_id), self.stores[known.bucket_id if known else 0].store
        return store.get_range(key, 0, store.head(key).size_bytes)

    def damage(self, object_id: int, position: int) -> None:
        """Flips one byte; counted from the end when negative."""
        raw = bytearray(self.bytes_of(object_id))
        raw[position] ^= 0xFF
        replace_object(self.store.store, object_key(object_id), [raw])

    def assert_sound(self) -> None:
        """Nothing wrong by the check's own judgement; what waits to be swept is no fault."""
        report = check(self.context)
        assert report.is_clean, report.findings

    def _batches(self, object_id: int) -> list[RecordBatch]:
        return read_object(self.bytes_of(object_id))

    def _commit(self, spec: Spec, kind: ObjectKind, data_time_ms: int) -> int:
        bucket_id = self.any_bucket()
        object_id = self.metadata.execute(PrepareObjects(1, HOUR_MS, bucket_id, node_id=0, node_epoch=1))
        built = encode(spec)
        self.stores[bucket_id].store.put(object_key(object_id), built.buffers)
        new = NewObject(object_id, built.size_bytes, ranges_of_entries(built.entries, object_id))
        is_set = kind is ObjectKind.STREAM_SET_OBJECT
        self.metadata.execute(
            CommitUpload(0, 1, new if is_set else None, () if is_set else (new,), data_time_ms)
        )
        return object_id


def encode(spec: Spec) -> EncodedObject:
    builder = ObjectBuilder(block_size_bytes=1)
    for stream in sorted(spec):
        for start, end, size in spec[stream]:
            payload = payload_of(stream, start, size - FRAME_HEADER_BYTES)
            batch = RecordBatch(stream, 0, start, end, 1, start, end, payload)
            builder.append(batch, encode_frame_header(batch))
    return builder.finish()


@contextmanager
def compaction_world(spread: Spread = ONE_BUCKET) -> Iterator[CompactionWorld]:
    """Tasks open the world's buckets by their URLs, as they would elsewhere."""
    world = CompactionWorld(spread=spread)
    with stores_opened(*world.stores.values()):
        yield world


@pytest.fixture
def world() -> Iterator[CompactionWorld]:
    with compaction_world() as made:
        yield made
