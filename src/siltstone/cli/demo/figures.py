"""What a store costs its readers: objects, index entries, and the requests that reading a stream takes.

Requests are not estimated: a node with empty caches reads the stream, and the bucket counts what it is asked.
"""

from collections.abc import Mapping

import msgspec

from siltstone.cli.demo.flights import StreamName
from siltstone.cli.demo.reading import read_whole_stream
from siltstone.metadata.entities import ObjectMetadata
from siltstone.model.objects import ObjectKind, ObjectState, object_key
from siltstone.object_store.object_index import read_index
from siltstone.server.components import Store, open_node, open_store
from siltstone.server.settings import StoreSettings


class Figures(msgspec.Struct, frozen=True):
    """Of single streams: ``holding``, the objects that hold it; ``requests``, the GETs to read it from its beginning,
    nothing cached."""

    stream_set_objects: int
    stream_objects: int
    size_bytes: int
    index_entries: int
    holding: dict[StreamName, int]
    requests: dict[StreamName, int]

    @property
    def objects(self) -> int:
        return self.stream_set_objects + self.stream_objects


async def measure(settings: StoreSettings, streams: Mapping[StreamName, int]) -> Figures:
    """``streams``: those to be read, each by a node of its own."""
    with open_store(settings) as store:
        image = store.metadata.image
        committed = [held for held in image.objects.values() if held.state is ObjectState.COMMITTED]
        holding = {
            name: len({held.object_id for held in image.streams[stream_id].ranges})
            for name, stream_id in streams.items()
        }
        index_entries = sum(_index_entries(store, held) for held in committed)
    requests = {name: await count_requests(settings, stream_id) for name, stream_id in streams.items()}
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


async def count_requests(settings: StoreSettings, stream_id: int) -> int:
    """GETs of one cold read of the whole stream, and of nothing else: the node is new."""
    async with open_node(settings) as node:
        before = node.buckets.statistics()
        async for _ in read_whole_stream(node, stream_id):
            pass
        return (node.buckets.statistics() - before).requests_of("get_range")
