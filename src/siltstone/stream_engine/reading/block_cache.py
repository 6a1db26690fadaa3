"""The block cache: blocks as they were read, bounded in bytes.

Blocks a sequential reader has done with go first, oldest first: catch-up data is read once. Then the least recently
used. The bytes of a block outlive its eviction as long as somebody holds a batch from it.

A block in memory: verified bytes, and what the cache and its readers remember about it.
"""

from collections import OrderedDict
from typing import TypeAlias

import msgspec

from siltstone.model.record_batch import BlockEntry
from siltstone.object_formats.block_index import verify_block
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


FINISHED_SHARE = 8
"""Finished blocks take at most this part of the cache. They serve readers close behind; keeping more makes each
sequential reader fill the whole cache with what nobody wants, at the price of fresh memory for every block."""


class BlockCacheStatistics(msgspec.Struct, frozen=True):
    blocks: int
    bytes_used: int
    hits: int
    misses: int
    evictions: int
    read_ahead_bytes_used: int
    read_ahead_bytes_wasted: int


class BlockCache:
    """Of one event loop. Invariant: what is charged never passes ``bytes_max``."""

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
        """Without counting as a use."""
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
        """A block larger than the whole cache is not kept."""
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
        """Somebody took batches from it."""
        if block.fetched_for is not None:
            block.fetched_for.block_was_used()
            block.fetched_for = None
            self._ahead_bytes_used += block.entry.size_bytes

    def mark_finished(self, block: Block) -> None:
        """A sequential reader has passed its end."""
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
