"""The task of a stream object compaction: ``run_copies``.

What it writes, and where, follows from the unit, so it may run twice, or beside another attempt of itself. What goes
wrong with the object or the store is an answer and no exception: it is that group's trouble, and the other groups of
the wave go on.

Memory: the read parts side by side, each less than three times the smallest part, and a block.
"""

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from siltstone.maintenance.planning.columns import ENTRY, Table
from siltstone.maintenance.planning.reads import Read, plan_reads
from siltstone.maintenance.planning.stream_objects.parts import CopiedPart, ReadPart
from siltstone.maintenance.rewriting.checked_blocks import checked_blocks
from siltstone.maintenance.rewriting.run import peak_memory_bytes
from siltstone.maintenance.rewriting.source_bytes import SourceBytes
from siltstone.maintenance.rewriting.stores import store_at
from siltstone.maintenance.runner import failure_in_one_line
from siltstone.maintenance.stream_object_compaction.unit import (
    CopyResult,
    CopyUnit,
    decode_unit,
    encode_result,
)
from siltstone.model.buffers import Buffer, total_bytes
from siltstone.model.errors import SiltstoneError
from siltstone.model.objects import object_key
from siltstone.object_store.port import UploadedPart

PARTS_SIDE_BY_SIDE = 4
READS_SIDE_BY_SIDE = 8
"""Each waits for the store most of the time; small members are many small reads."""


def run_copies(unit: bytes) -> bytes:
    given = decode_unit(unit)
    try:
        return encode_result(_run(given))
    except SiltstoneError as failure:
        return encode_result(CopyResult(number=given.number, failure=failure_in_one_line(failure)))


def _run(unit: CopyUnit) -> CopyResult:
    readers = ThreadPoolExecutor(READS_SIDE_BY_SIDE, thread_name_prefix="merge-read")
    writers = ThreadPoolExecutor(PARTS_SIDE_BY_SIDE, thread_name_prefix="merge-write")
    work = _Work(unit, readers)
    try:
        copied = [writers.submit(work.copy, part) for part in unit.copied]
        written = [writers.submit(work.write, part) for part in unit.read]
        copied_parts = [each.result() for each in copied]
        written_parts = [each.result() for each in written]
    finally:
        # After a failure what has not begun is dropped; what has begun ends before the task does.
        for pool in (writers, readers):
            pool.shutdown(wait=True, cancel_futures=True)
    return CopyResult(
        number=unit.number,
        parts=(*copied_parts, *written_parts),
        bytes_read=work.bytes_read,
        bytes_written=sum(part.size_bytes for part in written_parts),
        bytes_copied=sum(part.size_bytes for part in copied_parts),
        peak_memory_bytes=peak_memory_bytes(),
    )


class _Work:
    def __init__(self, unit: CopyUnit, readers: ThreadPoolExecutor) -> None:
        self._unit = unit
        self._readers = readers
        self._store = store_at(unit.bucket_url)
        self._blocks: Table = np.frombuffer(unit.blocks, dtype=ENTRY)
        self._object_ids = unit.source_ids

    @property
    def bytes_read(self) -> int:
        return int(self._blocks["size_bytes"].sum())

    def copy(self, part: CopiedPart) -> UploadedPart:
        assert self._unit.upload is not None, "a range is copied into an upload"
        source_key = object_key(self._object_ids[part.source])
        return self._store.copy_part(
            self._unit.upload, part.part_number, part.position, source_key, part.start, part.end
        )

    def write(self, part: ReadPart) -> UploadedPart:
        blocks = self._blocks[part.first_block : part.end_block]
        buffers: list[Buffer] = [*self._read(blocks)]
        if part.trailer:
            buffers.append(part.trailer)
        if self._unit.upload is None:
            self._store.put(self._unit.key, buffers)
            return UploadedPart(part.part_number, part.position, total_bytes(buffers))
        return self._store.upload_part(self._unit.upload, part.part_number, part.position, buffers)

    def _read(self, blocks: Table) -> list[memoryview]:
        """Raises DamagedBlock, and what the store raises."""
        wanted = zip(blocks["source"].tolist(), blocks["position"].tolist(), strict=True)
        reads = plan_reads(blocks, self._unit.read_request_bytes_max)
        return checked_blocks(
            blocks, SourceBytes(reads, wanted, self._fetch, self._readers), self._object_ids
        )

    def _fetch(self, read: Read) -> bytes:
        return self._store.get_range(object_key(self._object_ids[read.source]), read.start, read.end)
