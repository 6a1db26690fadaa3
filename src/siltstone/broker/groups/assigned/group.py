"""A group whose partitions the coordinator assigns, as a value."""

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any

import msgspec

from siltstone.broker.groups.offsets_log.keyed_values import PartitionOfId
from siltstone.broker.groups.offsets_log.record import CommittedOffset
from siltstone.broker.groups.ports import KnownTopics

Partitions = frozenset[PartitionOfId]

JOINS, LEAVES, LEAVES_FOR_A_WHILE = 0, -1, -2
"""Epochs that a member sends: when it has none yet, when it leaves, and when a static member will be back."""


class AssignedGroup(msgspec.Struct, frozen=True):
    """``targets``: member id → the partitions that it is to have, as of ``assignment_epoch``. ``seen``: the topics of
    ``metadata_hash``, which are not in the log."""

    group_id: str
    epoch: int = 0
    metadata_hash: int = 0
    assignment_epoch: int = 0
    assignment_ms: int = 0
    members: Mapping[str, Any] = {}
    targets: Mapping[str, Partitions] = {}
    is_dead: bool = False
    seen: Any = None

    @property
    def is_empty(self) -> bool:
        return not self.members

    @property
    def is_saved(self) -> bool:
        """Whether the log holds records of it."""
        return self.epoch > 0

    @property
    def pending(self) -> frozenset[str]:
        """No client waits for a member id: a client makes its own, or gets one with its first answer."""
        return frozenset()

    @property
    def names(self) -> list[str]:
        """The topics that any member subscribes to, in order."""
        return sorted({name for member in self.members.values() for name in self.topics_of(member)})

    def topics_of(self, member: Any) -> frozenset[str]:
        """Returns the names of all topics that it subscribes to."""
        return frozenset(member.topics)

    def is_subscribed_to(self, topic: str) -> bool:
        return any(topic in self.topics_of(member) for member in self.members.values())

    def offset_age_begins_ms(self, committed: CommittedOffset) -> int:
        return committed.committed_ms


def hash_of_topics(names: Sequence[str], topics: KnownTopics) -> int:
    """Returns a number of 64 bits that is the same on each node while the topics are the same; 0 for no topics.
    ``names`` are in order."""
    digest, found = blake2b(digest_size=8), False
    for name in names:
        if (topic := topics.by_name(name)) is not None:
            found = True
            digest.update(f"{name}\n{topic.topic_id.hex()} {topic.partition_count}\n".encode())
    return int.from_bytes(digest.digest(), "big", signed=True) if found else 0
