"""The progress of consumer groups, which maintenance knows without a broker, and the limit that it sets to retention in
topics that are kept until their groups have read them (siltstone.retention.ack). Pure.

The progress of a group is one metadata key:

    key      group-progress/<group>
    value    {"version": 1,
              "offsets": {<topic id, 32 hex digits>: [offset of partition 0, of partition 1, …]},
              "let_go": [<topic id>, …]}

An offset of -1, or a missing one, means that the group has committed no offset there and is at the beginning.
``let_go`` lists topics that were registered with the group when it was deleted (DeleteGroups); they do not wait for it
until it commits again.

Brokers write the key (``broker.backlog.progress_mirror``), never ahead of what is durable in ``__consumer_offsets``.
After a crash it may lag behind, and then more data is kept.

Retention drops whole segments from the front, so one offset bounds it: a segment may be trimmed when every registered
group has committed its end offset or a later one (R6). Everything after the slowest group's offset stays, even when all
other groups have read it (the first gate of Pulsar's trimming).
"""

from collections.abc import Callable, Iterator, Mapping

import msgspec

from siltstone.foundation.quantity_words import size_words
from siltstone.maintenance.retention.past import bytes_within
from siltstone.metadata.entities import StreamMetadata
from siltstone.metadata.image import ImageView
from siltstone.model.errors import CorruptData
from siltstone.offline.topic_streams import Role, TopicStream

KEY_PREFIX = "group-progress/"
VERSION = 1
NO_OFFSET = -1


class DamagedGroupProgress(CorruptData):
    """The value of a group's key cannot be decoded, or was written by a newer version."""


class GroupProgress(msgspec.Struct, frozen=True):
    """The value of a group's key."""

    offsets: dict[str, tuple[int, ...]] = {}
    let_go: tuple[str, ...] = ()
    version: int = VERSION

    def offset(self, topic_id: str, partition: int) -> int:
        """Returns the committed offset, or NO_OFFSET when the group has committed none there."""
        offsets = self.offsets.get(topic_id, ())
        return offsets[partition] if partition < len(offsets) else NO_OFFSET

    def is_waited_for(self, topic_id: str) -> bool:
        return topic_id not in self.let_go


def key_of(group: str) -> str:
    return f"{KEY_PREFIX}{group}"


def encode_progress(progress: GroupProgress) -> bytes:
    return msgspec.json.encode(progress)


def decode_progress(encoded: bytes) -> GroupProgress:
    """Decodes the value of a group's key. Raises DamagedGroupProgress."""
    try:
        progress = msgspec.json.decode(encoded, type=GroupProgress)
    except (msgspec.DecodeError, UnicodeDecodeError) as damage:
        raise DamagedGroupProgress(f"the progress of a group cannot be read: {damage}") from damage
    if progress.version != VERSION:
        raise DamagedGroupProgress(
            f"the progress of a group has version {progress.version}; this program reads {VERSION}"
        )
    return progress


def progress_of(keys: Mapping[str, bytes], group: str) -> GroupProgress | None:
    """Returns the progress of a group; None when it has never committed an offset. Raises DamagedGroupProgress."""
    encoded = keys.get(key_of(group))
    return None if encoded is None else decode_progress(encoded)


def committed_offset(image: ImageView, group: str, topic_id: str, partition: int) -> int | None:
    """Returns the offset that the group has committed for a partition; None when it has committed none. Raises
    DamagedGroupProgress."""
    progress = progress_of(image.keys, group)
    offset = NO_OFFSET if progress is None else progress.offset(topic_id, partition)
    return None if offset == NO_OFFSET else offset


def is_waited_for(image: ImageView, group: str, topic_id: str) -> bool:
    """Returns whether retention of a topic waits for a group that the topic is registered with. Raises
    DamagedGroupProgress."""
    progress = progress_of(image.keys, group)
    return progress is None or progress.is_waited_for(topic_id)


class GroupBound(msgspec.Struct, frozen=True):
    """Segments that end at ``offset`` or before may be trimmed: ``group`` is the slowest and has committed that offset.
    ``blocked_bytes`` counts what has to stay because of it, in whole segments and the data after them. ``reason`` says
    it in a sentence."""

    offset: int
    group: str
    blocked_bytes: int
    reason: str


def bound_of(image: ImageView) -> Callable[[TopicStream], tuple[int, str] | None]:
    """Returns a function that returns how far a stream may be trimmed because of consumer groups, and the reason; None
    when no group limits it."""

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
    """Yields, for each group that retention waits for: its offset, its name, and, when it counts as being at the
    beginning, the reason for that."""
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
