"""Batch frame, version 1: one record batch, in the same bytes in the write-ahead log (WAL) and in a block.

Little endian.

====== ==== =======================================================================
offset size field
====== ==== =======================================================================
0      4    magic "SBF1"
4      4    zero
8      8    stream id
16     8    stream epoch
24     8    base offset
32     8    end offset, exclusive
40     8    record count
48     8    smallest timestamp in ms, signed, -1 when none
56     8    largest timestamp in ms, signed, -1 when none
64     8    payload length in bytes
72     n    payload, opaque
====== ==== =======================================================================

A frame carries no checksum of its own: in the WAL the record around it has one, in an object its block has one. The
header is built once, at the append, and the pair (header, payload) is written to the WAL and to the object without
being joined. Decoded payloads are views of the given bytes.
"""

from collections.abc import Iterator
from struct import Struct, error

from siltstone.model.buffers import Buffer
from siltstone.model.errors import CorruptData, InvalidRequest
from siltstone.model.record_batch import RecordBatch

FRAME_MAGIC = int.from_bytes(b"SBF1", "little")
FRAME_HEADER = Struct("<IIQQQQQqqQ")
FRAME_HEADER_BYTES = FRAME_HEADER.size
_END_AND_LENGTH = Struct("<Q24xQ24xQ")
assert FRAME_HEADER_BYTES == _END_AND_LENGTH.size == 72


class DamagedFrame(CorruptData):
    """Bytes that should be batch frames are damaged or something else."""


class ImpossibleBatch(InvalidRequest):
    """A batch cannot be encoded as a frame, or no reader would accept its frame. It is refused before it is written:
    counts and timestamps come from producers, and one such frame would make every recovery fail."""


def encode_frame_header(batch: RecordBatch) -> bytes:
    """Returns the 72 bytes of a frame before its payload. Raises ImpossibleBatch."""
    refuse_impossible(batch)
    return _packed(batch)


def encode_empty_frame_header(batch: RecordBatch) -> bytes:
    """Returns the 72 bytes of the frame of a batch that has offsets and no longer any record. Raises
    ImpossibleBatch."""
    if batch.record_count or batch.base_offset >= batch.end_offset:
        raise ImpossibleBatch(
            f"a batch of stream {batch.stream_id} has {batch.record_count} records for the offsets"
            f" [{batch.base_offset}, {batch.end_offset}): an empty one has none, for at least one offset"
        )
    return _packed(batch)


def _packed(batch: RecordBatch) -> bytes:
    try:
        return FRAME_HEADER.pack(
            FRAME_MAGIC, 0, batch.stream_id, batch.stream_epoch, batch.base_offset, batch.end_offset,
            batch.record_count, batch.smallest_timestamp_ms, batch.largest_timestamp_ms, len(batch.payload),
        )  # fmt: skip
    except error as cause:
        raise not_encodable(batch) from cause


def refuse_impossible(batch: RecordBatch) -> None:
    """Makes the checks of ``decode_frame`` at the append, when the producer can still be answered; refuses a batch
    without records as well. Raises ImpossibleBatch."""
    if not 0 < batch.record_count <= batch.end_offset - batch.base_offset:
        raise ImpossibleBatch(
            f"a batch of stream {batch.stream_id} has {batch.record_count} records for the offsets"
            f" [{batch.base_offset}, {batch.end_offset}): it must have at least one, and at most one for each offset"
        )


def not_encodable(batch: RecordBatch) -> ImpossibleBatch:
    return ImpossibleBatch(
        f"the batch at offset {batch.base_offset} of stream {batch.stream_id} cannot be encoded: an id, offset, count"
        " or timestamp does not fit its 64-bit field"
    )


def frame_bytes(batch: RecordBatch) -> int:
    return FRAME_HEADER_BYTES + len(batch.payload)


def decode_frame(data: memoryview, position: int = 0) -> tuple[RecordBatch, int]:
    """Returns the batch whose frame begins at ``position``, and the position after the frame. Raises DamagedFrame."""
    body = position + FRAME_HEADER_BYTES
    if body > len(data):
        raise DamagedFrame(f"truncated frame header at {position} of {len(data)} bytes")
    magic, zero, stream_id, epoch, base, end, count, smallest, largest, length = FRAME_HEADER.unpack_from(
        data, position
    )
    if magic != FRAME_MAGIC or zero != 0:
        raise DamagedFrame(f"no batch frame at {position}")
    if length > len(data) - body:
        raise DamagedFrame(f"truncated payload at {body}: {length} bytes expected, {len(data) - body} left")
    if not (base < end and 0 <= count <= end - base):
        raise DamagedFrame(f"impossible offsets at {position}: [{base}, {end}), {count} records")
    payload = data[body : body + length]
    batch = RecordBatch(stream_id, epoch, base, end, count, smallest, largest, payload)
    return batch, body + length


def position_of_offset(data: memoryview, offset: int, position: int = 0) -> int:
    """Returns the position of the first frame whose end offset is greater than ``offset``, or the length of the data if
    there is none. The search begins at the frame at ``position`` and reads three fields of each frame, so skipping
    frames is cheap. Raises DamagedFrame."""
    size = len(data)
    while position < size:
        body = position + FRAME_HEADER_BYTES
        if body > size:
            raise DamagedFrame(f"truncated frame header at {position} of {size} bytes")
        magic_and_zero, end, length = _END_AND_LENGTH.unpack_from(data, position)
        if magic_and_zero != FRAME_MAGIC or length > size - body:
            raise DamagedFrame(f"no whole batch frame at {position}")
        if end > offset:
            return position
        position = body + length
    return position


def decode_frames(block: Buffer) -> Iterator[RecordBatch]:
    """Yields all batches of a block, in order. Raises DamagedFrame at the first frame that is damaged."""
    data = memoryview(block)
    position = 0
    while position < len(data):
        batch, position = decode_frame(data, position)
        yield batch
