"""A unit of work for one task, and its result, as bytes: msgpack of plain values."""

import msgspec

from siltstone.maintenance.planning.iteration import Iteration
from siltstone.object_store.port import MultipartUpload, UploadedPart


class IterationUnit(msgspec.Struct, frozen=True):
    """An iteration of the plan, bound to what was prepared for it.

    ``first_object_id`` plus an output's number is its id; ``upload`` is that of the stream set object, if there is one.
    """

    iteration: Iteration
    bucket_urls: dict[int, str]
    output_bucket_id: int
    first_object_id: int
    upload: MultipartUpload | None


class WrittenObject(msgspec.Struct, frozen=True, array_like=True):
    object_id: int
    size_bytes: int


class IterationResult(msgspec.Struct, frozen=True):
    """``peak_memory_bytes`` is that of the whole process since it began."""

    number: int
    stream_objects: tuple[WrittenObject, ...]
    part: UploadedPart | None
    bytes_read: int
    read_requests: int
    bytes_written: int
    write_requests: int
    peak_memory_bytes: int


_encoder = msgspec.msgpack.Encoder()
_unit_decoder = msgspec.msgpack.Decoder(IterationUnit)
_result_decoder = msgspec.msgpack.Decoder(IterationResult)


def encode_unit(unit: IterationUnit) -> bytes:
    return _encoder.encode(unit)


def decode_unit(data: bytes) -> IterationUnit:
    return _unit_decoder.decode(data)


def encode_result(result: IterationResult) -> bytes:
    return _encoder.encode(result)


def decode_result(data: bytes) -> IterationResult:
    return _result_decoder.decode(data)
