"""Segments: the units by which retention drops what is old, and the newest of which key compaction leaves alone.

A segment is offsets between two roll points, recorded with the stream; it says nothing of objects. The one that grows
is *active*: from the end of the last closed one on.
"""

import msgspec


class ClosedSegment(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """[start_offset, end_offset) of a stream. ``size_bytes`` and ``batch_count`` are those of its batches as they were
    appended; ``largest_timestamp_ms`` is -1 without any. ``opened_ms`` is when its first batch came."""

    start_offset: int
    end_offset: int
    size_bytes: int
    batch_count: int
    largest_timestamp_ms: int
    opened_ms: int
    closed_ms: int
