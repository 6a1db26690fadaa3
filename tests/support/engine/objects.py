"""A plain reader of whole objects, for tests: index, blocks, checksums, frames, with nothing clever."""

from siltstone.model.errors import CorruptData
from siltstone.model.record_batch import RecordBatch
from siltstone.object_formats.batch_frame import decode_frames
from siltstone.object_formats.block_index import BlockIndex, verify_block
from siltstone.object_formats.object_layout import IndexLiesBefore, index_of_tail, verified_index


def index_of(data: bytes, tail_bytes: int = 64 * 1024) -> BlockIndex:
    found = index_of_tail(data[-tail_bytes:], len(data))
    if isinstance(found, IndexLiesBefore):
        return verified_index(data[found.position : found.end], found.footer)
    return found


def read_object(data: bytes, tail_bytes: int = 64 * 1024) -> list[RecordBatch]:
    """Returns every batch of an object. Raises a subclass of CorruptData."""
    batches: list[RecordBatch] = []
    for entry in index_of(data, tail_bytes):
        block = memoryview(data)[entry.position : entry.end_position]
        verify_block(block, entry, object_id=0)
        batches += decode_frames(block)
    return batches


def is_named(error: CorruptData) -> bool:
    """A cause of its own, not the class of all causes."""
    return type(error) is not CorruptData and bool(str(error))
