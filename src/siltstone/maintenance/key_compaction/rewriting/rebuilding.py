"""Batches with fewer records, or with a time limit for their tombstones: what of the header stays, and what is new.

Kept: base offset, last offset delta, base sequence, producer id and epoch, leader epoch, transactional and control
bits, timestamp type, codec (G13; K19). New: record count, length, CRC, max timestamp (with create time that of the
records left; with log append time, and of an emptied batch, it stays: K26). The base timestamp stays too, though Kafka
takes that of the first record left: so the records are copied as they are, with their deltas.

A *time limit* (delete horizon, KIP-534) takes the place of the base timestamp, and bit 6 says so. Readers add the
deltas to it all the same, as Java's DefaultRecordBatch does, so the deltas are written anew.
An emptied batch is as in Kafka's ``writeEmptyHeader``: no codec, no time limit, base timestamp -1.
"""

from collections.abc import Iterator

import msgspec
import numpy as np

from siltstone.kafka_protocol.batch_header import (
    CODEC_MASK,
    DELETE_HORIZON_BIT,
    BatchHeader,
    read_batch_header,
)
from siltstone.kafka_protocol.records.building import seal_batch
from siltstone.maintenance.key_compaction.rewriting.batches import Batches
from siltstone.maintenance.key_compaction.rewriting.chunking import Records
from siltstone.maintenance.key_compaction.rewriting.kernels import columns
from siltstone.maintenance.key_compaction.rewriting.kernels.columns import Flags, Integers
from siltstone.maintenance.key_compaction.rewriting.kernels.port import Kernels
from siltstone.model.buffers import Buffer
from siltstone.model.record_batch import NO_TIMESTAMP, RecordBatch
from siltstone.object_formats.batch_frame import decode_frame

Rebuilt = tuple[int, RecordBatch]
"""The row of the block, and what takes its batch's place."""


def rebuilt_batches(
    batches: Batches, records: Records, kept: Flags, gets_horizon: Flags, horizon_ms: int, kernels: Kernels
) -> Iterator[Rebuilt]:
    """A batch for each row that records were kept of: ``kept`` are those of the rows to be rebuilt, and no others."""
    numbers = np.flatnonzero(kept)
    if not len(numbers):
        return
    rows = records.batch[numbers]
    timestamps = _timestamps(batches, records, numbers)
    body, lengths = _bodies(records, numbers, timestamps, gets_horizon[rows], horizon_ms, kernels)
    firsts = np.flatnonzero(np.diff(rows, prepend=-1))
    ends = [*firsts[1:].tolist(), len(rows)]
    positions = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(lengths)])
    for first, end in zip(firsts.tolist(), ends, strict=True):
        row = int(rows[first])
        header = read_batch_header(batches.payload(row))
        if gets_horizon[row]:
            header = with_horizon(header, horizon_ms)
        yield row, _smaller(
            batches, row, header, body[positions[first] : positions[end]], timestamps[first:end]
        )  # fmt: skip


def _timestamps(batches: Batches, records: Records, numbers: Integers) -> Integers:
    rows = records.batch[numbers]
    created = batches.column(columns.BASE_MS)[rows] + records.columns[columns.TIME_DELTA][numbers]
    appended = batches.column(columns.MAX_MS)[rows]
    return np.where(batches.have_log_append_time[rows], appended, created)


def _bodies(
    records: Records,
    numbers: Integers,
    timestamps: Integers,
    shifted: Flags,
    horizon_ms: int,
    kernels: Kernels,
) -> tuple[memoryview, Integers]:
    """The bytes of the records one after another, and the length of each. Where some get other deltas all are written
    anew, which changes nothing for the others."""
    starts = records.columns[columns.RECORD_AT][numbers]
    ends = records.columns[columns.RECORD_END][numbers]
    if not shifted.any():
        return kernels.gather(records.data, starts, ends).data, ends - starts
    deltas = np.where(shifted, timestamps - horizon_ms, records.columns[columns.TIME_DELTA][numbers])
    body, lengths = kernels.gather_shifted(records.data, starts, ends, deltas)
    return body.data, lengths


def with_horizon(header: BatchHeader, horizon_ms: int) -> BatchHeader:
    return msgspec.structs.replace(
        header, attributes=header.attributes | DELETE_HORIZON_BIT, base_timestamp_ms=horizon_ms
    )


def _smaller(
    batches: Batches, row: int, header: BatchHeader, body: Buffer, timestamps: Integers
) -> RecordBatch:
    largest_ms = header.max_timestamp_ms if header.is_log_append_time else int(timestamps.max())
    known = timestamps[timestamps != NO_TIMESTAMP]
    header = msgspec.structs.replace(header, max_timestamp_ms=largest_ms)
    return msgspec.structs.replace(
        _frame(batches, row),
        record_count=len(timestamps),
        smallest_timestamp_ms=int(known.min()) if len(known) else NO_TIMESTAMP,
        largest_timestamp_ms=largest_ms,
        payload=seal_batch(header, body, len(timestamps)),
    )


def emptied_batch(batches: Batches, row: int) -> RecordBatch:
    header = read_batch_header(batches.payload(row))
    header = msgspec.structs.replace(
        header,
        attributes=header.attributes & ~(DELETE_HORIZON_BIT | CODEC_MASK),
        base_timestamp_ms=NO_TIMESTAMP,
    )
    return msgspec.structs.replace(
        _frame(batches, row),
        record_count=0,
        smallest_timestamp_ms=header.max_timestamp_ms,
        largest_timestamp_ms=header.max_timestamp_ms,
        payload=seal_batch(header, b"", 0),
    )


def _frame(batches: Batches, row: int) -> RecordBatch:
    frame, _ = decode_frame(batches.data.data, int(batches.column(columns.FRAME_AT)[row]))
    return frame
