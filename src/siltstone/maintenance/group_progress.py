"""How far the groups have come that topics are kept for: what maintenance knows of them with no broker present.

    key      group-progress/<group>
    value    {"version": 1,
              "offsets": {<topic id, 32 hex digits>: [offset of partition 0, of partition 1, …]},
              "let_go": [<topic id>, …]}

An offset of -1, or none, says that the group has committed none there: it is at the beginning. ``let_go``: topics that
named the group when it was deleted (DeleteGroups); they wait for it no more, until it comes back.

Brokers write it (``broker.backlog.progress_mirror``), never ahead of what is durable in ``__consumer_offsets``. After a
crash it may lag behind, and then more is kept. Who decides by it: ``group_bound``.
"""

from collections.abc import Mapping

import msgspec

from siltstone.metadata.image import ImageView
from siltstone.model.errors import CorruptData

KEY_PREFIX = "group-progress/"
VERSION = 1
NO_OFFSET = -1


class DamagedGroupProgress(CorruptData):
    """The value is not one of ours, or a newer program's."""


class GroupProgress(msgspec.Struct, frozen=True):
    offsets: dict[str, tuple[int, ...]] = {}
    let_go: tuple[str, ...] = ()
    version: int = VERSION

    def offset(self, topic_id: str, partition: int) -> int:
        """NO_OFFSET: it has committed none."""
        offsets = self.offsets.get(topic_id, ())
        return offsets[partition] if partition < len(offsets) else NO_OFFSET

    def is_waited_for(self, topic_id: str) -> bool:
        return topic_id not in self.let_go


def key_of(group: str) -> str:
    return f"{KEY_PREFIX}{group}"


def encode_progress(progress: GroupProgress) -> bytes:
    return msgspec.json.encode(progress)


def decode_progress(encoded: bytes) -> GroupProgress:
    """Raises DamagedGroupProgress."""
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
    """None: it has never committed anything. Raises DamagedGroupProgress."""
    encoded = keys.get(key_of(group))
    return None if encoded is None else decode_progress(encoded)


def committed_offset(image: ImageView, group: str, topic_id: str, partition: int) -> int | None:
    """None: it has committed none there. Raises DamagedGroupProgress."""
    progress = progress_of(image.keys, group)
    offset = NO_OFFSET if progress is None else progress.offset(topic_id, partition)
    return None if offset == NO_OFFSET else offset


def is_waited_for(image: ImageView, group: str, topic_id: str) -> bool:
    """Of a group that the topic is registered with. Raises DamagedGroupProgress."""
    progress = progress_of(image.keys, group)
    return progress is None or progress.is_waited_for(topic_id)
