"""Joining neighbouring blocks of a stream into one block, from their index entries alone."""

from collections.abc import Sequence
from itertools import pairwise

from siltstone.foundation.crc32c import crc32c_combine
from siltstone.model.record_batch import BlockEntry
from siltstone.object_formats.object_layout import smallest_timestamp


def join_blocks(entries: Sequence[BlockEntry], position: int) -> BlockEntry:
    """The entry of the block made of these blocks' bytes one after another, lying at ``position``.

    The entries must be of one stream and contiguous: anything else is a planner's bug.
    """
    assert entries
    crc = entries[0].crc32c
    for previous, entry in pairwise(entries):
        assert entry.stream_id == previous.stream_id, f"{previous} and {entry}"
        assert entry.start_offset == previous.end_offset, f"{previous} and {entry}"
        crc = crc32c_combine(crc, entry.crc32c, entry.size_bytes)
    return BlockEntry(
        stream_id=entries[0].stream_id,
        start_offset=entries[0].start_offset,
        end_offset=entries[-1].end_offset,
        record_count=sum(entry.record_count for entry in entries),
        position=position,
        size_bytes=sum(entry.size_bytes for entry in entries),
        smallest_timestamp_ms=smallest_timestamp(e.smallest_timestamp_ms for e in entries),
        largest_timestamp_ms=max(entry.largest_timestamp_ms for entry in entries),
        crc32c=crc,
    )
