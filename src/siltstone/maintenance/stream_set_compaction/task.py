"""``run_iteration`` is the task of a stream set object compaction.

What the task writes, and where, follows from its input, so it may run twice, or at the same time as another call with
the same input: both write the same bytes to the same keys and part numbers. Every block is verified against its index
entry before it is written, because rewriting a damaged block would give the damage a valid checksum.

A task holds in memory the blocks of the iteration, once, and the buffers of the store's client for concurrent requests.
"""

from collections.abc import Sequence
from concurrent.futures import Future
from typing import TypeVar

import numpy as np

from siltstone.maintenance.stream_set_compaction.task_input import (
    CODEC,
    IterationInput,
    IterationResult,
    PartPiece,
    StreamObjectPiece,
    WrittenObject,
)
from siltstone.model.buffers import total_bytes
from siltstone.model.objects import object_key
from siltstone.object_store.copies import Copies
from siltstone.object_store.port import ObjectStore, UploadedPart
from siltstone.offline.blocks.columns import ENTRY, Read, Table
from siltstone.offline.blocks.joining import trailer
from siltstone.offline.tasks.pacing import PacedThreads
from siltstone.offline.tasks.runner import peak_memory_bytes
from siltstone.offline.tasks.source_bytes import (
    SourceBytes,
    SourceError,
    blame,
    checked_blocks,
    copies_at,
    read_source,
    store_at,
)

T = TypeVar("T")

READS_SIDE_BY_SIDE = 4
WRITES_SIDE_BY_SIDE = 4
"""So many writes hide the latency of the store in one task, beside other tasks on the same machine."""


def run_iteration(data: bytes) -> bytes:
    """Runs the task. A source object that cannot be read is named in the result. Raises what the stores raise."""
    given = CODEC.decode_input(data)
    try:
        return CODEC.encode_result(_run(given))
    except SourceError as error:
        return CODEC.encode_result(IterationResult(number=given.iteration.number, failure=blame(error)))


def _run(given: IterationInput) -> IterationResult:
    work = _Work(given)
    readers = PacedThreads(READS_SIDE_BY_SIDE, thread_name_prefix="compaction-read")
    writers = PacedThreads(WRITES_SIDE_BY_SIDE, thread_name_prefix="compaction-write")
    try:
        return work.run(readers, writers)
    finally:
        # After a failure, requests that have not started are dropped, and the task waits for those that have.
        for pool in (readers, writers):
            pool.shutdown(wait=True, cancel_futures=True)


class _Work:
    def __init__(self, given: IterationInput) -> None:
        self._given = given
        self._iteration = given.iteration
        self._blocks: Table = np.frombuffer(given.iteration.blocks, dtype=ENTRY)
        self._stores = {bucket_id: store_at(url) for bucket_id, url in given.bucket_urls.items()}

    def run(self, readers: PacedThreads, writers: PacedThreads) -> IterationResult:
        wanted = zip(self._blocks["source"].tolist(), self._blocks["position"].tolist(), strict=True)
        sources = SourceBytes(self._iteration.reads, wanted, self._fetch, readers)
        objects = [
            writers.submit(self._write_stream_object, piece, bucket_id, sources)
            for piece, bucket_id in zip(self._iteration.stream_objects, self._given.bucket_ids, strict=True)
        ]
        part = self._iteration.part
        sent = [] if part is None else [writers.submit(self._write_part, part, sources)]
        written = tuple(_results(objects))
        parts = _results(sent)
        return IterationResult(
            number=self._iteration.number,
            stream_objects=written,
            part=parts[0] if parts else None,
            bytes_read=self._iteration.bytes_read,
            read_requests=len(self._iteration.reads),
            bytes_written=sum(each.size_bytes for each in written) + sum(each.size_bytes for each in parts),
            write_requests=len(written) + len(parts),
            peak_memory_bytes=peak_memory_bytes(),
        )

    def _fetch(self, read: Read) -> bytes:
        source = self._iteration.sources[read.source]
        return read_source(self._copies_of(read.source), source.object_id, read.start, read.end)

    def _copies_of(self, number: int) -> Copies:
        source = self._iteration.sources[number]
        urls = self._given.bucket_urls
        return copies_at(
            [(each, urls[each]) for each in (source.bucket_id, *source.copies)], source.object_id
        )

    def _store_of(self, bucket_id: int) -> ObjectStore:
        return self._stores[bucket_id]

    def _write_stream_object(
        self, piece: StreamObjectPiece, bucket_id: int, sources: SourceBytes
    ) -> WrittenObject:
        blocks = self._blocks[piece.first_block : piece.end_block]
        buffers = self._checked(blocks, sources)
        end = trailer(blocks, self._iteration.merged_block_bytes_max)
        size_bytes = total_bytes(buffers) + len(end)
        assert size_bytes == piece.size_bytes, f"{piece} has {size_bytes} bytes"
        object_id = self._given.first_object_id + piece.number
        self._store_of(bucket_id).put(object_key(object_id), [*buffers, end])
        return WrittenObject(object_id, size_bytes)

    def _write_part(self, piece: PartPiece, sources: SourceBytes) -> UploadedPart:
        assert self._given.upload is not None, "a part of no upload"
        buffers = self._checked(self._blocks[piece.first_block : piece.end_block], sources)
        end = [piece.trailer] if piece.trailer else []
        return self._store_of(self._given.set_bucket_id).upload_part(
            self._given.upload, piece.part_number, piece.position, [*buffers, *end]
        )

    def _checked(self, blocks: Table, sources: SourceBytes) -> list[memoryview]:
        object_ids = [source.object_id for source in self._iteration.sources]
        return checked_blocks(blocks, sources, object_ids, self._copies_of)


def _results(futures: Sequence["Future[T]"]) -> list[T]:
    return [future.result() for future in futures]
