"""Checking that a block is what its index entry says: done once, whenever a block has been read."""

from siltstone.foundation.crc32c import crc32c
from siltstone.model.block import BlockEntry
from siltstone.model.buffers import Buffer
from siltstone.model.errors import CorruptData


class DamagedBlock(CorruptData):
    """The bytes of a block are not what was written."""


def verify_block(raw: Buffer, entry: BlockEntry, object_id: int) -> None:
    """Raises DamagedBlock."""
    if len(raw) != entry.size_bytes:
        raise DamagedBlock(f"{_where(entry, object_id)} has {entry.size_bytes} bytes, {len(raw)} were read")
    if crc32c([raw]) != entry.crc32c:
        raise DamagedBlock(f"{_where(entry, object_id)} is damaged: its checksum does not match")


def _where(entry: BlockEntry, object_id: int) -> str:
    return (
        f"block at {entry.position} of object {object_id}, stream {entry.stream_id}"
        f" [{entry.start_offset}, {entry.end_offset}),"
    )
