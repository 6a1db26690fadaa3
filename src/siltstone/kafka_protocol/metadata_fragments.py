"""Builds a Metadata response from topics that were encoded earlier.

Every client requests the metadata of all its topics every few minutes. Encoding a thousand topics takes several
milliseconds, and they have rarely changed since the last request, so the broker keeps each topic's bytes. The response
equals, byte for byte, what ``codec.encode`` returns.
"""

from collections.abc import Sequence
from functools import cache

from msgspec.structs import replace

from siltstone.kafka_protocol.codec import encode
from siltstone.kafka_protocol.compiling.compiled import is_flexible
from siltstone.kafka_protocol.compiling.layout import layout_of
from siltstone.kafka_protocol.compiling.primitives import varint
from siltstone.kafka_protocol.messages.metadata import MetadataResponse, MetadataResponseTopic
from siltstone.kafka_protocol.notation import Number


def encode_topic(topic: MetadataResponseTopic, version: int) -> bytes:
    """Returns the bytes of the topic inside a response of that version. Raises UnencodableMessage, UnknownVersion."""
    alone = encode(MetadataResponse(topics=[topic]), version)
    before, after = _around(version)
    return alone[before + len(_count(1, version)) : len(alone) - after]


def encode_with_topics(response: MetadataResponse, topics: Sequence[bytes], version: int) -> bytes:
    """Encodes ``response`` with ``topics``, which ``encode_topic`` has encoded in the same version, instead of its own
    topics."""
    rest = encode(replace(response, topics=[]), version)
    _, after = _around(version)
    end = len(rest) - after
    begin = end - len(_count(0, version))
    return b"".join((rest[:begin], _count(len(topics), version), *topics, rest[end:]))


def _count(topics: int, version: int) -> bytes:
    """Returns the length that precedes the array of topics: an int32, or in flexible versions a varint of the length
    plus 1."""
    return varint(topics + 1) if is_flexible(MetadataResponse, version) else topics.to_bytes(4, "big")


@cache
def _around(version: int) -> tuple[int, int]:
    """Returns how many bytes precede the array of topics in an otherwise empty response, and how many follow it in
    every response: all fields after the topics have a fixed size, and the message has no tagged fields."""
    flexible = is_flexible(MetadataResponse, version)
    fields = layout_of(MetadataResponse, version, flexible).group.fields
    names = [field.name for field in fields]
    after = int(flexible)
    for field in fields[names.index("topics") + 1 :]:
        assert isinstance(field.type, Number)
        after += field.type.size_bytes
    return len(encode(MetadataResponse(), version)) - len(_count(0, version)) - after, after
