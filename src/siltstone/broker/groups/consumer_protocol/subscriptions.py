"""The topics that a group's members subscribe to, as they exist now. Pure."""

from collections.abc import Mapping
from hashlib import blake2b

from siltstone.broker.groups.consumer_protocol.group import ConsumerGroup, ConsumerMember
from siltstone.broker.groups.ports import KnownTopics


def subscribed_ids(group: ConsumerGroup, member: ConsumerMember, topics: KnownTopics) -> frozenset[bytes]:
    """Returns the ids of the topics that exist."""
    known = (topics.by_name(name) for name in group.topics_of(member))
    return frozenset(topic.topic_id for topic in known if topic is not None)


def partition_counts(group: ConsumerGroup, topics: KnownTopics) -> Mapping[bytes, int]:
    """Returns topic id → number of partitions of all topics that any member subscribes to."""
    known = (topics.by_name(name) for name in _names(group))
    return {topic.topic_id: topic.partition_count for topic in known if topic is not None}


def hash_of_topics(group: ConsumerGroup, topics: KnownTopics) -> int:
    """Returns a number of 64 bits that is the same on each node while the topics are the same; 0 for no topics."""
    digest, found = blake2b(digest_size=8), False
    for name in _names(group):
        if (topic := topics.by_name(name)) is not None:
            found = True
            digest.update(f"{name}\n{topic.topic_id.hex()} {topic.partition_count}\n".encode())
    return int.from_bytes(digest.digest(), "big", signed=True) if found else 0


def _names(group: ConsumerGroup) -> list[str]:
    return sorted({name for member in group.members.values() for name in group.topics_of(member)})
