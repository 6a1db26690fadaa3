"""The objects a compaction may replace, and why one of them is left alone."""

import msgspec

from siltstone.metadata.entities import ObjectMetadata
from siltstone.model.errors import CorruptData, InvalidRequest
from siltstone.object_formats.block_index import BlockIndex


class Source(msgspec.Struct, frozen=True):
    metadata: ObjectMetadata
    index: BlockIndex


class LeftOut(msgspec.Struct, frozen=True):
    """An object that stays as it is in this round, and the reason in one line."""

    object_id: int
    reason: str


class SourceUnusable(CorruptData):
    """An object and the image contradict each other. The object is left out of the plan; nothing of it is dropped."""


class OverlappingSources(CorruptData):
    """Two objects hold the same live offsets of a stream: the round is given up, ``siltstone check`` tells more."""


class MemoryLimitTooSmall(InvalidRequest):
    """An iteration could not hold even one block besides a part that is still too small to be sent."""
