"""Objects: what the store keeps in a bucket, and where.

A *stream set object* (SSO) holds blocks of many streams, at most one contiguous range of each. A
*stream object* (SO) holds one contiguous range of one stream. Both have the same bytes layout; what
differs is the metadata. An object's bucket id is part of its metadata from the day it is prepared.
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
    """PREPARED → COMMITTED → DESTROYED → gone (T27). A prepared object whose time limit
    passes goes straight to DESTROYED."""

    PREPARED = 1
    COMMITTED = 2
    DESTROYED = 3


class ObjectRange(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """[start_offset, end_offset) of a stream as it lies in one object.

    ``size_bytes`` is what its blocks take in the object, so live bytes can be computed from the image.
    ``largest_timestamp_ms`` lets retention by time decide from the image as well.
    """

    stream_id: int
    object_id: int
    start_offset: int
    end_offset: int
    size_bytes: int
    largest_timestamp_ms: int


def object_key(object_id: int) -> str:
    """Where an object lies in its bucket: ``<2 hex of a hash>/objects/<id, 20 digits>``.

    The hash spreads sequential ids over key prefixes, as object stores limit the request rate by prefix
    (GC22; AutoMQ reverses the hex digits of the id for the same end).
    """
    spread = blake2b(object_id.to_bytes(8, "big"), digest_size=1).hexdigest()
    return f"{spread}/objects/{object_id:020d}"


def object_id_of_key(key: str) -> int | None:
    """The id whose key this is, or None when the store did not name it."""
    digits = key.rpartition("/")[2]
    if not (len(digits) == 20 and digits.isascii() and digits.isdigit()):
        return None
    object_id = int(digits)
    return object_id if object_id < 2**64 and object_key(object_id) == key else None
