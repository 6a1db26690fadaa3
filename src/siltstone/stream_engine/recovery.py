"""Recovery selects the records that the WAL of an earlier start holds and no object does; ``opening`` uploads them, or
the running engine does (``CarriedLog``).

As in AutoMQ's ``WALRecovery`` (T19), records of the streams that this node had open are accepted in order from the
committed end on, and records that the metadata proves to be committed are skipped. A trim beyond the committed end
moves that end, perhaps into a batch: that batch is accepted whole (T24, the first crossing). Records that fit nowhere
refuse the start, before anything of the log is uploaded or deleted (rule 13); ``record_fates`` decides about each.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import suppress

import msgspec

from siltstone.foundation.quantity_words import counted
from siltstone.metadata.commands import CloseStream
from siltstone.metadata.entities import NO_NODE, StreamMetadata
from siltstone.metadata.image import MetadataImage
from siltstone.metadata.refusals import StreamFenced, StreamNotExist
from siltstone.metadata.service import MetadataService
from siltstone.model.record_batch import RecordBatch
from siltstone.object_formats.batch_frame import encode_frame_header, frame_bytes
from siltstone.object_formats.log_file import DamagedWal, WalRecord
from siltstone.stream_engine.record_fates import Fate, fate_of
from siltstone.stream_engine.tail.cache_block import CacheBlock, CachedBatch


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


class RecordsFitNowhere(DamagedWal):
    """The log holds records that continue no open stream, and the metadata does not prove that they were committed,
    trimmed or deleted. The metadata is an older copy, or part of the log is missing."""

    def __init__(self, first: RecordBatch, fate: Fate, records: int, version: int, evidence: str) -> None:
        self.stream_id = first.stream_id
        self.base_offset = first.base_offset
        self.end_offset = first.end_offset
        self.fate = fate
        self.records = records
        self.version = version
        super().__init__(
            f"{counted(records, 'batch', 'batches')} in the write-ahead log fit nowhere in the metadata, which is at "
            f"version {version}: the first has the offsets {first.base_offset} to {first.end_offset - 1} of stream "
            f"{first.stream_id}, appended under its epoch {first.stream_epoch}, and {evidence}. Nothing is deleted. "
            "Restore the newest copy of the metadata, and the whole log beside it"
        )


class RecoveryFilter:
    """Decides which records of the log of ``node_id`` have to be uploaded, by the metadata (``record_fates``).

    ``is_given_up``: a person has given this log up, so what fits nowhere is dropped and counted."""

    def __init__(self, image: MetadataImage, node_id: int, *, is_given_up: bool = False) -> None:
        self._image = image
        self._node_id = node_id
        self._is_given_up = is_given_up
        self._ends: dict[int, int] = {}
        self._first_misfit: tuple[RecordBatch, Fate, str] | None = None
        self.end_position = 0
        """The log position after the last record that was read."""
        self.counts: Counter[Fate] = Counter()

    def accepts(self, batch: RecordBatch) -> bool:
        stream = self._image.streams.get(batch.stream_id)
        end_offset = self._ends.get(batch.stream_id, 0 if stream is None else stream.end_offset)
        fate = fate_of(batch, stream, self._image.next_stream_id, self._node_id, end_offset)
        self.counts[fate] += 1
        if fate is Fate.REPLAYED:
            self._ends[batch.stream_id] = batch.end_offset
        elif fate.is_refused and self._first_misfit is None:
            self._first_misfit = batch, fate, _evidence(fate, stream, end_offset)
        return fate is Fate.REPLAYED

    @property
    def records_refused(self) -> int:
        """The number of batches that fit nowhere. It is 0 unless log and metadata do not belong together, or
        one of them is incomplete."""
        return sum(count for fate, count in self.counts.items() if fate.is_refused)

    @property
    def records_skipped(self) -> int:
        return sum(self.counts[fate] for fate in (Fate.COMMITTED, Fate.TRIMMED, Fate.DELETED))

    def refuse_misfits(self) -> None:
        """Raises RecordsFitNowhere when some records fit nowhere: the log, which is deleted after its replay, may be
        their only copy."""
        if self._first_misfit is None or self._is_given_up:
            return
        batch, fate, evidence = self._first_misfit
        raise RecordsFitNowhere(batch, fate, self.records_refused, self._image.version, evidence)


def _evidence(fate: Fate, stream: StreamMetadata | None, end_offset: int) -> str:
    if stream is None or fate is Fate.NEVER_CREATED:
        return "the metadata has never created that stream: it is an older copy, or another store's"
    if fate is Fate.NEVER_OPENED:
        return f"the metadata knows that stream under epoch {stream.epoch} at most"
    if fate is Fate.AFTER_A_HOLE:
        return (
            f"that stream is committed and recovered up to offset {end_offset}: part of the log is missing, or the "
            "metadata is an older copy"
        )
    whose = "at no node" if stream.owner == NO_NODE else f"at node {stream.owner}"
    return (
        f"the metadata does not show that they were committed: it has that stream {stream.state.name} {whose} under "
        f"epoch {stream.epoch} up to offset {end_offset}"
    )


async def close_in_metadata(
    metadata: MetadataService, node_id: int, node_epoch: int, streams: Iterable[StreamMetadata]
) -> None:
    """Closes streams that the node had open at its earlier start, unless another node owns them by now."""

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
