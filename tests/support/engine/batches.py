"""Record batches for tests, with payloads that are a function of stream and offset."""

from collections.abc import Iterable

from siltstone.model.record_batch import RecordBatch
from siltstone.object_formats.batch_frame import encode_frame_header
from siltstone.object_formats.object_layout import EncodedObject, ObjectBuilder


def batch(
    stream_id: int = 1,
    base_offset: int = 0,
    count: int = 1,
    payload_bytes: int = 20,
    *,
    epoch: int = 0,
    timestamp_ms: int = 1_000,
    offsets: int | None = None,
) -> RecordBatch:
    """``count`` records from ``base_offset``; ``offsets`` is how many offsets they span, if more than their number."""
    return RecordBatch(
        stream_id=stream_id,
        stream_epoch=epoch,
        base_offset=base_offset,
        end_offset=base_offset + (count if offsets is None else offsets),
        record_count=count,
        smallest_timestamp_ms=timestamp_ms,
        largest_timestamp_ms=timestamp_ms + count - 1,
        payload=payload_of(stream_id, base_offset, payload_bytes),
    )


def payload_of(stream_id: int, offset: int, size_bytes: int) -> bytes:
    pattern = b"%d:%d|" % (stream_id, offset)
    return (pattern * (size_bytes // len(pattern) + 1))[:size_bytes]


def frame(of: RecordBatch) -> bytes:
    return encode_frame_header(of) + bytes(of.payload)


def frames(of: Iterable[RecordBatch]) -> bytes:
    return b"".join(frame(one) for one in of)


def build_object(batches: Iterable[RecordBatch], block_size_bytes: int = 1024) -> EncodedObject:
    """Batches in (stream, offset) order, as an object that can be put."""
    builder = ObjectBuilder(block_size_bytes)
    for one in batches:
        builder.append(one, encode_frame_header(one))
    return builder.finish()


def object_bytes(batches: Iterable[RecordBatch], block_size_bytes: int = 1024) -> bytes:
    return b"".join(build_object(batches, block_size_bytes).buffers)
