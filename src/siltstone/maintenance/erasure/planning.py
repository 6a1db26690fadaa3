"""Finds the objects that may hold records of erased keys. Pure.

A stream's records below the bound lie in stream objects and in stream set objects. The former are looked at and written
again one by one; the latter hold other streams, too. While an erasure is pending, the compaction of stream set objects
splits the streams of its topic off, as it does with compacted topics (``stream_set_compaction.retention_class``).

An object counts as long as the metadata names it, also where the stream was trimmed: a trim frees no byte by itself.
"""

from collections.abc import Mapping

import msgspec

from siltstone.carrying.pipeline.kind import PlannedUnit, Scope
from siltstone.foundation.quantity_words import count_words, counted
from siltstone.maintenance.record_rewriting.values import SourceObject
from siltstone.metadata.entities import StreamMetadata
from siltstone.metadata.image import ImageView
from siltstone.model.objects import ObjectKind
from siltstone.offline.erasures import StreamErasure, erasures_of_streams
from siltstone.offline.topic_streams import TopicStream, topic_streams


class StreamToErase(msgspec.Struct, frozen=True, kw_only=True):
    """A stream with pending erasures. ``sources`` are the objects that hold offsets below a bound; ``sets`` are the ids
    of the stream set objects among them."""

    name: str
    topic: str
    partition: int
    stream_id: int
    start_offset: int
    erasures: tuple[StreamErasure, ...]
    sources: tuple[SourceObject, ...]
    sets: frozenset[int]

    @property
    def bound(self) -> int:
        return max(each.bound for each in self.erasures)

    @property
    def size_bytes(self) -> int:
        return sum(each.held.size_bytes for each in self.sources)


def streams_to_erase(view: ImageView, scope: Scope) -> list[StreamToErase]:
    """Returns the streams of pending erasures, by name. Raises UnreadableErasure."""
    return streams_of(view, scope, erasures_of_streams(view))


def streams_of(
    view: ImageView, scope: Scope, erasures_by_stream: Mapping[int, tuple[StreamErasure, ...]]
) -> list[StreamToErase]:
    """Returns the streams of these erasures, which need not be in the metadata."""
    topics = topic_streams(view)
    found = [
        _stream_to_erase(view, topics[stream_id], view.streams[stream_id], erasures)
        for stream_id, erasures in erasures_by_stream.items()
        if stream_id in topics and stream_id in view.streams
    ]
    return sorted(
        (each for each in found if scope.includes(each.topic)), key=lambda each: (each.topic, each.partition)
    )


def _stream_to_erase(
    view: ImageView, of_topic: TopicStream, stream: StreamMetadata, erasures: tuple[StreamErasure, ...]
) -> StreamToErase:
    bound = max(each.bound for each in erasures)
    below = [(held, view.objects[held.object_id]) for held in stream.ranges if held.start_offset < bound]
    return StreamToErase(
        name=of_topic.name,
        topic=of_topic.topic.name,
        partition=of_topic.partition,
        stream_id=stream.stream_id,
        start_offset=stream.start_offset,
        erasures=erasures,
        sources=tuple(
            SourceObject(each.object_id, each.bucket_id, each.size_bytes, held, each.copies)
            for held, each in below
        ),
        sets=frozenset(each.object_id for _, each in below if each.kind is ObjectKind.STREAM_SET_OBJECT),
    )


def planned_unit(stream: StreamToErase) -> PlannedUnit:
    """Makes the unit that plans show. How much is written again is not known before the objects were looked at."""
    keys = sum(len(each.hashes) for each in stream.erasures)
    return PlannedUnit(
        name=stream.name,
        reason=f"records of {counted(keys, 'key')} below offset {count_words(stream.bound)} are to be erased",
        topic=stream.topic,
        partition=stream.partition,
        stream_id=stream.stream_id,
        bytes_read=stream.size_bytes,
        objects_before=len(stream.sources),
        objects_after=len(stream.sources),
    )
