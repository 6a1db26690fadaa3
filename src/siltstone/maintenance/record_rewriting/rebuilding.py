"""Makes batches with fewer records, or with a delete horizon for their tombstones, from the batches they replace.

Kept: base offset, last offset delta, base sequence, producer id and epoch, leader epoch, transactional and control
bits, timestamp type, codec (G13; K19). New: record count, length, CRC, max timestamp (with create time the largest
of the records left; with log append time, and in an emptied batch, it stays: K26). The base timestamp stays as well,
though Kafka takes that of the first record left, so that records are copied with their timestamp deltas unchanged.

A delete horizon (KIP-534) replaces the base timestamp, and attribute bit 6 marks it. Readers add the timestamp deltas
to it all the same, as Java's DefaultRecordBatch does, so the deltas are computed again. An emptied batch is as in
Kafka's ``writeEmptyHeader``: no codec, no delete horizon, base timestamp -1.

All batches of a chunk are made at once, in columns; only compression and checksums are done batch by batch.
"""

from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from siltstone.foundation.crc32c import crc32c
from siltstone.kafka_protocol.batch_header import (
    BATCH_HEADER_BYTES,
    CHECKED_FROM,
    CODEC_MASK,
    DELETE_HORIZON_BIT,
    LENGTH_END,
    Codec,
)
from siltstone.kafka_protocol.records.compression import compress
from siltstone.model.record_batch import NO_TIMESTAMP
from siltstone.object_formats.batch_frame import FRAME_HEADER_BYTES
from siltstone.record_columns.batches import Batches
from siltstone.record_columns.chunking import Records
from siltstone.record_columns.kernels import columns
from siltstone.record_columns.kernels.columns import (
    FRAME_AND_HEADER_BYTES,
    Bytes,
    Flags,
    Integers,
    read_only,
)
from siltstone.record_columns.kernels.port import Kernels

HEADERS = np.dtype(
    [
        ("before", "V40"), ("record_count", "<i8"), ("smallest_ms", "<i8"), ("largest_ms", "<i8"),
        ("payload_bytes", "<i8"), ("base_offset", "V8"), ("batch_length", ">i4"), ("epoch_and_magic", "V5"),
        ("crc", ">u4"), ("attributes", ">i2"), ("last_offset_delta", "V4"), ("base_ms", ">i8"), ("max_ms", ">i8"),
        ("producer", "V14"), ("count", ">i4"),
    ]
)  # fmt: skip
"""A frame header and the batch header after it; fields that are never changed are raw bytes."""
assert HEADERS.itemsize == FRAME_AND_HEADER_BYTES

Headers = npt.NDArray[Any]
_NO_SMALLEST = np.iinfo(np.int64).max


class Bodies(msgspec.Struct, frozen=True):
    """The records that stay, one batch after another. ``counts`` and ``lengths`` are the number and the bytes of each
    batch's records, 0 for an emptied batch."""

    data: Bytes
    counts: Integers
    lengths: Integers
    timestamps: Integers


class Rebuilding(msgspec.Struct, frozen=True):
    """The batches of a block to be rebuilt, by their ``rows``: with the records that are ``kept``, and with
    ``horizon_ms`` as delete horizon where ``gets_horizon`` is true."""

    batches: Batches
    records: Records
    rows: Integers
    kept: Flags
    gets_horizon: Flags
    horizon_ms: int


def rebuilt_batches(job: Rebuilding, kernels: Kernels) -> Batches:
    """Returns the new batches, one for each of the rows, in order."""
    bodies = _bodies(job, kernels)
    headers = _headers(job.batches, job.rows)
    _write_counts(headers, bodies)
    _write_timestamps(headers, bodies)
    _write_attributes(headers, job, bodies.counts)
    return _assembled(job, headers, _compressed(headers, bodies), kernels)


# -- the records that stay -----------------------------------------------------------------------------------


def _bodies(job: Rebuilding, kernels: Kernels) -> Bodies:
    is_rebuilt = np.zeros(len(job.batches), dtype=np.bool_)
    is_rebuilt[job.rows] = True
    numbers = np.flatnonzero(job.kept & is_rebuilt[job.records.batch])
    rows = job.records.batch[numbers]
    timestamps = _timestamps(job, numbers, rows)
    data, record_bytes = _record_bytes(job, numbers, timestamps, job.gets_horizon[rows], kernels)
    counts = np.bincount(rows, minlength=len(job.batches))[job.rows]
    ends = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(record_bytes)])
    last = np.cumsum(counts)
    return Bodies(data, counts, ends[last] - ends[last - counts], timestamps)


def _timestamps(job: Rebuilding, numbers: Integers, rows: Integers) -> Integers:
    created = job.batches.column(columns.BASE_MS)[rows] + job.records.columns[columns.TIME_DELTA][numbers]
    appended = job.batches.column(columns.MAX_MS)[rows]
    return np.where(job.batches.have_log_append_time[rows], appended, created)


def _record_bytes(
    job: Rebuilding, numbers: Integers, timestamps: Integers, shifted: Flags, kernels: Kernels
) -> tuple[Bytes, Integers]:
    """Returns the records one after another, and the length of each. When some get new deltas, all are encoded again,
    which does not change the others."""
    found, data = job.records.columns, job.records.data
    starts, ends = found[columns.RECORD_AT][numbers], found[columns.RECORD_END][numbers]
    if not shifted.any() and not job.records.are_renumbered:
        return kernels.gather(data, starts, ends), ends - starts
    deltas = np.where(shifted, timestamps - job.horizon_ms, found[columns.TIME_DELTA][numbers])
    return kernels.gather_shifted(data, starts, ends, deltas, found[columns.OFFSET_DELTA][numbers])


