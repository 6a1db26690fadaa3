"""The tail cache: cache blocks in seal order, and an index by stream for readers.

Blocks that are not committed are the only copy besides the WAL and are never evicted; the engine admits an append only
when there is room for it. Committed blocks stay as a read cache and are evicted, oldest first, when room is needed.
"""

from collections import deque
from collections.abc import Sequence

import msgspec

from siltstone.model.record_batch import RecordBatch
from siltstone.stream_engine.tail.cache_block import CacheBlock, CacheBlockState, CachedBatch
from siltstone.stream_engine.tail.stream_tail import StreamTail


class TailCacheStatistics(msgspec.Struct, frozen=True):
    bytes_used: int
    bytes_uncommitted: int
    bytes_max: int
    blocks: int
    streams: int


class TailCache:
    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self.active = CacheBlock()
        self._closed: deque[CacheBlock] = deque()
        self._tails: dict[int, StreamTail] = {}
        self._used_bytes = 0
        self._uncommitted_bytes = 0
        self._reserved_bytes = 0
        self._blocks_uploading = 0

    # -- room --------------------------------------------------------------------------------------------

    def has_room_for(self, charge_bytes: int) -> bool:
        return self._uncommitted_bytes + self._reserved_bytes + charge_bytes <= self._bytes_max

    def reserve(self, charge_bytes: int) -> None:
        """Reserves room for an append that is being written to the WAL."""
        self._reserved_bytes += charge_bytes
        self._evict()

    # -- filling -----------------------------------------------------------------------------------------

    def put(self, cached: CachedBatch, end_position: int) -> None:
        """Puts a batch that is durable now, into the room that was reserved for it. Batches are put in WAL order."""
        charge_bytes = cached.charge_bytes
        self._reserved_bytes -= charge_bytes
        self._used_bytes += charge_bytes
        self._uncommitted_bytes += charge_bytes
        self.active.put(cached, end_position)
        batch = cached.batch
        tail = self._tails.get(batch.stream_id)
        if tail is None:
            tail = self._tails[batch.stream_id] = StreamTail()
        tail.put(batch)

    def carry(self, block: CacheBlock) -> None:
        """Puts the batches of a block that an earlier start has left into the active block, which is empty. They have
        room: what does not fit is uploaded before the engine starts."""
        for batches in block.streams.values():
            for cached in batches:
                self.reserve(cached.charge_bytes)
                self.put(cached, block.end_position)

    def seal(self) -> CacheBlock:
        """Seals the active block, which must not be empty, and begins the next; returns the sealed block."""
        block = self.active
        block.seal()
        self._closed.append(block)
        self._blocks_uploading += 1
        self.active = CacheBlock()
        return block

    def commit(self, block: CacheBlock) -> None:
        block.commit()
        self._blocks_uploading -= 1
        self._uncommitted_bytes -= block.charge_bytes
        self._evict()

    @property
    def is_uploading(self) -> bool:
        """Whether a sealed block is not committed yet; its commit will make room."""
        return self._blocks_uploading > 0

    # -- reading -----------------------------------------------------------------------------------------

    def suffix(self, stream_id: int, start: int, end: int) -> Sequence[RecordBatch]:
        """See StreamTail.suffix."""
        tail = self._tails.get(stream_id)
        return tail.suffix(start, end) if tail is not None else ()

    def window(self, stream_id: int, start: int, end: int, bytes_max: int) -> list[RecordBatch] | None:
        """See StreamTail.window."""
        tail = self._tails.get(stream_id)
        return tail.window(start, end, bytes_max) if tail is not None else None

    def bytes_from(self, stream_id: int, start: int) -> int | None:
        """See StreamTail.bytes_from."""
        tail = self._tails.get(stream_id)
        return tail.bytes_from(start) if tail is not None else None

    def has_uncommitted(self, stream_id: int) -> bool:
        """Returns whether a cached batch of the stream is not committed yet."""
        if stream_id in self.active.streams:
            return True
        sealed = (block for block in self._closed if block.state is CacheBlockState.SEALED)
        return any(stream_id in block.streams for block in sealed)

    @property
    def oldest_uncommitted_ms(self) -> float | None:
        """When the oldest batch that is not committed was put, by the monotonic clock; None if all are committed."""
        for block in self._closed:
            if block.state is CacheBlockState.SEALED:
                return block.first_put_ms
        return self.active.first_put_ms

    def statistics(self) -> TailCacheStatistics:
        return TailCacheStatistics(
            bytes_used=self._used_bytes,
            bytes_uncommitted=self._uncommitted_bytes,
            bytes_max=self._bytes_max,
            blocks=len(self._closed) + 1,
            streams=len(self._tails),
        )

    # -- eviction ----------------------------------------------------------------------------------------

    def evict_committed(self) -> None:
        """Drops the committed batches, however much room there is; those behind an older block that is still being
        uploaded stay."""
        while self._closed and self._closed[0].state is CacheBlockState.COMMITTED:
            self._forget(self._closed.popleft())

    def _evict(self) -> None:
        while self._used_bytes + self._reserved_bytes > self._bytes_max and self._closed:
            if self._closed[0].state is not CacheBlockState.COMMITTED:
                return
            self._forget(self._closed.popleft())

    def _forget(self, block: CacheBlock) -> None:
        self._used_bytes -= block.charge_bytes
        for stream_id, batches in block.streams.items():
            tail = self._tails[stream_id]
            tail.evict_through(batches[-1].batch.end_offset)
            if not len(tail):
                del self._tails[stream_id]
