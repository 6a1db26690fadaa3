"""A unit of work for one task, and its result, as bytes: some parts of one new object."""

import msgspec

from siltstone.maintenance.planning.stream_objects.parts import CopiedPart, ReadPart
from siltstone.object_store.port import MultipartUpload, UploadedPart


class CopyUnit(msgspec.Struct, frozen=True, kw_only=True):
    """Parts of the object at ``key``: into ``upload``, or, when there is none, the one part is the whole object and is
    put. All lies in one bucket. ``blocks`` are index entries (``columns.ENTRY``) with the numbers of their sources:
    those of the read parts, which count in them, and not in the whole object.

    ``number`` tells which object of the wave it is.
    """

    number: int
    bucket_url: str
    key: str
    upload: MultipartUpload | None
    source_ids: tuple[int, ...]
    blocks: bytes
    copied: tuple[CopiedPart, ...]
    read: tuple[ReadPart, ...]
    read_request_bytes_max: int


class CopyResult(msgspec.Struct, frozen=True, kw_only=True):
    """``failure``: why the parts could not be made, in one line; the other fields then say nothing. Bytes read and
    written are those that passed through the task; ``bytes_copied`` did not."""

    number: int
    failure: str = ""
    parts: tuple[UploadedPart, ...] = ()
    bytes_read: int = 0
    bytes_written: int = 0
    bytes_copied: int = 0
    peak_memory_bytes: int = 0


_encoder = msgspec.msgpack.Encoder()
_unit_decoder = msgspec.msgpack.Decoder(CopyUnit)
_result_decoder = msgspec.msgpack.Decoder(CopyResult)


def encode_unit(unit: CopyUnit) -> bytes:
    return _encoder.encode(unit)


def decode_unit(data: bytes) -> CopyUnit:
    return _unit_decoder.decode(data)


def encode_result(result: CopyResult) -> bytes:
    return _encoder.encode(result)


def decode_result(data: bytes) -> CopyResult:
    return _result_decoder.decode(data)
