"""Record batches, and the index entries of the blocks that hold them.

A *record batch* is what a producer appends; below the broker its payload is opaque. A *block* is the smallest piece of
an object that is read, checked and moved: frames of record batches of one stream, one after another, without a header.
Everything known of a block is in its index entry. Joining neighbouring blocks of a stream is therefore concatenation,
and compaction moves blocks without decoding them. The bytes are defined in ``object_formats``.
"""

import msgspec

from siltstone.model.buffers import Buffer

NO_TIMESTAMP = -1
"""Kafka's value for "no timestamp": no record of the batch carries one."""


class RecordBatch(msgspec.Struct, frozen=True, gc=False):
    """Records of one stream with offsets in [base_offset, end_offset). The store never changes the payload.

    ``end_offset - base_offset`` may exceed ``record_count``: key compaction removes records and keeps offsets. The
    timestamps are the smallest and the largest of the records, in milliseconds since 1970.
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
    """One entry of an object's index, which describes one block. ``position`` and ``size_bytes`` are in bytes;
    ``position`` counts from the start of the object."""

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
