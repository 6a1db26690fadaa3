"""A sealed frame: a header with a checksum round the body of a log entry (``log_entry``) or snapshot chunk
(``snapshot``).

Little endian:

====== ==== =======================================================================
offset size field
====== ==== =======================================================================
0      4    magic: the kind of frame
4      4    format version, 1
8      8    body length in bytes
16     16   label: the append id of a log entry; number and version of a snapshot chunk
32     4    CRC-32C of bytes 0–31 and of the body
36     n    body, msgpack
====== ==== =======================================================================

A frame is a value of a database, never part of a stream, so bytes after its end are an error.
"""

from struct import Struct

from siltstone.foundation.crc32c import crc32c
from siltstone.model.errors import CorruptData

FRAME_VERSION = 1
_CHECKED = Struct("<4sIQ16s")
_CRC = Struct("<I")
FRAME_HEADER_BYTES = _CHECKED.size + _CRC.size
assert FRAME_HEADER_BYTES == 36


class FrameTruncated(CorruptData):
    """The frame has fewer bytes than its header says."""


class FrameOverlong(CorruptData):
    """Bytes follow the end of the frame."""


class FrameDamaged(CorruptData):
    """The checksum or the magic does not match."""


class FrameVersionUnknown(CorruptData):
    """The frame was written by another version of this program."""


def seal(magic: bytes, label: bytes, body: bytes) -> bytes:
    assert len(magic) == 4 and len(label) == 16
    checked = _CHECKED.pack(magic, FRAME_VERSION, len(body), label)
    return b"".join((checked, _CRC.pack(crc32c([checked, body])), body))


def unseal(magic: bytes, frame: bytes) -> tuple[bytes, memoryview]:
    """Returns label and body. Raises FrameTruncated, FrameOverlong, FrameDamaged, FrameVersionUnknown."""
    if len(frame) < FRAME_HEADER_BYTES:
        raise FrameTruncated(
            f"a metadata frame has {len(frame)} bytes, less than its header of {FRAME_HEADER_BYTES}; "
            "restore the database from a backup"
        )
    found_magic, version, length, label = _CHECKED.unpack_from(frame)
    if found_magic != magic:
        raise FrameDamaged(
            f"a metadata frame has magic {found_magic!r} instead of {magic!r}; restore the database from a backup"
        )
    if version != FRAME_VERSION:
        raise FrameVersionUnknown(
            f"a metadata frame has format {version}, and this program reads format {FRAME_VERSION}; "
            "use the version that wrote it"
        )
    return label, _checked_body(frame, length)


def _checked_body(frame: bytes, length: int) -> memoryview:
    body = memoryview(frame)[FRAME_HEADER_BYTES:]
    if len(body) < length:
        raise FrameTruncated(
            f"the body of a metadata frame has {len(body)} of {length} bytes; restore the database from a backup"
        )
    if len(body) > length:
        raise FrameOverlong(
            f"{len(body) - length} bytes follow the end of a metadata frame; restore the database from a backup"
        )
    (stored,) = _CRC.unpack_from(frame, _CHECKED.size)
    if stored != crc32c([frame[: _CHECKED.size], body]):
        raise FrameDamaged(
            "the checksum of a metadata frame does not match; restore the database from a backup"
        )
    return body
