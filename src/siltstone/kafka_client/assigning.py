"""Members of a group send each other their subscriptions and assigned partitions through the coordinator. Pure.

The protocol type ``consumer`` is big endian; later versions only add fields at the end, which are not read.

==========  ==============  =====================================================================
message     field           type
==========  ==============  =====================================================================
both        version         int16
subscribed  topics          int32 count, then each: int16 length and UTF-8
assigned    topics          int32 count, then each: its name as above; int32 count, partitions int32
both        user data       bytes with an int32 length; -1 for none
==========  ==============  =====================================================================
"""

from collections.abc import Iterable, Mapping, Sequence
from struct import Struct, error

from siltstone.kafka_client.cluster import TopicPartition
from siltstone.kafka_client.offsets import by_topic
from siltstone.model.buffers import Buffer

RANGE = "range"
"""Kafka's default strategy, which every client knows: each topic's partitions in contiguous ranges."""

_VERSION = 0
_HEAD = Struct(">hi")
_LENGTH = Struct(">h")
_COUNT = Struct(">i")
_NO_USER_DATA = _COUNT.pack(-1)


def written_subscription(topics: Sequence[str]) -> bytes:
    return _HEAD.pack(_VERSION, len(topics)) + b"".join(map(_text, topics)) + _NO_USER_DATA


def subscribed_topics(subscription: Buffer) -> tuple[str, ...]:
    """Returns the topics in a member's subscription; empty if it has another format."""
    data = bytes(subscription)
    try:
        _, count = _HEAD.unpack_from(data)
        position = _HEAD.size
        topics: list[str] = []
        for _ in range(count):
            (length,) = _LENGTH.unpack_from(data, position)
            position += _LENGTH.size
            if not 0 <= length <= len(data) - position:
                return ()
            topics.append(data[position : position + length].decode())
            position += length
    except (error, UnicodeDecodeError):
        return ()
    return tuple(topics)


def written_assignment(partitions: Iterable[TopicPartition]) -> bytes:
    topics = by_topic(sorted(partitions))
    written = b"".join(
        _text(topic) + _COUNT.pack(len(numbers)) + b"".join(map(_COUNT.pack, numbers))
        for topic, numbers in topics.items()
    )
    return _HEAD.pack(_VERSION, len(topics)) + written + _NO_USER_DATA


def _text(text: str) -> bytes:
    encoded = text.encode()
    return _LENGTH.pack(len(encoded)) + encoded


def assigned_by_range(
    subscriptions: Mapping[str, Sequence[str]], partitions: Mapping[str, Sequence[int]]
) -> dict[str, list[TopicPartition]]:
    """Member → its partitions. ``subscriptions``: member → its topics; ``partitions``: topic → numbers. The first
    members, sorted by id, get one partition more if they cannot all have as many [Kafka: RangeAssignor]."""
    assigned: dict[str, list[TopicPartition]] = {member: [] for member in subscriptions}
    for topic, numbers in sorted(partitions.items()):
        members = sorted(member for member, topics in subscriptions.items() if topic in topics)
        if not members:
            continue
        share, more = divmod(len(numbers), len(members))
        waiting = iter(sorted(numbers))
        for place, member in enumerate(members):
            count = share + (place < more)
            assigned[member] += [TopicPartition(topic, next(waiting)) for _ in range(count)]
    return assigned
