"""Objects in a bucket: their kinds, states, ranges and keys.

A *stream set object* (SSO) holds blocks of many streams, at most one contiguous range of each. A *stream object* (SO)
holds one contiguous range of one stream. Both have the same layout (``object_formats``) and differ only in their
metadata. An object's bucket id is part of its metadata from the moment it is prepared.
"""

from enum import IntEnum
from hashlib import blake2b

import msgspec

DEFAULT_BUCKET_ID = 0


class ObjectKind(IntEnum):
    STREAM_SET_OBJECT = 1
    STREAM_OBJECT = 2

    @property
    def label(self) -> str:
        return "SSO" if self is ObjectKind.STREAM_SET_OBJECT else "SO"


class ObjectState(IntEnum):
    """PREPARED → COMMITTED → DESTROYED → deleted from bucket and metadata (T27).

    An object is prepared (its id is registered) before it is put, and committed once the metadata names its ranges.
    A prepared object whose time limit passes becomes DESTROYED without having been committed."""

    PREPARED = 1
    COMMITTED = 2
    DESTROYED = 3


class ObjectRange(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """The offsets [start_offset, end_offset) of a stream that one object holds.

    ``size_bytes`` is the size of their blocks, so that live bytes can be computed from the metadata image.
    ``largest_timestamp_ms`` lets retention by time decide from the image as well.
    """

    stream_id: int
    object_id: int
    start_offset: int
    end_offset: int
    size_bytes: int
    largest_timestamp_ms: int


def object_key(object_id: int) -> str:
    """Returns the key of an object in its bucket: ``<2 hex digits of a hash>/objects/<id, 20 digits>``.

    The hash spreads sequential ids over key prefixes, because object stores limit the request rate per prefix
    (GC22; AutoMQ reverses the hex digits of the id for the same reason).
    """
    spread = blake2b(object_id.to_bytes(8, "big"), digest_size=1).hexdigest()
    return f"{spread}/objects/{object_id:020d}"


def object_id_of_key(key: str) -> int | None:
    """Returns the id of the object with this key, or None when the key is not one that ``object_key`` returns."""
    digits = key.rpartition("/")[2]
    if not (len(digits) == 20 and digits.isascii() and digits.isdigit()):
        return None
    object_id = int(digits)
    return object_id if object_id < 2**64 and object_key(object_id) == key else None
