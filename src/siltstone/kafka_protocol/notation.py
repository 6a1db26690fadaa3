"""The notation in which messages are described: one class for all versions of a message.

::

    class MetadataResponseTopic(Structure, frozen=True, kw_only=True):
        error_code: Int16 = 0
        name: Annotated[str | None, NullableSince(12)] = ""
        topic_id: Annotated[Uuid, Versions(10)] = NO_UUID
        partitions: list[MetadataResponsePartition] = []

Every version of the message has the field unless ``Versions`` limits it. ``| None`` makes the field nullable in every
version, or from the version that ``NullableSince`` names. ``Tag`` makes it a tagged field. Fields are declared in the
order in which they are written. A field that a version lacks has its default value after decoding and is not encoded.

Read next: ``messages/metadata.py`` for an example, ``compiling.layout`` for how a description is resolved for one
version.
"""

from typing import Annotated, ClassVar, TypeAlias

import msgspec

from siltstone.kafka_protocol.api_key import ApiKey
from siltstone.model.buffers import Buffer

NO_UUID = bytes(16)
"""The id that Kafka writes where there is none."""

TEXT_BYTES_MAX = 32_767
"""The longest string in any version. Only older versions have an int16 length; but a string that was received in a
newer version is also written in older ones, and Kafka's Java readers refuse longer strings in every version."""


class Number(msgspec.Struct, frozen=True):
    """A field of fixed size; ``code`` is its format character in the struct module."""

    code: str
    size_bytes: int


class Versions(msgspec.Struct, frozen=True):
    """The versions of the message that have the field, both ends included; ``until`` None: all later versions."""

    since: int
    until: int | None = None


class NullableSince(msgspec.Struct, frozen=True):
    """The first version in which the field may be null."""

    version: int


class Tag(msgspec.Struct, frozen=True):
    """The field is tagged: it is written only when its value differs from its default."""

    number: int


class Gathered(msgspec.Struct, frozen=True):
    """The value is a list of buffers, which are written one after another and never joined."""


Int8: TypeAlias = Annotated[int, Number("b", 1)]
Int16: TypeAlias = Annotated[int, Number("h", 2)]
UInt16: TypeAlias = Annotated[int, Number("H", 2)]
Int32: TypeAlias = Annotated[int, Number("i", 4)]
Int64: TypeAlias = Annotated[int, Number("q", 8)]
Float64: TypeAlias = Annotated[float, Number("d", 8)]
Uuid: TypeAlias = Annotated[bytes, Number("16s", 16)]
Bytes: TypeAlias = Buffer
"""The decoder returns a memoryview slice."""
Records: TypeAlias = Buffer
"""Record batches, one after another; encoded like Bytes."""
RecordPieces: TypeAlias = Annotated[list[Buffer], Gathered()]
"""Record batches as a list of buffers; the encoder returns each buffer as a piece of its own, without copying it."""


class Structure(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A named set of fields inside a message. Messages hold no reference cycles, so the garbage collector does not
    track them."""


class Message(Structure, frozen=True, kw_only=True):
    """A request or response body."""

    api_key: ClassVar[ApiKey]
    versions: ClassVar[tuple[int, int]]
    """The lowest and the highest version that are described."""
    flexible_since: ClassVar[int | None]
    """The first version with compact lengths and tagged fields; None if there is none."""
