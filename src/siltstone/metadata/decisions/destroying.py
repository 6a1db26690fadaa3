"""Destroying objects, deleting streams, and forgetting a deleted stream with the last object that holds one of its
ranges."""

from collections.abc import Iterable

from siltstone.metadata.entities import StreamMetadata, StreamState
from siltstone.metadata.image import ImageView
from siltstone.metadata.records import ObjectsDestroyed, Record, StreamDeleted, StreamForgotten
from siltstone.model.objects import ObjectKind


def destruction(view: ImageView, object_ids: Iterable[int], now_ms: int) -> tuple[Record, ...]:
    """The records that destroy the objects. The stream's own record of deletion is what permits forgetting it."""
    leaving = tuple(object_ids)
    if not leaving:
        return ()
    return (ObjectsDestroyed(leaving, now_ms), *_forgetting(view, frozenset(leaving)))


def deletion(view: ImageView, streams: Iterable[StreamMetadata], now_ms: int) -> tuple[Record, ...]:
    """The records that delete streams which are not deleted yet. Their stream objects hold nothing else and go too;
    stream set objects stay until they are compacted."""
    deleted: list[Record] = []
    destroyed: list[int] = []
    forgotten: list[Record] = []
    for stream in streams:
        own = _own_objects(view, stream)
        deleted.append(StreamDeleted(stream.stream_id))
        destroyed += own
        if len(own) == len(stream.ranges):
            forgotten.append(StreamForgotten(stream.stream_id))
    destruction_of_all = (ObjectsDestroyed(tuple(destroyed), now_ms),) if destroyed else ()
    return (*deleted, *destruction_of_all, *forgotten)


def _own_objects(view: ImageView, stream: StreamMetadata) -> list[int]:
    return [
        held.object_id
        for held in stream.ranges
        if view.objects[held.object_id].kind is ObjectKind.STREAM_OBJECT
    ]


def _forgetting(view: ImageView, leaving: frozenset[int]) -> Iterable[StreamForgotten]:
    touched = {held.stream_id for object_id in leaving for held in view.objects[object_id].ranges}
    for stream_id in sorted(touched):
        stream = view.streams[stream_id]
        if stream.state is StreamState.DELETED and all(held.object_id in leaving for held in stream.ranges):
            yield StreamForgotten(stream_id)
