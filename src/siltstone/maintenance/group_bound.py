"""How far retention may go in topics that are kept until their groups have read them (siltstone.retention.ack). Pure.

Retention drops whole segments from the front, so the bound is one: a segment may go when every registered group has
committed to its end or beyond (R6). What lies behind the slowest group's offset stays, be it read by all the others
(the first gate of Pulsar's trimming).
"""

from collections.abc import Callable, Iterator

import msgspec

from siltstone.foundation.quantity_words import size_words
from siltstone.maintenance.group_progress import NO_OFFSET, DamagedGroupProgress, progress_of
from siltstone.maintenance.retention.past import bytes_within
from siltstone.maintenance.topic_streams import Role, TopicStream
from siltstone.metadata.entities import StreamMetadata
from siltstone.metadata.image import ImageView


class GroupBound(msgspec.Struct, frozen=True):
    """Segments that end at ``offset`` or before may go; there is ``group``, the slowest. ``blocked_bytes``: what
    therefore stays, whole segments and what follows them. ``reason`` says the same to people."""

    offset: int
    group: str
    blocked_bytes: int
    reason: str


def bound_of(image: ImageView) -> Callable[[TopicStream], tuple[int, str] | None]:
    """What retention asks about each stream of record batches. None: nobody is waited for."""

    def bound(stream: TopicStream) -> tuple[int, str] | None:
        found = group_bound(image, stream)
        return None if found is None else (found.offset, found.reason)

    return bound


def group_bound(image: ImageView, stream: TopicStream) -> GroupBound | None:
    if not stream.config.retention_ack or stream.role is not Role.BATCHES:
        return None
    slowest = min(_positions(image, stream), default=None)
    if slowest is None:
        return None
    offset, group, trouble = slowest
    blocked_bytes = _blocked_bytes(image.streams[stream.stream_id], offset)
    waiting = f"{size_words(blocked_bytes)} wait for group {group}"
    return GroupBound(offset, group, blocked_bytes, f"{waiting}: {trouble}" if trouble else waiting)


def _positions(image: ImageView, stream: TopicStream) -> Iterator[tuple[int, str, str]]:
    """Offset, group, and why it is at the beginning: because it is not known to have read anything."""
    start = image.streams[stream.stream_id].start_offset
    for group in stream.config.retention_groups:
        try:
            progress = progress_of(image.keys, group)
        except DamagedGroupProgress as damage:
            yield start, group, str(damage)
            continue
        if progress is not None and not progress.is_waited_for(stream.topic.topic_id):
            continue
        offset = NO_OFFSET if progress is None else progress.offset(stream.topic.topic_id, stream.partition)
        yield max(start, offset), group, "it has committed nothing" if offset == NO_OFFSET else ""


def _blocked_bytes(stream: StreamMetadata, offset: int) -> int:
    closed = sum(segment.size_bytes for segment in stream.segments if segment.end_offset > offset)
    return closed + bytes_within(stream, max(stream.active_offset, offset), stream.end_offset)
