"""The first fields of every record, without the record: faster where keys and values do not matter.

Read next: ``reading``, which draws a record and reads all of it.
"""

from collections.abc import Iterator

from siltstone.kafka_protocol.batch_errors import MalformedRecords
from siltstone.kafka_protocol.batch_header import BatchHeader
from siltstone.kafka_protocol.records.reading import record_end, refuse_rest
from siltstone.kafka_protocol.records.varint import INT64_BITS, decode_varint


def skim_deltas(header: BatchHeader, data: memoryview) -> Iterator[tuple[int, int]]:
    """The timestamp and the offset delta of each record of an opened batch, in order.

    Raises MalformedRecords for what it looks at, which is not all.
    """
    position = 0
    for index in range(header.record_count):
        try:
            position, end = record_end(data, position, index)
            timestamp_delta, position = decode_varint(data, position + 1, INT64_BITS)
            offset_delta, position = decode_varint(data, position)
        except IndexError as cause:
            raise MalformedRecords(f"record {index} of {header.record_count} ends early") from cause
        if position > end:
            raise MalformedRecords(f"record {index} ends before its offset delta does")
        yield timestamp_delta, offset_delta
        position = end
    refuse_rest(header, data, position)


def first_null_key(header: BatchHeader, data: memoryview) -> int | None:
    """Which record of an opened batch has no key, from 0; None: all have one. Raises MalformedRecords like
    ``skim_deltas``.

    A compacted topic asks this of every batch, so the varints are read in place, three times faster: a length of two
    bytes is the usual one, the two deltas are only stepped over, and of the key's length the sign is enough.
    """
    position = 0
    index = 0
    try:
        for index in range(header.record_count):
            low, high = data[position], data[position + 1]
            if low >= 0x80 > high and not low & 1:
                position += 2
                end = position + ((low & 0x7F) >> 1 | high << 6)
            else:
                position, end = record_end(data, position, index)
            position = _after_varint(data, _after_varint(data, position + 1))
            if data[position] & 1:
                _refuse_negative(data, position)
                return index
            if position >= end:
                raise MalformedRecords(f"record {index} ends before its key")
            position = end
    except IndexError as cause:
        raise MalformedRecords(f"record {index} of {header.record_count} ends early") from cause
    refuse_rest(header, data, position)
    return None


def _after_varint(data: memoryview, position: int) -> int:
    while data[position] >= 0x80:
        position += 1
    return position + 1


def _refuse_negative(data: memoryview, position: int) -> None:
    """A negative length is null, and -1. Raises MalformedRecords for another."""
    length, _ = decode_varint(data, position)
    if length != -1:
        raise MalformedRecords(f"a key of {length} bytes")
