"""Counts the objects and index entries of a store, and the requests that reading a stream takes.

Requests are counted, not estimated: a reader with empty caches reads the whole stream, and the bucket counts the
requests. The reader is independent of the broker, which keeps running.
"""

import asyncio
from collections.abc import Iterator, Mapping

import msgspec

from siltstone.metadata.entities import ObjectMetadata
from siltstone.model.limits import MIB
from siltstone.model.objects import ObjectKind, ObjectState, object_key
from siltstone.object_store.buckets import read_index
from siltstone.object_store.port import ObjectSummary
from siltstone.offline.opening.store import Store, open_store
from siltstone.runtime.blocking import ThreadedCalls
from siltstone.runtime.clock import SystemClock
from siltstone.server.settings.node import NodeSettings
from siltstone.stream_engine.reading.committed_reader import CommittedReader

FETCH_BYTES = MIB
"""Bytes per read, as in a usual fetch of a consumer."""


class Figures(msgspec.Struct, frozen=True):
    """The counts of a store at one moment. Per stream, by its name: ``holding``, the number of objects that hold data
    of it; ``requests``, the number of GETs that reading all of it takes with empty caches."""

    stream_set_objects: int
    stream_objects: int
    size_bytes: int
    index_entries: int
    holding: dict[str, int]
    requests: dict[str, int]

    @property
    def objects(self) -> int:
        return self.stream_set_objects + self.stream_objects


class HeldBytes(msgspec.Struct, frozen=True):
    """The committed objects after a step, and ``bucket_bytes``: all bytes in the buckets, replaced objects included."""

    step: str
    objects: int
    size_bytes: int
    bucket_bytes: int


def held(settings: NodeSettings, step: str) -> HeldBytes:
    with open_store(settings) as store:
        objects = store.metadata.image.objects.values()
        committed = [each.size_bytes for each in objects if each.state is ObjectState.COMMITTED]
        bucket_bytes = sum(summary.size_bytes for summary in listed(store))
    return HeldBytes(step, len(committed), sum(committed), bucket_bytes)


def listed(store: Store) -> Iterator[ObjectSummary]:
    """Lists all objects in the buckets, whether or not the metadata names them."""
    for bucket_id in store.buckets.urls:
        yield from store.buckets.store(bucket_id).list()


def measure(settings: NodeSettings, streams: Mapping[str, int]) -> Figures:
    """``streams``: name → id of the streams to read; each is read by a new reader with empty caches."""
    with open_store(settings) as store:
        image = store.metadata.image
        committed = [held for held in image.objects.values() if held.state is ObjectState.COMMITTED]
        holding = {
            name: len({held.object_id for held in image.streams[stream_id].ranges})
            for name, stream_id in streams.items()
        }
        index_entries = sum(_index_entries(store, held) for held in committed)
    requests = {name: asyncio.run(count_requests(settings, stream_id)) for name, stream_id in streams.items()}
    stream_objects = sum(held.kind is ObjectKind.STREAM_OBJECT for held in committed)
    return Figures(
        stream_set_objects=len(committed) - stream_objects,
        stream_objects=stream_objects,
        size_bytes=sum(held.size_bytes for held in committed),
        index_entries=index_entries,
        holding=holding,
        requests=requests,
    )


def _index_entries(store: Store, held: ObjectMetadata) -> int:
    bucket = store.buckets.store(held.bucket_id)
    return len(read_index(bucket, object_key(held.object_id), held.size_bytes))


async def count_requests(settings: NodeSettings, stream_id: int) -> int:
    """Returns the number of GETs for reading the committed part of the stream once with empty caches."""
    with open_store(settings) as store:
        calls = ThreadedCalls("demo-read", 4)
        reader = CommittedReader(
            store.buckets, lambda: store.metadata.image, lambda: asyncio.to_thread(store.metadata.refresh),
            calls, SystemClock(), settings.read,
        )  # fmt: skip
        before = store.buckets.statistics()
        try:
            await _read_whole_stream(reader, store, stream_id)
        finally:
            await reader.close()
            calls.close()
        return (store.buckets.statistics() - before).requests_of("get_range")


async def _read_whole_stream(reader: CommittedReader, store: Store, stream_id: int) -> None:
    stream = store.metadata.image.streams[stream_id]
    offset = stream.start_offset
    while offset < stream.end_offset:
        batches = await reader.read(stream_id, offset, stream.end_offset, FETCH_BYTES)
        offset = batches[-1].end_offset
