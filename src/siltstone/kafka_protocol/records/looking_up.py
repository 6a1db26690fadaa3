"""Finds the offset for a timestamp within one batch, exact to the record.

The caller finds the batch by the timestamps of the batch headers. With log append time, all records have the
timestamp of the batch. Read next: ``reading.skim_deltas``.
"""

from collections.abc import Iterator
from typing import TypeAlias

from siltstone.kafka_protocol.records.reading import open_batch, skim_deltas, timestamp_of
from siltstone.model.buffers import Buffer

OffsetAndTimestamp: TypeAlias = tuple[int, int]


def first_record_at_or_after(
    buffer: Buffer, timestamp_ms: int, start_offset: int = 0
) -> OffsetAndTimestamp | None:
    """Returns the first record, in offset order from ``start_offset`` on, whose timestamp is at or after
    ``timestamp_ms``.

    Raises what ``iterate_records`` does.
    """
    for offset, record_ms in _offsets_and_timestamps(buffer, start_offset):
        if record_ms >= timestamp_ms:
            return offset, record_ms
    return None


def record_with_max_timestamp(buffer: Buffer, start_offset: int = 0) -> OffsetAndTimestamp | None:
    """Returns the record with the largest timestamp from ``start_offset`` on, the first of several; None if no record
    follows.

    Raises what ``iterate_records`` does.
    """
    return max(_offsets_and_timestamps(buffer, start_offset), key=_timestamp, default=None)


def _timestamp(found: OffsetAndTimestamp) -> int:
    return found[1]


def _offsets_and_timestamps(buffer: Buffer, start_offset: int) -> Iterator[OffsetAndTimestamp]:
    header, data = open_batch(buffer)
    for timestamp_delta, offset_delta in skim_deltas(header, data):
        offset = header.base_offset + offset_delta
        if offset >= start_offset:
            yield offset, timestamp_of(header, timestamp_delta)
