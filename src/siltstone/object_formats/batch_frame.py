"""Batch frame, version 1: one record batch as it lies in the WAL and in a block, the same bytes in both.

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

A frame carries no checksum of its own: in the WAL the record around it has one, in an object its block has.
The header is built once, at the append, and the pair (header, payload) goes to the WAL and to the object
without being joined. Decoding yields payloads as views into the bytes given.
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
    """Bytes that should be batch frames are not."""


class ImpossibleBatch(InvalidRequest):
    """A batch that no frame can hold, or that no reader would accept: refused before it is written, because
    counts and timestamps come from producers and one such frame would stop recovery for good."""


def encode_frame_header(batch: RecordBatch) -> bytes:
    """The 72 bytes that go before the payload. Raises ImpossibleBatch."""
    refuse_impossible(batch)
    try:
        return FRAME_HEADER.pack(
            FRAME_MAGIC, 0, batch.stream_id, batch.stream_epoch, batch.base_offset, batch.end_offset,
            batch.record_count, batch.smallest_timestamp_ms, batch.largest_timestamp_ms, len(batch.payload),
        )  # fmt: skip
    except error as cause:
        raise not_encodable(batch) from cause


def refuse_impossible(batch: RecordBatch) -> None:
    """The check of ``decode_frame``, made while it can still be answered. Raises ImpossibleBatch."""
    if not 0 < batch.record_count <= batch.end_offset - batch.base_offset:
        raise ImpossibleBatch(
            f"{batch.record_count} records in [{batch.base_offset}, {batch.end_offset}) of stream"
            f" {batch.stream_id}: a batch holds at least one, and no more than it has offsets"
        )


def not_encodable(batch: RecordBatch) -> ImpossibleBatch:
    return ImpossibleBatch(
        f"batch at {batch.base_offset} of stream {batch.stream_id}: an id, offset, count or timestamp is no"
        " 64-bit integer of its kind"
    )


def frame_bytes(batch: RecordBatch) -> int:
    return FRAME_HEADER_BYTES + len(batch.payload)


def decode_frame(data: memoryview, position: int = 0) -> tuple[RecordBatch, int]:
    """The batch at ``position`` and the position after it. Raises DamagedFrame."""
    body = position + FRAME_HEADER_BYTES
    if body > len(data):
        raise DamagedFrame(f"truncated frame header at {position} of {len(data)} bytes")
    magic, zero, stream_id, epoch, base, end, count, smallest, largest, length = FRAME_HEADER.unpack_from(
        data, position
    )
    if magic != FRAME_MAGIC or zero != 0:
        raise DamagedFrame(f"no batch frame at {position}")
    if length > len(data) - body:
        raise DamagedFrame(f"truncated payload at {body}: {length} bytes, {len(data) - body} left")
    if not (base < end and 0 <= count <= end - base):
        raise DamagedFrame(f"impossible offsets at {position}: [{base}, {end}), {count} records")
    payload = data[body : body + length]
    batch = RecordBatch(stream_id, epoch, base, end, count, smallest, largest, payload)
    return batch, body + length


def position_of_offset(data: memoryview, offset: int, position: int = 0) -> int:
    """Where the first frame that ends after ``offset`` begins, from the frame at ``position`` on; the length of the
    data when there is none. Reads three fields of a frame, so skipping costs little. Raises DamagedFrame."""
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
    """All batches of a block, in order. Raises DamagedFrame at the first that is not one."""
    data = memoryview(block)
    position = 0
    while position < len(data):
        batch, position = decode_frame(data, position)
        yield batch
