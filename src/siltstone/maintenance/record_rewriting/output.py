"""The new objects of a task: frames are collected into blocks, and blocks into objects. One object is in memory at a
time.

The offset ranges of blocks are contiguous: a block begins where the one before it ended, even when the batches in
between were removed. So a reader that asks for a removed offset finds the next record, and no hole.
"""

import numpy as np

from siltstone.foundation.crc32c import crc32c
from siltstone.maintenance.record_rewriting.values import PlacesToWrite, WrittenStreamObject
from siltstone.model.buffers import Buffer
from siltstone.model.objects import object_key
from siltstone.model.record_batch import NO_TIMESTAMP, BlockEntry
from siltstone.object_formats.object_layout import ranges_of_entries, trailer_bytes
from siltstone.object_store.port import ObjectStore
from siltstone.record_columns.batches import Batches
from siltstone.record_columns.kernels import columns


class Output:
    """Writes the new objects. ``written`` lists the objects that are in the bucket."""

    def __init__(self, given: PlacesToWrite, store: ObjectStore) -> None:
        self._given = given
        self._store = store
        self._first_offset = given.sources[0].held.start_offset
        self._blocks: list[bytearray] = []
        self._entries: list[BlockEntry] = []
        self._position = 0
        self._next_offset: int | None = None
        self._block = _OpenBlock()
        self.written: list[WrittenStreamObject] = []
        self.bytes_written = 0

    def copy(self, batches: Batches, first: int, end: int) -> None:
        """Appends batches [first, end) unchanged."""
        self._begin(int(batches.base_offsets[first]))
        frame_ends = batches.column(columns.FRAME_END)
        while first < end:
            start = int(batches.column(columns.FRAME_AT)[first])
            room = self._given.block_bytes - len(self._block.data)
            until = min(end, int(np.searchsorted(frame_ends, start + room)) + 1)
            self._copy_run(batches, first, until, start)
            self._close_full()
            first = until

    def _copy_run(self, batches: Batches, first: int, until: int, start: int) -> None:
        smallest = batches.column(columns.SMALLEST_MS)[first:until]
        known = smallest[smallest != NO_TIMESTAMP]
        stop = int(batches.column(columns.FRAME_END)[until - 1])
        self._block.append(
            batches.data.data[start:stop],
            int(batches.end_offsets[until - 1]),
            int(batches.record_counts[first:until].sum()),
            int(known.min()) if len(known) else NO_TIMESTAMP,
            int(batches.column(columns.LARGEST_MS)[first:until].max()),
        )

    def finish(self) -> None:
        """Puts the last object."""
        if self._block.data:
            self._close_block()
        if self._blocks:
            self._close_object()

    def _begin(self, base_offset: int) -> None:
        """Sets where the range of the first block begins: at the stream's start offset, or at the base offset of a
        batch that the trim has cut through."""
        if self._next_offset is None:
            self._next_offset = max(self._first_offset, min(self._given.start_offset, base_offset))

    def _close_full(self) -> None:
        if len(self._block.data) >= self._given.block_bytes:
            self._close_block()
            is_last = len(self.written) + 1 >= self._given.object_count_max
            if self._position >= self._given.object_bytes and not is_last:
                self._close_object()

    def _close_block(self) -> None:
        block = self._block
        assert self._next_offset is not None
        self._entries.append(
            BlockEntry(
                stream_id=self._given.stream_id,
                start_offset=self._next_offset,
                end_offset=block.end_offset,
                record_count=block.record_count,
                position=self._position,
                size_bytes=len(block.data),
                smallest_timestamp_ms=block.smallest_ms,
                largest_timestamp_ms=block.largest_ms,
                crc32c=crc32c([block.data]),
            )
        )
        self._blocks.append(block.data)
        self._position += len(block.data)
        self._next_offset = block.end_offset
        self._block = _OpenBlock()

    def _close_object(self) -> None:
        object_id = self._given.first_object_id + len(self.written)
        trailer = trailer_bytes(self._entries, self._position)
        self._store.put(object_key(object_id), [*self._blocks, trailer])
        (held,) = ranges_of_entries(self._entries, object_id)
        size_bytes = self._position + len(trailer)
        self.written.append(WrittenStreamObject(object_id, size_bytes, held))
        self.bytes_written += size_bytes
        self._blocks, self._entries, self._position = [], [], 0


class _OpenBlock:
    __slots__ = ("data", "end_offset", "largest_ms", "record_count", "smallest_ms")

    def __init__(self) -> None:
        self.data = bytearray()
        self.end_offset = 0
        self.record_count = 0
        self.smallest_ms = NO_TIMESTAMP
        self.largest_ms = NO_TIMESTAMP

    def append(
        self, frames: Buffer, end_offset: int, record_count: int, smallest_ms: int, largest_ms: int
    ) -> None:
        is_first = not self.data
        self.data += frames
        self.end_offset = end_offset
        self.record_count += record_count
        if self.smallest_ms == NO_TIMESTAMP or NO_TIMESTAMP != smallest_ms < self.smallest_ms:
            self.smallest_ms = smallest_ms
        self.largest_ms = largest_ms if is_first else max(self.largest_ms, largest_ms)
