"""Finds the offset of the first record at or after a time without a broker; the result is the same as that of
ListOffsets.

The image says which range of a stream reaches the time, the index of that object says which block does, and the headers
of the block's batches say which batch does; that batch is decoded. If a header's largest timestamp is too high, one
more block is read, and the answer is the same.
"""

from collections.abc import Callable, Sequence

from siltstone.kafka_protocol.records.looking_up import first_record_at_or_after
from siltstone.metadata.image import ImageView
from siltstone.metadata.lookup import committed_object, find_ranges
from siltstone.model.errors import CorruptData
from siltstone.model.objects import ObjectRange
from siltstone.object_formats.batch_frame import decode_frames
from siltstone.object_store.copies import Copies
from siltstone.offline.tasks.source_bytes import read_block
from siltstone.scanning.failures import RangeNotCovered, ScanDamaged
from siltstone.scanning.planning import ScanPartition
from siltstone.scanning.reading import INDEXES

CopiesOf = Callable[[Sequence[int], str], Copies]
"""``Buckets.copies``."""


def committed_offset_at(
    image: ImageView, partition: ScanPartition, timestamp_ms: int, copies_of: CopiesOf
) -> int | None:
    """Returns the offset of the first record, in offset order, with that time or a later one, among the records in
    objects; None if there is none. Raises ScanDamaged, and what the stores raise."""
    start = partition.start_offset
    for held in find_ranges(image, partition.stream.stream_id, start):
        if held.largest_timestamp_ms < timestamp_ms:
            continue
        try:
            found = _offset_in(image, held, start, timestamp_ms, copies_of)
        except CorruptData as damage:
            raise ScanDamaged(partition.name, max(start, held.start_offset), damage) from damage
        if found is not None:
            return found
    return None


def _offset_in(
    image: ImageView, held: ObjectRange, start: int, timestamp_ms: int, copies_of: CopiesOf
) -> int | None:
    metadata = committed_object(image, held.object_id)
    if metadata is None:
        raise RangeNotCovered(f"object {held.object_id} of stream {held.stream_id} is not committed")
    copies = copies_of(metadata.bucket_ids, f"object {held.object_id}")
    index = INDEXES.of(copies, held.object_id, metadata.size_bytes)
    for entry in index.blocks_of(held.stream_id, max(start, held.start_offset), held.end_offset):
        if entry.largest_timestamp_ms < timestamp_ms:
            continue
        block = read_block(copies, held.object_id, entry)
        for batch in decode_frames(block):
            if batch.largest_timestamp_ms >= timestamp_ms and batch.end_offset > start:
                found = first_record_at_or_after(batch.payload, timestamp_ms, start)
                if found is not None:
                    return found[0]
    return None
