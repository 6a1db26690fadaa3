"""Decodes the records of batches in chunks, so that a bounded number of decompressed bytes is in memory.

A *chunk* is consecutive batches of a block. When none of the batches to be decoded is compressed, the chunk is the
whole block, and no byte is copied.
"""

from collections.abc import Iterator

import numpy as np

from siltstone.kafka_protocol.batch_errors import RecordCountWrong
from siltstone.kafka_protocol.batch_header import BATCH_HEADER_BYTES
from siltstone.kafka_protocol.records.compression import decompress
from siltstone.model.limits import DECOMPRESSED_BATCH_BYTES_MAX, MIB
from siltstone.record_columns.batches import BAD_BATCH, Batches, UnreadableBatch
from siltstone.record_columns.kernels import columns
from siltstone.record_columns.kernels.columns import (
    FRAME_AND_HEADER_BYTES,
    RECORD_BYTES_MIN,
    Bytes,
    Flags,
    Integers,
    read_only,
)
from siltstone.record_columns.kernels.port import Kernels

CHUNK_BYTES = 4 * MIB
"""A chunk ends with the batch that reaches this size. It keeps kernel calls rare; a read request is larger."""


class Records:
    """The records of a chunk's decoded batches. ``batch`` has the row in the block of each record's batch;
    ``columns`` are the record columns (``kernels.columns``), ``offsets`` the absolute offsets.

    A broker that reads only the headers of batches may have stored one whose offset deltas do not increase or leave
    the batch's range. By such offsets the order of two records of a key would be lost, and an offset of another batch
    could hide a newer record. So the records of such a batch count as 0, 1, 2 … in the order in which consumers receive
    them, and are written with these deltas when the batch is rebuilt: ``are_renumbered`` says that there is one."""

    __slots__ = ("are_renumbered", "batch", "columns", "data", "offsets")

    def __init__(
        self, data: Bytes, found: Integers, rows: Integers, batches: Batches, kernels: Kernels
    ) -> None:
        self.data = data
        self.columns = found
        numbers, deltas = found[columns.BATCH], found[columns.OFFSET_DELTA]
        self.batch: Integers = rows[numbers]
        bases = batches.base_offsets[rows]
        self.offsets, are_in_order = kernels.offsets_of(numbers, deltas, bases, batches.end_offsets[rows])
        self.are_renumbered = not are_in_order
        if self.are_renumbered:
            disordered = self._disordered(batches)
            first_of_batch = np.searchsorted(numbers, numbers[disordered])
            deltas[disordered] = np.flatnonzero(disordered) - first_of_batch
            self.offsets = batches.base_offsets[self.batch] + deltas

    def _disordered(self, batches: Batches) -> Flags:
        """Marks the records of batches whose offset deltas do not increase, or leave the range of the batch."""
        deltas, batch = self.columns[columns.OFFSET_DELTA], self.batch
        is_wrong: Flags = (deltas < 0) | (deltas >= (batches.end_offsets - batches.base_offsets)[batch])
        is_wrong[1:] |= (deltas[1:] <= deltas[:-1]) & (batch[1:] == batch[:-1])
        of_batch = np.zeros(len(batches), dtype=np.bool_)
        of_batch[batch[is_wrong]] = True
        flags: Flags = of_batch[batch]
        return flags

    def __len__(self) -> int:
        return len(self.batch)

    @property
    def have_key(self) -> Flags:
        flags: Flags = self.columns[columns.KEY_BYTES] >= 0
        return flags

    @property
    def have_value(self) -> Flags:
        flags: Flags = self.columns[columns.VALUE_BYTES] >= 0
        return flags


class Chunk:
    """Rows [first, end) of a block's batches, and the records of the batches that were decoded."""

    __slots__ = ("end", "first", "records")

    def __init__(self, first: int, end: int, records: Records) -> None:
        self.first = first
        self.end = end
        self.records = records


def chunks(
    batches: Batches,
    opened: Flags,
    kernels: Kernels,
    *,
    chunk_bytes: int = CHUNK_BYTES,
    batch_bytes_max: int = DECOMPRESSED_BATCH_BYTES_MAX,
) -> Iterator[Chunk]:
    """Cuts the batches of a block into chunks of about ``chunk_bytes``, and decodes the records of the batches that are
    true in ``opened``. Raises UnreadableBatch, also for a batch whose records take more than ``batch_bytes_max``."""
    if not (batches.codecs[opened] != 0).any():
        rows = np.flatnonzero(opened)
        starts = batches.column(columns.FRAME_AT)[rows] + FRAME_AND_HEADER_BYTES
        ends = np.ascontiguousarray(batches.column(columns.FRAME_END)[rows])
        yield Chunk(0, len(batches), _decoded(batches, batches.data, rows, starts, ends, kernels))
        return
    first = 0
    while first < len(batches):
        chunk = _chunk_from(batches, opened, first, kernels, chunk_bytes, batch_bytes_max)
        yield chunk
        first = chunk.end


def _chunk_from(
    batches: Batches, opened: Flags, first: int, kernels: Kernels, chunk_bytes: int, batch_bytes_max: int
) -> Chunk:
    pieces: list[memoryview] = []
    rows: list[int] = []
    size_bytes = 0
    row = first
    while row < len(batches) and size_bytes < chunk_bytes:
        if opened[row]:
            pieces.append(_records_of(batches, row, batch_bytes_max))
            rows.append(row)
            size_bytes += len(pieces[-1])
        row += 1
    ends = np.cumsum([len(piece) for piece in pieces], dtype=np.int64)
    starts = np.concatenate([np.zeros(1, dtype=np.int64), ends])[:-1]
    data = read_only(pieces[0] if len(pieces) == 1 else b"".join(pieces))
    return Chunk(first, row, _decoded(batches, data, np.array(rows, dtype=np.int64), starts, ends, kernels))


def _records_of(batches: Batches, row: int, bytes_max: int) -> memoryview:
    try:
        records = batches.payload(row)[BATCH_HEADER_BYTES:]
        return decompress(int(batches.codecs[row]), records, bytes_max)
    except BAD_BATCH as cause:
        raise unreadable(batches, int(batches.base_offsets[row]), cause) from cause


def _decoded(
    batches: Batches, data: Bytes, rows: Integers, starts: Integers, ends: Integers, kernels: Kernels
) -> Records:
    counts = batches.record_counts[rows]
    try:
        if (counts * RECORD_BYTES_MIN > ends - starts).any():
            raise RecordCountWrong("more records than fit into its bytes")
        return Records(data, kernels.decode_records(data, starts, ends, counts), rows, batches, kernels)
    except BAD_BATCH as cause:
        raise unreadable(batches, int(batches.base_offsets[rows[0]]), cause) from cause


def unreadable(batches: Batches, offset: int, cause: Exception) -> UnreadableBatch:
    return UnreadableBatch(
        batches.where, f"a batch from offset {offset} on, in {batches.where}, cannot be read: {cause}"
    )
