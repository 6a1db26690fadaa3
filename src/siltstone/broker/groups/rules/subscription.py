"""The topics in a consumer's subscription: the metadata of a protocol of type ``consumer``.

====== ======================= ==========================================
order  field                   type
====== ======================= ==========================================
1      version                 int16, 0–3
2      topics                  int32 count, then int16 length and UTF-8
3      user data and the rest  not read
====== ======================= ==========================================

Every version begins with the fields of version 0, so the version is not looked at. Big endian. What does not fit
this is no error: other assignors may write what they like, and the group is then one whose topics are not known.
"""

import struct
from struct import Struct

_COUNT = Struct(">hi")
_LENGTH = Struct(">h")


def topics_of(metadata: bytes) -> frozenset[str] | None:
    """None when ``metadata`` is not a consumer's subscription."""
    try:
        _, count = _COUNT.unpack_from(metadata)
        position = _COUNT.size
        topics: set[str] = set()
        for _ in range(count):
            (length,) = _LENGTH.unpack_from(metadata, position)
            position += _LENGTH.size
            if length < 0 or position + length > len(metadata):
                return None
            topics.add(metadata[position : position + length].decode())
            position += length
    except (struct.error, UnicodeDecodeError):
        return None
    return frozenset(topics) if count >= 0 else None
