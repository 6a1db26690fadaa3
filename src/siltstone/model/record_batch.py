"""A record batch: the unit a producer appends, opaque to the store below the broker.

A block: the smallest piece of an object that is read, checked and moved.

A block is nothing but record batch frames of one stream, one after another; all about it stands in its
index entry. So joining neighbouring blocks of a stream is concatenation, and compaction moves blocks
without looking inside.
"""

import msgspec

from siltstone.model.buffers import Buffer

NO_TIMESTAMP = -1
"""Kafka's "no timestamp": the records of the batch carry none."""


class RecordBatch(msgspec.Struct, frozen=True):
    """Records [base_offset, end_offset) of one stream, with their payload untouched.

    ``end_offset - base_offset`` may exceed ``record_count``: key compaction removes records and keeps
    offsets. Timestamps are milliseconds since 1970, the smallest and largest among the records.
    """

    stream_id: int
    stream_epoch: int
    base_offset: int
    end_offset: int
    record_count: int
    smallest_timestamp_ms: int
    largest_timestamp_ms: int
    payload: Buffer

    def __len__(self) -> int:
        return len(self.payload)


class BlockEntry(msgspec.Struct, frozen=True, gc=False):
    """One line of an object's index. Positions and sizes are bytes from the start of the object."""

    stream_id: int
    start_offset: int
    end_offset: int
    record_count: int
    position: int
    size_bytes: int
    smallest_timestamp_ms: int
    largest_timestamp_ms: int
    crc32c: int

    @property
    def end_position(self) -> int:
        return self.position + self.size_bytes
