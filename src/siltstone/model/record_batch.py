"""A record batch: the unit a producer appends, opaque to the store below the broker."""

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
