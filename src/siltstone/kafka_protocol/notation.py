"""The notation in which messages are described: one class for all versions of a message.

::

    class MetadataResponseTopic(Structure, frozen=True, kw_only=True):
        error_code: Int16 = 0
        name: Annotated[str | None, NullableSince(12)] = ""
        topic_id: Annotated[Uuid, Versions(10)] = NO_UUID
        partitions: list[MetadataResponsePartition] = []

A field stands in every version of its message unless ``Versions`` says otherwise; ``| None`` means nullable in
every one of them unless ``NullableSince`` says otherwise; ``Tag`` makes it a tagged field. The order of the fields
is that of the wire. What a version lacks has its default after decoding and is left out when encoding.

Read next: ``messages/metadata.py`` for an example, ``compiling.layout`` for what becomes of it.
"""

from typing import Annotated, ClassVar, TypeAlias

import msgspec

from siltstone.kafka_protocol.api_key import ApiKey
from siltstone.model.buffers import Buffer

NO_UUID = bytes(16)
"""Kafka's "no id"."""

TEXT_BYTES_MAX = 32_767
"""Of a string in every version, though only the older ones have no room for more: what came in a newer version is
written in older ones too, and Java reads no longer ones in any."""


class Number(msgspec.Struct, frozen=True):
    """A field of fixed size: its code in the struct module, and its size."""

    code: str
    size_bytes: int


class Versions(msgspec.Struct, frozen=True):
    """The versions of the message in which the field stands; both ends belong to it."""

    since: int
    until: int | None = None


class NullableSince(msgspec.Struct, frozen=True):
    """The first version in which the field may be null."""

    version: int


class Tag(msgspec.Struct, frozen=True):
    """The field is a tagged one: left out when it has its default value."""

    number: int


class Gathered(msgspec.Struct, frozen=True):
    """The bytes are given as a list of buffers and never joined."""


Int8: TypeAlias = Annotated[int, Number("b", 1)]
Int16: TypeAlias = Annotated[int, Number("h", 2)]
Int32: TypeAlias = Annotated[int, Number("i", 4)]
Int64: TypeAlias = Annotated[int, Number("q", 8)]
Uuid: TypeAlias = Annotated[bytes, Number("16s", 16)]
Bytes: TypeAlias = Buffer
"""After decoding, a memoryview slice."""
Records: TypeAlias = Buffer
"""Record batches, one after another: as Bytes on the wire."""
RecordPieces: TypeAlias = Annotated[list[Buffer], Gathered()]
"""The same from many places: what is encoded has each of them as a piece of its own."""


class Structure(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A group of fields inside a message. Messages hold no cycles, so the collector may leave them alone."""


class Message(Structure, frozen=True, kw_only=True):
    """A request or response body."""

    api_key: ClassVar[ApiKey]
    versions: ClassVar[tuple[int, int]]
    """Lowest and highest, both spoken."""
    flexible_since: ClassVar[int | None]
    """The first version with compact lengths and tagged fields; None if there is none."""
