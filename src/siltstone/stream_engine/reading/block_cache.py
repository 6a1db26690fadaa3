"""The block cache: verified blocks of objects, limited in bytes.

Blocks that a sequential reader has finished are evicted first, oldest first, because a reader that catches up reads
data once. After them the least recently used block is evicted. The bytes of an evicted block stay in memory as long
as a reader holds a batch from it.
"""

from collections import OrderedDict
from typing import TypeAlias

import msgspec

from siltstone.model.record_batch import BlockEntry
from siltstone.object_formats.block_index import verify_block
from siltstone.stream_engine.reading.read_ahead import ReadAhead

BlockKey: TypeAlias = tuple[int, int]
"""Object id and position in the object. Objects never change, so a key always means the same bytes."""

BLOCK_OVERHEAD_BYTES = 512
"""Bytes that a cached block is charged besides its own, so that a million tiny blocks cannot exceed the limit."""


FINISHED_SHARE = 8
"""Finished blocks take at most one part in FINISHED_SHARE of the cache. They serve readers that follow closely; with
more of them each sequential reader would fill the whole cache with blocks that are not read again, and every block
would need new memory."""


class Block:
    """``fetched_for`` is the read-ahead that fetched the block, until the block is first read; if it is evicted before,
    the fetch was wasted.

    ``resume_position`` is the position of the first frame that ends after ``resume_offset``, so a reader that takes a
    block in many small reads need not scan its frames from the beginning each time.
    """

    __slots__ = ("data", "entry", "fetched_for", "object_id", "resume_offset", "resume_position")

    def __init__(self, object_id: int, entry: BlockEntry, data: bytes) -> None:
        """Verifies the bytes, so every Block is undamaged. Raises DamagedBlock."""
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


class BlockCacheStatistics(msgspec.Struct, frozen=True):
    blocks: int
    bytes_used: int
    hits: int
    misses: int
    evictions: int
    read_ahead_bytes_used: int
    read_ahead_bytes_wasted: int


class BlockCache:
    """Belongs to one event loop. Invariant: the charges of all cached blocks never exceed ``bytes_max``."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._bytes_used = 0
        self._finished_bytes_max = bytes_max // FINISHED_SHARE
        self._finished_bytes = 0
        self._kept: OrderedDict[BlockKey, Block] = OrderedDict()
        self._finished: OrderedDict[BlockKey, Block] = OrderedDict()
        self._hits = 0
        self._misses = 0
        self._evictions = 0
        self._ahead_bytes_used = 0
        self._ahead_bytes_wasted = 0

    def __contains__(self, key: BlockKey) -> bool:
        """Returns whether the block is cached; unlike ``get``, this does not count as a use."""
        return key in self._kept or key in self._finished

    def get(self, key: BlockKey) -> Block | None:
        block = self._kept.get(key)
        if block is not None:
            self._kept.move_to_end(key)
        elif (block := self._finished.pop(key, None)) is not None:
            self._finished_bytes -= block.charge_bytes
            self._kept[key] = block
        self._hits += block is not None
        self._misses += block is None
        return block

    def put(self, block: Block) -> None:
        """Caches the block, evicting others to make room. A block larger than the whole cache is not cached."""
        if block.key in self:
            return
        if block.charge_bytes > self._bytes_max:
            self._dropped(block)
            return
        while self._bytes_used + block.charge_bytes > self._bytes_max:
            self._evict_one()
        self._kept[block.key] = block
        self._bytes_used += block.charge_bytes

    def mark_read(self, block: Block) -> None:
        """Notes that a reader has taken batches from the block."""
        if block.fetched_for is not None:
            block.fetched_for.block_was_used()
            block.fetched_for = None
            self._ahead_bytes_used += block.entry.size_bytes

    def mark_finished(self, block: Block) -> None:
        """Notes that a sequential reader has passed the end of the block."""
        if self._kept.pop(block.key, None) is None:
            return
        self._finished[block.key] = block
        self._finished_bytes += block.charge_bytes
        while self._finished_bytes > self._finished_bytes_max:
            self._evict_one()

    def statistics(self) -> BlockCacheStatistics:
        return BlockCacheStatistics(
            blocks=len(self._kept) + len(self._finished),
            bytes_used=self._bytes_used,
            hits=self._hits,
            misses=self._misses,
            evictions=self._evictions,
            read_ahead_bytes_used=self._ahead_bytes_used,
            read_ahead_bytes_wasted=self._ahead_bytes_wasted,
        )

    def _evict_one(self) -> None:
        if self._finished:
            _, block = self._finished.popitem(last=False)
            self._finished_bytes -= block.charge_bytes
        else:
            _, block = self._kept.popitem(last=False)
        self._bytes_used -= block.charge_bytes
        self._evictions += 1
        self._dropped(block)

    def _dropped(self, block: Block) -> None:
        if block.fetched_for is not None:
            block.fetched_for.block_was_wasted()
            block.fetched_for = None
            self._ahead_bytes_wasted += block.entry.size_bytes
