"""How far retention may go in topics that are kept until their groups have read them (siltstone.retention.ack). Pure.

Retention drops whole segments from the front, so the bound is one: the end of the last segment that every registered
group has committed to its end (R6). What lies behind the slowest group's offset stays, be it read by all the others
(the first gate of Pulsar's trimming).
"""

from collections.abc import Callable, Iterator

import msgspec

from siltstone.foundation.quantity_words import size_words
from siltstone.maintenance.group_progress import NO_OFFSET, DamagedGroupProgress, progress_of
from siltstone.maintenance.topic_streams import Role, TopicStream
from siltstone.metadata.entities import StreamMetadata
from siltstone.metadata.image import ImageView


class GroupBound(msgspec.Struct, frozen=True):
    """Segments that end at ``offset`` or before may go. ``blocked_bytes``: those of the closed ones that may not,
    because of ``group``, the slowest, which is at ``group_offset``. ``reason`` says the same to people."""

    offset: int
    group: str
    group_offset: int
    blocked_bytes: int
    reason: str


def bound_of(image: ImageView) -> Callable[[TopicStream], tuple[int, str] | None]:
    """What retention asks of each stream of record batches. None: nobody is waited for."""

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
    group_offset, group, trouble = slowest
    metadata = image.streams[stream.stream_id]
    offset, blocked_bytes = _within_segments(metadata, group_offset)
    return GroupBound(offset, group, group_offset, blocked_bytes, _reason(group, blocked_bytes, trouble))


def _positions(image: ImageView, stream: TopicStream) -> Iterator[tuple[int, str, str]]:
    """Offset, group, and what is wrong with what is known of it: then it is not known to have read anything."""
    start = image.streams[stream.stream_id].start_offset
    for group in stream.config.retention_groups:
        try:
            progress = progress_of(image.keys, group)
        except DamagedGroupProgress as damage:
            yield start, group, str(damage)
            continue
        if progress is None:
            yield start, group, "it has committed nothing"
        elif progress.is_waited_for(stream.topic.topic_id):
            offset = progress.offset(stream.topic.topic_id, stream.partition)
            yield max(start, offset), group, "it has committed nothing" if offset == NO_OFFSET else ""


def _within_segments(stream: StreamMetadata, group_offset: int) -> tuple[int, int]:
    """The bound, and the bytes of the closed segments behind it."""
    bound, blocked_bytes = stream.start_offset, 0
    for segment in stream.segments:
        if segment.end_offset <= group_offset:
            bound = segment.end_offset
        else:
            blocked_bytes += segment.size_bytes
    return bound, blocked_bytes


def _reason(group: str, blocked_bytes: int, trouble: str) -> str:
    waiting = f"{size_words(blocked_bytes)} wait for group {group}"
    return f"{waiting}: {trouble}" if trouble else waiting
