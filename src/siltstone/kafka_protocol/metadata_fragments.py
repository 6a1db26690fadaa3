"""A Metadata response put together from topics that were written before.

Every client asks for all its topics every few minutes; a thousand of them take several milliseconds to write, and
hardly ever differ from the last time. What is joined here is byte for byte what ``codec.encode`` makes.
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
    """The topic as it stands in a response of the version. Raises UnencodableMessage, UnknownVersion."""
    alone = encode(MetadataResponse(topics=[topic]), version)
    before, after = _around(version)
    return alone[before + len(_count(1, version)) : len(alone) - after]


def encode_with_topics(response: MetadataResponse, topics: Sequence[bytes], version: int) -> bytes:
    """``response``, whose own topics do not count, with those that ``encode_topic`` wrote in the same version."""
    rest = encode(replace(response, topics=[]), version)
    _, after = _around(version)
    end = len(rest) - after
    begin = end - len(_count(0, version))
    return b"".join((rest[:begin], _count(len(topics), version), *topics, rest[end:]))


def _count(topics: int, version: int) -> bytes:
    """Before an array stands its length; a compact one is a varint of one more."""
    return varint(topics + 1) if is_flexible(MetadataResponse, version) else topics.to_bytes(4, "big")


@cache
def _around(version: int) -> tuple[int, int]:
    """Bytes before the array of topics in an otherwise empty response, and after it in every one: what follows the
    topics is of fixed size, and no tagged field is."""
    flexible = is_flexible(MetadataResponse, version)
    fields = layout_of(MetadataResponse, version, flexible).group.fields
    names = [field.name for field in fields]
    after = int(flexible)
    for field in fields[names.index("topics") + 1 :]:
        assert isinstance(field.type, Number)
        after += field.type.size_bytes
    return len(encode(MetadataResponse(), version)) - len(_count(0, version)) - after, after
