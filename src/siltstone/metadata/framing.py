"""A sealed frame: the header and checksum that log entries and snapshot chunks share.

Little endian:

====== ==== =======================================================================
offset size field
====== ==== =======================================================================
0      4    magic, which tells the kind of frame
4      4    format version, 1
8      8    body length in bytes
16     16   label: what the kind of frame says beside its body
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
    """Fewer bytes than the header says."""


class FrameOverlong(CorruptData):
    """Bytes follow the end of the frame."""


class FrameDamaged(CorruptData):
    """The checksum or the magic does not match."""


class FrameVersionUnknown(CorruptData):
    """Written by another version of this program."""


def seal(magic: bytes, label: bytes, body: bytes) -> bytes:
    assert len(magic) == 4 and len(label) == 16
    checked = _CHECKED.pack(magic, FRAME_VERSION, len(body), label)
    return b"".join((checked, _CRC.pack(crc32c([checked, body])), body))


def unseal(magic: bytes, frame: bytes) -> tuple[bytes, memoryview]:
    """(label, body). Raises FrameTruncated, FrameOverlong, FrameDamaged, FrameVersionUnknown."""
    if len(frame) < FRAME_HEADER_BYTES:
        raise FrameTruncated(f"{len(frame)} bytes are no metadata frame; restore the database from a backup")
    found_magic, version, length, label = _CHECKED.unpack_from(frame)
    if found_magic != magic:
        raise FrameDamaged(f"magic {found_magic!r} where {magic!r} was expected; restore from a backup")
    if version != FRAME_VERSION:
        raise FrameVersionUnknown(f"metadata format {version}; this program reads {FRAME_VERSION}")
    return label, _checked_body(frame, length)


def _checked_body(frame: bytes, length: int) -> memoryview:
    body = memoryview(frame)[FRAME_HEADER_BYTES:]
    if len(body) < length:
        raise FrameTruncated(
            f"metadata frame of {length} bytes ends after {len(body)}; restore from a backup"
        )
    if len(body) > length:
        raise FrameOverlong(f"{len(body) - length} bytes follow a metadata frame; restore from a backup")
    (stored,) = _CRC.unpack_from(frame, _CHECKED.size)
    if stored != crc32c([frame[: _CHECKED.size], body]):
        raise FrameDamaged("checksum of a metadata frame does not match; restore from a backup")
    return body
