"""A block in memory: verified bytes, and what the cache and its readers remember about it."""

from typing import TypeAlias

from siltstone.model.block import BlockEntry
from siltstone.object_formats.block_check import verify_block
from siltstone.stream_engine.reading.read_ahead import ReadAhead

BlockKey: TypeAlias = tuple[int, int]
"""Object id and position in the object. Objects are never changed, so neither is what a key stands for."""

BLOCK_OVERHEAD_BYTES = 512
"""What a cached block is charged besides its bytes, so that a million tiny blocks cannot pass the limit."""


class Block:
    """``fetched_for`` is the read-ahead that asked for it, until it is read: who then evicts it wasted a fetch.

    ``resume_position`` is where the first frame that ends after ``resume_offset`` begins: a reader that takes a
    block in many small reads does not walk over its frames from the beginning each time.
    """

    __slots__ = ("data", "entry", "fetched_for", "object_id", "resume_offset", "resume_position")

    def __init__(self, object_id: int, entry: BlockEntry, data: bytes) -> None:
        """Raises DamagedBlock: a block that exists is a block that was checked."""
        verify_block(data, entry, object_id)
        self.object_id = object_id
        self.entry = entry
        self.data = memoryview(data)
        self.fetched_for: ReadAhead | None = None
        self.resume_offset = entry.start_offset
        self.resume_position = 0

    @property
    def key(self) -> BlockKey:
        return self.object_id, self.entry.position

    @property
    def charge_bytes(self) -> int:
        return self.entry.size_bytes + BLOCK_OVERHEAD_BYTES
