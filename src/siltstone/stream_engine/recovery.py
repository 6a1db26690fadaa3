"""Recovery selects the records that the WAL of an earlier start holds and no object does; ``opening`` uploads them, or
the running engine does (``CarriedLog``).

As in AutoMQ's ``WALRecovery`` (T19), records of the streams that this node had open are accepted in order from the
committed end on; records that are committed already are skipped; a record after a hole is counted, and ``opening``
refuses to drop it. A trim beyond the committed end moves that end, perhaps into a batch: that batch is accepted whole
(T24, the first crossing).
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import suppress

import msgspec

from siltstone.metadata.commands import CloseStream
from siltstone.metadata.entities import StreamMetadata
from siltstone.metadata.refusals import StreamFenced, StreamNotExist
from siltstone.metadata.service import MetadataService
from siltstone.model.record_batch import RecordBatch
from siltstone.object_formats.batch_frame import encode_frame_header, frame_bytes
from siltstone.object_formats.log_file import WalRecord
from siltstone.stream_engine.tail.cache_block import CacheBlock, CachedBatch

log = logging.getLogger(__name__)

NO_LIMIT = 2**64


class CarriedLog(msgspec.Struct, frozen=True):
    """What a start could not upload, because the bucket refused or did not answer. The running engine has the blocks in
    its tail cache and uploads them. Until they are committed the log files of the earlier start stay, the log
    continues at ``end_position``, and ``streams`` stay open in the metadata under their epochs, so that a further start
    recovers them again."""

    blocks: tuple[CacheBlock, ...]
    end_position: int
    streams: tuple[StreamMetadata, ...]

    @property
    def stream_ends(self) -> dict[int, int]:
        """Stream id → the end offset of its last record."""
        return {
            stream_id: batches[-1].batch.end_offset
            for block in self.blocks
            for stream_id, batches in block.streams.items()
        }


NOTHING_CARRIED = CarriedLog((), 0, ())


class RecoveryFilter:
    """Decides which WAL records have to be uploaded, from the committed end of each stream that was open (T19)."""

    def __init__(self, committed_ends: Mapping[int, int], next_stream_id: int = NO_LIMIT) -> None:
        """``next_stream_id``: stream ids from this one on were never given out."""
        self._expected = dict(committed_ends)
        self._next_stream_id = next_stream_id
        self.end_position = 0
        """The log position after the last record that was read."""
        self.records_skipped = 0
        self.records_after_a_hole = 0
        self.records_of_no_stream = 0

    def accepts(self, batch: RecordBatch) -> bool:
        expected = self._expected.get(batch.stream_id)
        if batch.stream_id >= self._next_stream_id:
            self.records_of_no_stream += 1
            return False
        if expected is None or batch.end_offset <= expected:
            self.records_skipped += 1
            return False
        if batch.base_offset > expected:
            self.records_after_a_hole += 1
            log.warning(
                "stream %d is committed and recovered up to offset %d, and the write-ahead log continues it at %d: "
                "the records between were never acknowledged, or data is lost",
                batch.stream_id, expected, batch.base_offset,
            )  # fmt: skip
            return False
        self._expected[batch.stream_id] = batch.end_offset
        return True

    @property
    def records_lost(self) -> int:
        """The number of records that do not continue any stream of the metadata. It is 0 unless the log and the
        metadata do not belong together, or one of them is incomplete."""
        return self.records_after_a_hole + self.records_of_no_stream


async def close_in_metadata(
    metadata: MetadataService, node_id: int, node_epoch: int, streams: Iterable[StreamMetadata]
) -> None:
    """Closes streams that the node had open at its earlier start, except those that another node owns by now."""

    async def close(stream: StreamMetadata) -> None:
        with suppress(StreamFenced, StreamNotExist):
            await metadata.execute(CloseStream(node_id, node_epoch, stream.stream_id, stream.epoch))

    await asyncio.gather(*map(close, streams))


async def recovered_blocks(
    segments: AsyncIterator[list[WalRecord]],
    wanted: RecoveryFilter,
    block_bytes_max: int,
    block_streams_max: int,
) -> AsyncIterator[CacheBlock]:
    """Yields the accepted records as cache blocks of at most ``block_bytes_max`` bytes and ``block_streams_max``
    streams; a larger record makes a block of its own."""
    block = CacheBlock()
    async for records in segments:
        for record in records:
            wanted.end_position = record.end_position
            if not wanted.accepts(record.batch):
                continue
            cached = CachedBatch(record.batch, encode_frame_header(record.batch))
            if not block.is_empty and not _fits(block, cached, block_bytes_max, block_streams_max):
                yield block
                block = CacheBlock()
            block.put(cached, record.end_position)
    if not block.is_empty:
        yield block


def _fits(block: CacheBlock, cached: CachedBatch, bytes_max: int, streams_max: int) -> bool:
    size_bytes = block.size_bytes + frame_bytes(cached.batch)
    streams = len(block.streams) + (cached.batch.stream_id not in block.streams)
    return size_bytes <= bytes_max and streams <= streams_max
