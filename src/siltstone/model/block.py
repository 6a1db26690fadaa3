"""A block: the smallest piece of an object that is read, checked and moved.

A block is nothing but record batch frames of one stream, one after another; all about it stands in its
index entry. So joining neighbouring blocks of a stream is concatenation, and compaction moves blocks
without looking inside.
"""

import msgspec


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
