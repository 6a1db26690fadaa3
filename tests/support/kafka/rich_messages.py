"""Messages that use everything of which the codec's generated functions are made, in all their versions."""

from collections.abc import Iterator

import msgspec

from siltstone.kafka_protocol.messages.describe_topic_partitions import DescribeTopicPartitionsResponse
from siltstone.kafka_protocol.messages.fetch import FetchRequest, FetchResponse
from siltstone.kafka_protocol.messages.metadata import MetadataResponse
from siltstone.kafka_protocol.messages.produce import ProduceRequest
from siltstone.kafka_protocol.notation import Message
from support.kafka.message_strategies import full_message

RICH = [
    (message, version)
    for message in (
        FetchRequest,
        FetchResponse,
        MetadataResponse,
        ProduceRequest,
        DescribeTopicPartitionsResponse,
    )
    for version in {*message.versions, message.flexible_since or 0}
    if version >= message.versions[0]
]
"""Messages with nested structures that may be null, tagged fields of each type, uuids, pieces and lists of numbers."""


def samples(message: type[Message], version: int) -> list[Message]:
    """Returns one message in which nothing is empty, one in which everything is empty or null that may be, and one
    with long texts."""
    full, empty = full_message(message, version), message()
    return [full, empty, *_lengthened(full)]


def _lengthened(full: Message) -> Iterator[Message]:
    for name in full.__struct_fields__:
        value = getattr(full, name)
        if isinstance(value, str):
            yield msgspec.structs.replace(full, **{name: "é" * 100})
        elif isinstance(value, list) and value:
            yield msgspec.structs.replace(full, **{name: value * 200})
