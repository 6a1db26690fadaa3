"""``run_copies`` is the task of a stream object compaction.

What the task writes, and where, follows from its input, so it may run twice, or at the same time as another call with
the same input. A failure of an object or of the store is returned, not raised, because it concerns one merge group
only, and the other groups of the wave are not affected.

A task holds in memory the read parts that are written at the same time; each is smaller than three times the smallest
part and a block.
"""

import numpy as np

from siltstone.maintenance.stream_object_compaction.merge import CopiedPart, ReadPart
from siltstone.maintenance.stream_object_compaction.task_input import CODEC, CopyInput, CopyResult
from siltstone.model.buffers import Buffer, total_bytes
from siltstone.model.errors import SiltstoneError
from siltstone.model.objects import object_key
from siltstone.object_store.copies import Copies
from siltstone.object_store.port import UploadedPart
from siltstone.offline.blocks.columns import ENTRY, Read, Table, plan_reads
from siltstone.offline.tasks.pacing import PacedThreads
from siltstone.offline.tasks.runner import TaskFailure, failure_in_one_line, peak_memory_bytes
from siltstone.offline.tasks.source_bytes import (
    SourceBytes,
    SourceError,
    blame,
    blaming,
    checked_blocks,
    copies_at,
    read_source,
    store_at,
)

PARTS_SIDE_BY_SIDE = 4
READS_SIDE_BY_SIDE = 8
"""A thread waits for the store most of the time, and small members need many small reads."""


def run_copies(data: bytes) -> bytes:
    """Runs the task. It raises only for a bug: failures are in the result."""
    given = CODEC.decode_input(data)
    try:
        return CODEC.encode_result(_run(given))
    except SourceError as error:
        return CODEC.encode_result(CopyResult(failure=blame(error)))
    except SiltstoneError as error:
        failure = TaskFailure(failure_in_one_line(error))
        return CODEC.encode_result(CopyResult(failure=failure))


def _run(given: CopyInput) -> CopyResult:
    readers = PacedThreads(READS_SIDE_BY_SIDE, thread_name_prefix="merge-read")
    writers = PacedThreads(PARTS_SIDE_BY_SIDE, thread_name_prefix="merge-write")
    work = _Work(given, readers)
    try:
        copied = [writers.submit(work.copy, part) for part in given.copied]
        written = [writers.submit(work.write, part) for part in given.read]
        copied_parts = [each.result() for each in copied]
        written_parts = [each.result() for each in written]
    finally:
        # After a failure, requests that have not started are dropped, and the task waits for those that have.
        for pool in (writers, readers):
            pool.shutdown(wait=True, cancel_futures=True)
    return CopyResult(
        parts=(*copied_parts, *written_parts),
        bytes_read=work.bytes_read,
        bytes_written=sum(part.size_bytes for part in written_parts),
        bytes_copied=sum(part.size_bytes for part in copied_parts),
        peak_memory_bytes=peak_memory_bytes(),
    )


class _Work:
    def __init__(self, given: CopyInput, readers: PacedThreads) -> None:
        self._given = given
        self._readers = readers
        self._store = store_at(given.bucket_url)
        self._blocks: Table = np.frombuffer(given.blocks, dtype=ENTRY)
        self._object_ids = given.source_ids

    @property
    def bytes_read(self) -> int:
        return int(self._blocks["size_bytes"].sum())

    def copy(self, part: CopiedPart) -> UploadedPart:
        assert self._given.upload is not None, "a range is copied into an upload"
        object_id = self._object_ids[part.source]
        with blaming(object_id):
            return self._store.copy_part(
                self._given.upload,
                part.part_number,
                part.position,
                object_key(object_id),
                part.start,
                part.end,
            )

    def write(self, part: ReadPart) -> UploadedPart:
        blocks = self._blocks[part.first_block : part.end_block]
        buffers: list[Buffer] = [*self._read(blocks)]
        if part.trailer:
            buffers.append(part.trailer)
        if self._given.upload is None:
            self._store.put(self._given.key, buffers)
            return UploadedPart(part.part_number, part.position, total_bytes(buffers))
        return self._store.upload_part(self._given.upload, part.part_number, part.position, buffers)

    def _read(self, blocks: Table) -> list[memoryview]:
        """Reads the blocks and verifies them. Raises DamagedBlock, and what the store raises."""
        wanted = zip(blocks["source"].tolist(), blocks["position"].tolist(), strict=True)
        reads = plan_reads(blocks, self._given.read_request_bytes_max)
        return checked_blocks(
            blocks, SourceBytes(reads, wanted, self._fetch, self._readers), self._object_ids, self._copies_of
        )

    def _fetch(self, read: Read) -> bytes:
        return read_source(self._copies_of(read.source), self._object_ids[read.source], read.start, read.end)

    def _copies_of(self, number: int) -> Copies:
        given = self._given
        urls = given.copies[number] if given.copies else ((0, given.source_url or given.bucket_url),)
        return copies_at(urls, self._object_ids[number])
