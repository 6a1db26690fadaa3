"""Counts the objects that the metadata names, their bytes, and how many of these bytes are live, for metrics.

The image is walked once a minute, some hundred ranges at a time, so that other tasks run in between. *Live* bytes are
the bytes that a read may return, as garbage collection estimates them from the image; *dirty* bytes belong to compacted
topics, and no key compaction has processed them."""

from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping

import msgspec

from siltstone.maintenance.garbage_collection.planning import expected_live_bytes, served_stream
from siltstone.maintenance.key_compaction.planning.planner import uncleaned_bytes
from siltstone.metadata.entities import ObjectMetadata, StreamMetadata, StreamState
from siltstone.metadata.image import MetadataImage
from siltstone.model.limits import MINUTE_MS
from siltstone.model.objects import ObjectRange, ObjectState
from siltstone.model.serving_limits import STORED_TOPICS_SHOWN_MAX
from siltstone.offline.blocks.columns import SourceUnusable
from siltstone.offline.topic_streams import topic_defaults
from siltstone.runtime.clock import Clock
from siltstone.server.admin.exposition import label_text
from siltstone.server.admin.scrape import Collected
from siltstone.topic_configs.table import stored_topic_config

OTHERS = "_other"
"""The label of all topics without a series of their own: no topic's name begins so in metrics of traffic, either."""

OBJECTS_LOOK_INTERVAL_MS = 1 * MINUTE_MS
"""A walk over half a million objects takes half a second, in short turns."""
STEPS_PER_TURN = 100
"""Objects, ranges and topics between two yields: 50 to 100 µs."""

ObjectKey = tuple[str, str, str]
"""Bucket, kind and state as their labels have them."""
KindKey = tuple[str, str]
"""Bucket and kind."""


class ObjectBytes(msgspec.Struct):
    """One walk through an image. ``live`` has the committed objects only."""

    counts: Counter[ObjectKey] = msgspec.field(default_factory=Counter)
    sizes: Counter[ObjectKey] = msgspec.field(default_factory=Counter)
    live: dict[KindKey, float] = msgspec.field(default_factory=dict)
    dirty: int = 0
    stored: Counter[int] = msgspec.field(default_factory=Counter)
    """The bytes of each stream, all copies."""
    topics: Counter[str] = msgspec.field(default_factory=Counter)
    """The bytes of each topic, by name."""

    def walk(self, image: MetadataImage) -> Iterator[None]:
        """Counts the objects of an image; yields after each step."""
        for metadata in image.objects.values():
            yield from self._add_object(metadata, image.streams)
            yield
        yield from self._add_dirty(image)
        yield from self._add_topics(image)

    def _add_topics(self, image: MetadataImage) -> Iterator[None]:
        for topic in image.topics.values():
            for partition in topic.partitions:
                self.topics[topic.name] += self.stored[partition.data_stream_id]
                yield
        self.stored.clear()

    def _add_object(self, metadata: ObjectMetadata, streams: Mapping[int, StreamMetadata]) -> Iterator[None]:
        kind = "unknown" if metadata.kind is None else metadata.kind.name.lower()
        state = metadata.state.name.lower()
        is_committed = metadata.state is ObjectState.COMMITTED
        buckets = [str(each) for each in (metadata.bucket_ids if is_committed else metadata.every_bucket_id)]
        for bucket in buckets:
            self.counts[bucket, kind, state] += 1
            self.sizes[bucket, kind, state] += metadata.size_bytes
        if not is_committed:
            return
        live = 0.0
        for held in metadata.ranges:
            live += _live_bytes(held, streams)
            self.stored[held.stream_id] += held.size_bytes * len(buckets)
            yield
        for bucket in buckets:
            self.live[bucket, kind] = self.live.get((bucket, kind), 0.0) + live

    def _add_dirty(self, image: MetadataImage) -> Iterator[None]:
        defaults = topic_defaults(image)
        for topic in image.topics.values():
            yield
            if not stored_topic_config(topic.configs, defaults).is_compacted:
                continue
            for partition in topic.partitions:
                stream = image.streams.get(partition.data_stream_id)
                if stream is None or stream.state is StreamState.DELETED:
                    continue
                for size_bytes in uncleaned_bytes(stream):
                    self.dirty += size_bytes
                    yield


def _live_bytes(held: ObjectRange, streams: Mapping[int, StreamMetadata]) -> float:
    """Estimates the live bytes of an object. A range that contradicts the image counts as live, since it is never
    dropped (rule 4)."""
    try:
        return expected_live_bytes(held, served_stream(held, streams))
    except SourceUnusable:
        return held.size_bytes


class ObjectSource:
    """Walks through the image at most once a minute. A series that had a value before stays, and falls to 0."""

    def __init__(self, image: Callable[[], MetadataImage], clock: Clock) -> None:
        self._image = image
        self._clock = clock
        self._looked_ms: float | None = None
        self._seen = ObjectBytes()

    async def collect(self, collected: Collected) -> AsyncIterator[None]:
        now_ms = self._clock.monotonic_ms()
        if self._looked_ms is None or now_ms - self._looked_ms >= OBJECTS_LOOK_INTERVAL_MS:
            async for _ in self._look():
                yield
            self._looked_ms = now_ms
        seen = self._seen
        for key, count in seen.counts.items():
            collected.add("objects", count, *key)
            collected.add("object_bytes", seen.sizes[key], *key)
        for of_kind, live in seen.live.items():
            collected.add("live_bytes", round(live), *of_kind)
        collected.add("dirty_bytes", seen.dirty)
        largest = seen.topics.most_common(STORED_TOPICS_SHOWN_MAX)
        for name, size_bytes in largest:
            collected.add("topic_stored_bytes", size_bytes, label_text(name))
        others = seen.topics.total() - sum(size_bytes for _, size_bytes in largest)
        collected.add("topic_stored_bytes", others, OTHERS)
        yield

    async def _look(self) -> AsyncIterator[None]:
        before = self._seen
        new = ObjectBytes(
            Counter(dict.fromkeys(before.counts, 0)), Counter(), dict.fromkeys(before.live, 0.0)
        )
        for step, _ in enumerate(new.walk(self._image())):
            if step % STEPS_PER_TURN == 0:
                yield
        self._seen = new
