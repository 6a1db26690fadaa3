"""Destroying objects, and with the last one that holds a range of it forgetting a deleted stream."""

from collections.abc import Iterable

from siltstone.metadata.entities import StreamState
from siltstone.metadata.image import ImageView
from siltstone.metadata.records import ObjectsDestroyed, Record, StreamForgotten


def destruction(view: ImageView, object_ids: Iterable[int], now_ms: int) -> tuple[Record, ...]:
    """The records that destroy the objects. The stream's own record of deletion is what permits forgetting it."""
    leaving = tuple(object_ids)
    if not leaving:
        return ()
    return (ObjectsDestroyed(leaving, now_ms), *_forgetting(view, frozenset(leaving)))


def _forgetting(view: ImageView, leaving: frozenset[int]) -> Iterable[StreamForgotten]:
    touched = {held.stream_id for object_id in leaving for held in view.objects[object_id].ranges}
    for stream_id in sorted(touched):
        stream = view.streams[stream_id]
        if stream.state is StreamState.DELETED and all(held.object_id in leaving for held in stream.ranges):
            yield StreamForgotten(stream_id)
