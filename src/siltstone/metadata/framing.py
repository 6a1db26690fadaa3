"""A sealed frame: a header with a checksum round the body of a log entry (``log_entry``) or snapshot chunk
(``snapshot``).

Little endian. The label has 16 bytes in format 1 and 32 in format 2, which otherwise are equal:

====== ==== =======================================================================
offset size field
====== ==== =======================================================================
0      4    magic: the kind of frame
4      4    format version, 1 or 2
8      8    body length in bytes
16     m    label: the append id of a log entry and, in format 2, that of the entry
            before it; number and version of a snapshot chunk, always in format 1
16 + m 4    CRC-32C of the bytes before it and of the body
20 + m n    body, msgpack
====== ==== =======================================================================

A frame is a value of a database, never part of a stream, so bytes after its end are an error.
"""

from struct import Struct

from siltstone.foundation.crc32c import crc32c
from siltstone.model.errors import CorruptData

_CRC = Struct("<I")
_CHECKED = {1: Struct("<4sIQ16s"), 2: Struct("<4sIQ32s")}
"""The part of the header before the checksum, by format version."""

_LABEL_FORMATS = {16: 1, 32: 2}
_BEGIN = Struct("<4sI")
FRAME_HEADER_BYTES = _CHECKED[1].size + _CRC.size
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
    """Makes a frame: with a label of 16 bytes of format 1, with one of 32 bytes of format 2."""
    assert len(magic) == 4 and len(label) in _LABEL_FORMATS
    version = _LABEL_FORMATS[len(label)]
    checked = _CHECKED[version].pack(magic, version, len(body), label)
    return b"".join((checked, _CRC.pack(crc32c([checked, body])), body))


def unseal(magic: bytes, frame: bytes, *, newest: int = 1) -> tuple[bytes, memoryview]:
    """Returns label and body of a frame up to format ``newest``. Raises FrameTruncated, FrameOverlong, FrameDamaged,
    FrameVersionUnknown."""
    if len(frame) < FRAME_HEADER_BYTES:
        raise _truncated_header(frame, FRAME_HEADER_BYTES)
    found_magic, version = _BEGIN.unpack_from(frame)
    if found_magic != magic:
        raise FrameDamaged(
            f"a metadata frame has magic {found_magic!r} instead of {magic!r}; restore the database from a backup"
        )
    if not 1 <= version <= newest:
        raise FrameVersionUnknown(
            f"a metadata frame has format {version}, and this program reads format {newest}; "
            "use the version that wrote it"
        )
    checked = _CHECKED[version]
    if len(frame) < checked.size + _CRC.size:
        raise _truncated_header(frame, checked.size + _CRC.size)
    _, _, length, label = checked.unpack_from(frame)
    return label, _checked_body(frame, checked.size, length)


def _truncated_header(frame: bytes, header_length: int) -> FrameTruncated:
    return FrameTruncated(
        f"a metadata frame has {len(frame)} bytes, less than its header of {header_length}; "
        "restore the database from a backup"
    )


def _checked_body(frame: bytes, checked_length: int, length: int) -> memoryview:
    body = memoryview(frame)[checked_length + _CRC.size :]
    if len(body) < length:
        raise FrameTruncated(
            f"the body of a metadata frame has {len(body)} of {length} bytes; restore the database from a backup"
        )
    if len(body) > length:
        raise FrameOverlong(
            f"{len(body) - length} bytes follow the end of a metadata frame; restore the database from a backup"
        )
    (stored,) = _CRC.unpack_from(frame, checked_length)
    if stored != crc32c([frame[:checked_length], body]):
        raise FrameDamaged(
            "the checksum of a metadata frame does not match; restore the database from a backup"
        )
    return body
