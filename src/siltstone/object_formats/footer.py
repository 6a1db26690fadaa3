"""Object footer, version 1: the last 64 bytes of every stream set object and stream object.

Little endian. The whole object is ``blocks … | index | footer``.

====== ==== =======================================================================
offset size field
====== ==== =======================================================================
0      8    position of the index in the object
8      8    length of the index in bytes
16     8    size of the whole object in bytes, footer included
24     4    CRC-32C of the index
28     4    format version, 1
32     20   zero
52     4    CRC-32C of footer bytes 0–51
56     8    magic "SILTSOBJ"
====== ==== =======================================================================

The magic comes last, so that a truncated object is recognised. The footer holds the object's size, so that an object
with bytes added or lost before the footer is recognised as well. ``object_layout`` finds the index by the footer.
"""

from struct import Struct

import msgspec

from siltstone.foundation.crc32c import crc32c
from siltstone.model.buffers import Buffer
from siltstone.model.errors import CorruptData

FOOTER_MAGIC = b"SILTSOBJ"
FORMAT_VERSION = 1
_CHECKED = Struct("<QQQII20s")
_SEAL = Struct("<I8s")
FOOTER_BYTES = _CHECKED.size + _SEAL.size
assert FOOTER_BYTES == 64


class DamagedFooter(CorruptData):
    """The last bytes of an object are not a footer, or a footer of a version that this program does not read."""


class Footer(msgspec.Struct, frozen=True):
    index_position: int
    index_bytes: int
    object_bytes: int
    index_crc32c: int


def encode_footer(footer: Footer) -> bytes:
    checked = _CHECKED.pack(
        footer.index_position,
        footer.index_bytes,
        footer.object_bytes,
        footer.index_crc32c,
        FORMAT_VERSION,
        bytes(20),
    )
    return checked + _SEAL.pack(crc32c([checked]), FOOTER_MAGIC)


def decode_footer(tail: Buffer, object_bytes: int) -> Footer:
    """Returns the footer of an object of ``object_bytes`` bytes; ``tail`` is the end of the object. Raises
    DamagedFooter."""
    if len(tail) < FOOTER_BYTES:
        raise DamagedFooter(f"the object has {object_bytes} bytes, too few for a footer")
    raw = bytes(tail[-FOOTER_BYTES:])
    stored_crc, magic = _SEAL.unpack_from(raw, _CHECKED.size)
    if magic != FOOTER_MAGIC:
        raise DamagedFooter("the object has no footer: it is truncated, or Siltstone did not write it")
    if crc32c([raw[: _CHECKED.size]]) != stored_crc:
        raise DamagedFooter("the checksum of the footer does not match")
    index_position, index_bytes, written_bytes, index_crc, version, _ = _CHECKED.unpack_from(raw)
    if version != FORMAT_VERSION:
        raise DamagedFooter(f"the object has format version {version}; this program reads {FORMAT_VERSION}")
    if written_bytes != object_bytes:
        raise DamagedFooter(f"the object has {object_bytes} bytes, but was written with {written_bytes}")
    if index_position + index_bytes + FOOTER_BYTES != object_bytes:
        raise DamagedFooter("the footer is inconsistent: the index does not end where the footer begins")
    return Footer(index_position, index_bytes, written_bytes, index_crc)
