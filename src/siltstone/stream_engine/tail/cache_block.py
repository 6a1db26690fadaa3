"""A cache block: the batches of all streams that were appended between two seals. A block is uploaded, committed and
evicted as a whole:

ACTIVE → SEALED → COMMITTED → (evicted)
"""

from collections.abc import Mapping
from enum import Enum, auto

import msgspec

from siltstone.model.buffers import Buffer
from siltstone.model.limits import TAIL_CACHE_RECORD_OVERHEAD_BYTES
from siltstone.model.record_batch import RecordBatch


class CachedBatch(msgspec.Struct, frozen=True, gc=False):
    """A batch with the frame header that was encoded for the WAL; the upload uses the header again."""

    batch: RecordBatch
    frame_header: Buffer

    @property
    def charge_bytes(self) -> int:
        return charge_of(len(self.batch.payload))


def charge_of(payload_bytes: int) -> int:
    """Returns the bytes that a batch counts against the cache's limit: its payload and an overhead, so that a million
    empty batches are not free."""
    return payload_bytes + TAIL_CACHE_RECORD_OVERHEAD_BYTES


class CacheBlockState(Enum):
    ACTIVE = auto()
    SEALED = auto()
    COMMITTED = auto()


class CacheBlock:
    """``end_position`` is the WAL position after the block's last record: once the block is committed, the WAL may be
    trimmed up to it (rule 2)."""

    def __init__(self) -> None:
        self.first_put_ms: float | None = None
        self.state = CacheBlockState.ACTIVE
        self.size_bytes = 0
        self.charge_bytes = 0
        self.end_position = 0
        self._streams: dict[int, list[CachedBatch]] = {}

    @property
    def streams(self) -> Mapping[int, list[CachedBatch]]:
        """The batches of each stream, contiguous and in offset order."""
        return self._streams

    @property
    def is_empty(self) -> bool:
        return not self._streams

    def put(self, cached: CachedBatch, end_position: int) -> None:
        batch = cached.batch
        batches = self._streams.get(batch.stream_id)
        if batches is None:
            self._streams[batch.stream_id] = [cached]
        else:
            assert batches[-1].batch.end_offset == batch.base_offset, f"hole before {batch.base_offset}"
            batches.append(cached)
        self.size_bytes += len(batch.payload) + len(cached.frame_header)
        self.charge_bytes += cached.charge_bytes
        self.end_position = end_position

    def seal(self) -> None:
        assert self.state is CacheBlockState.ACTIVE and not self.is_empty
        self.state = CacheBlockState.SEALED

    def commit(self) -> None:
        assert self.state is CacheBlockState.SEALED
        self.state = CacheBlockState.COMMITTED
