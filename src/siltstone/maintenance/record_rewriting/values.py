"""Defines the stream objects that a task reads and writes."""

from typing import Protocol

import msgspec

from siltstone.model.objects import ObjectRange


class SourceObject(msgspec.Struct, frozen=True, array_like=True):
    """A stream object that is to be replaced. ``held`` is its one range, ``size_bytes`` the size of the whole object.
    ``copies``: the further buckets in which it is."""

    object_id: int
    bucket_id: int
    size_bytes: int
    held: ObjectRange
    copies: tuple[int, ...] = ()

    @property
    def bucket_ids(self) -> tuple[int, ...]:
        return (self.bucket_id, *self.copies)


class WrittenStreamObject(msgspec.Struct, frozen=True, array_like=True):
    """An output. ``size_bytes`` is the size of the whole object, ``held`` its one range, as in the commit."""

    object_id: int
    size_bytes: int
    held: ObjectRange


class SourcesToRead(Protocol):
    """``sources`` are contiguous, in offset order. A ranged GET asks for at most ``read_request_bytes_max``, and for at
    least one block."""

    @property
    def sources(self) -> tuple[SourceObject, ...]: ...
    @property
    def read_request_bytes_max(self) -> int: ...


class PlacesToWrite(SourcesToRead, Protocol):
    """Output number n, counted from 0, is object ``first_object_id`` + n. An output is closed when it has
    ``object_bytes``, and there are at most ``object_count_max``. Records below ``start_offset`` were trimmed."""

    @property
    def stream_id(self) -> int: ...
    @property
    def start_offset(self) -> int: ...
    @property
    def block_bytes(self) -> int: ...
    @property
    def object_bytes(self) -> int: ...
    @property
    def first_object_id(self) -> int: ...
    @property
    def object_count_max(self) -> int: ...
