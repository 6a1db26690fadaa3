"""Checking that a block is what its index entry says: done once, whenever a block has been read."""

from siltstone.foundation.crc32c import crc32c
from siltstone.model.block import BlockEntry
from siltstone.model.buffers import Buffer
from siltstone.model.errors import CorruptData


class DamagedBlock(CorruptData):
    """The bytes of a block are not what was written. Carries the object id and the block's index entry."""

    def __init__(self, entry: BlockEntry, object_id: int, what_is_wrong: str) -> None:
        super().__init__(
            f"block at {entry.position} of object {object_id}, stream {entry.stream_id}"
            f" [{entry.start_offset}, {entry.end_offset}), {what_is_wrong}"
        )
        self.entry = entry
        self.object_id = object_id


def verify_block(raw: Buffer, entry: BlockEntry, object_id: int) -> None:
    """Raises DamagedBlock."""
    if len(raw) != entry.size_bytes:
        raise DamagedBlock(entry, object_id, f"has {entry.size_bytes} bytes, {len(raw)} were read")
    if crc32c([raw]) != entry.crc32c:
        raise DamagedBlock(entry, object_id, "is damaged: its checksum does not match")