# -- headers -------------------------------------------------------------------------------------------------


def _headers(batches: Batches, rows: Integers) -> Headers:
    starts = batches.column(columns.FRAME_AT)[rows]
    raw = batches.data[starts[:, np.newaxis] + np.arange(FRAME_AND_HEADER_BYTES)]
    headers: Headers = raw.view(HEADERS)[:, 0]
    return headers


def _write_counts(headers: Headers, bodies: Bodies) -> None:
    headers["record_count"] = bodies.counts
    headers["count"] = bodies.counts


def _write_timestamps(headers: Headers, bodies: Bodies) -> None:
    """Writes the smallest and largest timestamps. An emptied batch keeps its max timestamp."""
    has_records = bodies.counts > 0
    firsts = (np.cumsum(bodies.counts) - bodies.counts)[has_records]
    smallest, largest = headers["max_ms"].astype(np.int64), headers["max_ms"].astype(np.int64)
    if len(firsts):
        known = np.where(bodies.timestamps == NO_TIMESTAMP, _NO_SMALLEST, bodies.timestamps)
        least = np.minimum.reduceat(known, firsts)
        smallest[has_records] = np.where(least == _NO_SMALLEST, NO_TIMESTAMP, least)
        largest[has_records] = np.maximum.reduceat(bodies.timestamps, firsts)
    headers["max_ms"] = largest
    headers["smallest_ms"], headers["largest_ms"] = smallest, largest


def _write_attributes(headers: Headers, job: Rebuilding, counts: Integers) -> None:
    attributes = headers["attributes"].astype(np.int16)
    gets_horizon = job.gets_horizon[job.rows] & (counts > 0)
    attributes[gets_horizon] |= DELETE_HORIZON_BIT
    attributes[counts == 0] &= ~(DELETE_HORIZON_BIT | CODEC_MASK)
    headers["attributes"] = attributes
    headers["base_ms"][gets_horizon] = job.horizon_ms
    headers["base_ms"][counts == 0] = NO_TIMESTAMP


# -- bytes ---------------------------------------------------------------------------------------------------


def _compressed(headers: Headers, bodies: Bodies) -> Bodies:
    """Returns the records compressed with the codec of each header."""
    codecs = (headers["attributes"] & CODEC_MASK).tolist()
    if not any(codecs):
        return bodies
    view = bodies.data.data
    pieces: list[bytes] = []
    position = 0
    for codec, length in zip(codecs, bodies.lengths.tolist(), strict=True):
        pieces.append(bytes(compress(Codec(codec), view[position : position + length])))
        position += length
    lengths = np.array([len(piece) for piece in pieces], dtype=np.int64)
    return msgspec.structs.replace(bodies, data=read_only(b"".join(pieces)), lengths=lengths)


def _assembled(job: Rebuilding, headers: Headers, bodies: Bodies, kernels: Kernels) -> Batches:
    count = len(headers)
    headers["payload_bytes"] = BATCH_HEADER_BYTES + bodies.lengths
    headers["batch_length"] = BATCH_HEADER_BYTES - LENGTH_END + bodies.lengths
    _write_checksums(headers, bodies)
    starts, ends = np.empty(2 * count, dtype=np.int64), np.empty(2 * count, dtype=np.int64)
    starts[0::2] = np.arange(count) * FRAME_AND_HEADER_BYTES
    ends[0::2] = starts[0::2] + FRAME_AND_HEADER_BYTES
    ends[1::2] = count * FRAME_AND_HEADER_BYTES + np.cumsum(bodies.lengths)
    starts[1::2] = ends[1::2] - bodies.lengths
    parts = np.concatenate([headers.view(np.uint8).ravel(), bodies.data])
    data = kernels.gather(read_only(parts.data), starts, ends)
    return Batches(read_only(data.data), _rows(job, headers, bodies), job.batches.where)


def _write_checksums(headers: Headers, bodies: Bodies) -> None:
    raw, body = headers.view(np.uint8).data.cast("B"), bodies.data.data
    ends = np.cumsum(bodies.lengths)
    checksums: list[int] = []
    header_at = FRAME_HEADER_BYTES + CHECKED_FROM
    for start, end in zip((ends - bodies.lengths).tolist(), ends.tolist(), strict=True):
        header_end = header_at + BATCH_HEADER_BYTES - CHECKED_FROM
        checksums.append(crc32c((raw[header_at:header_end], body[start:end])))
        header_at += FRAME_AND_HEADER_BYTES
    headers["crc"] = checksums


def _rows(job: Rebuilding, headers: Headers, bodies: Bodies) -> Integers:
    rows = job.batches.rows[job.rows]
    ends = np.cumsum(FRAME_AND_HEADER_BYTES + bodies.lengths)
    rows[:, columns.FRAME_AT] = np.concatenate([np.zeros(1, dtype=np.int64), ends])[:-1]
    rows[:, columns.FRAME_END] = ends
    for column, field in (
        (columns.RECORD_COUNT, "record_count"), (columns.SMALLEST_MS, "smallest_ms"),
        (columns.LARGEST_MS, "largest_ms"), (columns.ATTRIBUTES, "attributes"), (columns.BASE_MS, "base_ms"),
        (columns.MAX_MS, "max_ms"),
    ):  # fmt: skip
        rows[:, column] = headers[field]
    return rows
