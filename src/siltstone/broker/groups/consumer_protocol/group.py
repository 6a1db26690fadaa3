"""A consumer group of KIP-848 and its members as values.

A partition of a topic is (16 bytes of the topic's id, number): a topic that is deleted and created again is another
one.
"""

from collections.abc import Iterator, Mapping
from enum import Enum, IntEnum
from typing import Any, TypeAlias

import msgspec

from siltstone.broker.groups.assigned.group import LEAVES_FOR_A_WHILE, AssignedGroup
from siltstone.broker.groups.offsets_log.consumer_records import ClassicMember
from siltstone.broker.groups.rules.group import CONSUMER_TYPE, MEMBER_OVERHEAD_BYTES

PartitionOfId: TypeAlias = tuple[bytes, int]

PARTITION_BYTES = 150
"""The memory that a partition takes in the targets, the assignments and the holders together."""


class MemberState(IntEnum):
    """The values are the numbers in records. *Unrevoked*: the member still has to give partitions back. *Unreleased*:
    partitions of its target are still with other members."""

    STABLE = 0
    UNREVOKED = 1
    UNRELEASED = 2


class ConsumerGroupState(Enum):
    """The values are the names that clients see. *Assigning*: the target assignment is older than the group's epoch.
    *Reconciling*: a member does not have its target yet."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


class ConsumerMember(msgspec.Struct, frozen=True):
    """``topics``: the names that it subscribes to, in order. ``regex``: a pattern of names, None if it has none.
    ``assignor`` None: it has no wish. ``classic``: what it said by the classic protocol, if it speaks that.
    ``assigned`` and ``revoking``: partition → the member's epoch when it got the partition. It still owns what is
    being revoked."""

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: tuple[str, ...] = ()
    regex: str | None = None
    rebalance_timeout_ms: int = -1
    assignor: str | None = None
    classic: ClassicMember | None = None
    epoch: int = 0
    previous_epoch: int = -1
    state: MemberState = MemberState.STABLE
    assigned: Mapping[PartitionOfId, int] = {}
    revoking: Mapping[PartitionOfId, int] = {}

    @property
    def is_static(self) -> bool:
        return self.instance_id is not None

    @property
    def is_away(self) -> bool:
        """Whether this static member has left for a while."""
        return self.epoch == LEAVES_FOR_A_WHILE

    @property
    def held(self) -> Iterator[PartitionOfId]:
        """Yields the partitions that nobody else may have yet."""
        yield from self.assigned
        yield from self.revoking


class PatternTopics(msgspec.Struct, frozen=True):
    """The topics whose names match a pattern, in order, as they were at that time."""

    topics: tuple[str, ...]
    resolved_ms: int


class ConsumerGroup(AssignedGroup, frozen=True):
    """``holders``: partition → the member that has it or has to give it back. ``seen_by_patterns``: the topics of
    ``patterns``, which are not in the log."""

    members: Mapping[str, ConsumerMember] = {}
    holders: Mapping[PartitionOfId, str] = {}
    patterns: Mapping[str, PatternTopics] = {}
    members_bytes: int = 0
    seen_by_patterns: Any = None

    @property
    def state(self) -> ConsumerGroupState:
        if self.is_dead:
            return ConsumerGroupState.DEAD
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.epoch > self.assignment_epoch:
            return ConsumerGroupState.ASSIGNING
        if all(self.is_settled(member) for member in self.members.values()):
            return ConsumerGroupState.STABLE
        return ConsumerGroupState.RECONCILING

    @property
    def protocol_type(self) -> str:
        return CONSUMER_TYPE

    @property
    def charged_bytes(self) -> int:
        return self.members_bytes + PARTITION_BYTES * len(self.holders)

    @property
    def has_consumer_members(self) -> bool:
        """Whether a member speaks the new protocol."""
        return any(member.classic is None for member in self.members.values())

    def is_settled(self, member: ConsumerMember) -> bool:
        """Whether the member has its target."""
        return member.epoch == self.assignment_epoch and member.state is MemberState.STABLE

    def static_member(self, instance_id: str) -> ConsumerMember | None:
        for member in self.members.values():
            if member.instance_id == instance_id:
                return member
        return None

    def topics_of(self, member: ConsumerMember) -> frozenset[str]:
        """Returns the names of all topics that it subscribes to."""
        matching = self.patterns.get(member.regex or "")
        return frozenset(member.topics if matching is None else (*member.topics, *matching.topics))

    def keeps_offsets_of(self, topic: str) -> bool:
        """Whether no offset of the topic expires: members use it."""
        return self.is_subscribed_to(topic)


def consumer_member_bytes(member: ConsumerMember) -> int:
    """Returns the memory that a member is charged."""
    texts = (
        member.member_id,
        member.client_id,
        member.client_host,
        member.instance_id,
        member.regex,
        *member.topics,
    )
    protocols = () if member.classic is None else member.classic.protocols
    said = sum(len(name) + len(metadata) for name, metadata in protocols)
    return MEMBER_OVERHEAD_BYTES + said + sum(len(text) for text in texts if text)
