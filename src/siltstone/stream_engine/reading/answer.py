"""The answer to one read while it is collected: batches in order, up to an end offset and a number of payload bytes."""

from siltstone.model.record_batch import RecordBatch
from siltstone.object_formats.batch_frame import decode_frame, position_of_offset
from siltstone.stream_engine.reading.block_cache import Block


class Answer:
    """``next_offset`` is the first offset that the answer does not cover yet. At least one batch is taken, however
    large it is."""

    def __init__(self, start_offset: int, end_offset: int, bytes_max: int) -> None:
        self.batches: list[RecordBatch] = []
        self.next_offset = start_offset
        self.end_offset = end_offset
        self.bytes_left = bytes_max
        self.is_full = start_offset >= end_offset

    def take(self, block: Block) -> bool:
        """Takes the batches of the block that belong to the answer. Returns whether all of the block was consumed.
        Raises DamagedFrame."""
        start = block.resume_position if block.resume_offset <= self.next_offset else 0
        position = position_of_offset(block.data, self.next_offset, start)
        position = self._take_from(block.data, position)
        if self.is_full:
            block.resume_offset, block.resume_position = self.next_offset, position
            return False
        self.next_offset = max(self.next_offset, block.entry.end_offset)
        self.is_full = self.next_offset >= self.end_offset or (self.bytes_left <= 0 and bool(self.batches))
        return True

    def _take_from(self, data: memoryview, position: int) -> int:
        """Takes batches from ``position`` on; returns the position after the last one. It is one loop over local names,
        because with small batches this loop is most of the cost of a read."""
        batches, bytes_left, end_offset, size = self.batches, self.bytes_left, self.end_offset, len(data)
        try:
            while position < size:
                batch, end_position = decode_frame(data, position)
                payload_bytes = len(batch.payload)
                has_room = 0 < bytes_left >= payload_bytes or not batches
                if not has_room or batch.base_offset >= end_offset:
                    self.is_full = True
                    break
                batches.append(batch)
                bytes_left -= payload_bytes
                position = end_position
        finally:  # a damaged frame ends the loop, and the batches before it have been taken
            self.bytes_left = bytes_left
            if batches:
                self.next_offset = max(self.next_offset, batches[-1].end_offset)
        return position
