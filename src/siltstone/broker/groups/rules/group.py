"""A group as a value, and what can be asked of it.

The topics in a consumer's subscription: the metadata of a protocol of type ``consumer``.

====== ======================= ==========================================
order  field                   type
====== ======================= ==========================================
1      version                 int16, 0–3
2      topics                  int32 count, then int16 length and UTF-8
3      user data and the rest  not read
====== ======================= ==========================================

Every version begins with the fields of version 0, so the version is not looked at. Big endian. What does not fit
this is no error: other assignors may write what they like, and the group is then one whose topics are not known.
"""

import struct
from collections import Counter
from collections.abc import Collection, Mapping
from struct import Struct

import msgspec

from siltstone.broker.groups.rules.member import PENDING_MEMBER_BYTES, Member, Protocol
from siltstone.broker.groups.rules.states import GroupState

_COUNT = Struct(">hi")
_LENGTH = Struct(">h")


def topics_of(metadata: bytes) -> frozenset[str] | None:
    """None when ``metadata`` is not a consumer's subscription."""
    try:
        _, count = _COUNT.unpack_from(metadata)
        position = _COUNT.size
        topics: set[str] = set()
        for _ in range(count):
            (length,) = _LENGTH.unpack_from(metadata, position)
            position += _LENGTH.size
            if length < 0 or position + length > len(metadata):
                return None
            topics.add(metadata[position : position + length].decode())
            position += length
    except (struct.error, UnicodeDecodeError):
        return None
    return frozenset(topics) if count >= 0 else None


CONSUMER_TYPE = "consumer"
"""The protocol type whose subscriptions the coordinator can read."""


class InitialDelay(msgspec.Struct, frozen=True):
    """The join phase of a group that was empty ends by time only. ``newcomers``: somebody joined since the timer
    was set."""

    remaining_ms: int
    newcomers: bool = False


class Group(msgspec.Struct, frozen=True):
    """``protocol_type`` None: a simple group, offsets and nothing else. ``pending``: ids that were given away and
    have not joined yet. ``subscribed_topics`` None: not known. ``is_saved``: the log holds a record of it.
    ``initial`` is there during the join phase of a group that was empty."""

    group_id: str
    state: GroupState = GroupState.EMPTY
    generation: int = 0
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader_id: str | None = None
    members: Mapping[str, Member] = {}
    members_bytes: int = 0
    pending: frozenset[str] = frozenset()
    initial: InitialDelay | None = None
    subscribed_topics: frozenset[str] | None = None
    state_since_ms: int = -1
    is_saved: bool = False

    @property
    def is_simple(self) -> bool:
        return self.protocol_type is None

    @property
    def charged_bytes(self) -> int:
        return self.members_bytes + len(self.pending) * PENDING_MEMBER_BYTES

    @property
    def everybody_joined(self) -> bool:
        return not self.pending and all(member.join_ticket is not None for member in self.members.values())

    @property
    def certain_members(self) -> int:
        """Who would be members if the join phase ended now."""
        return sum(member.join_ticket is not None or member.is_static for member in self.members.values())

    @property
    def awaits_syncs(self) -> bool:
        return any(member.must_sync for member in self.members.values())

    @property
    def rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def static_member(self, instance_id: str) -> Member | None:
        for member in self.members.values():
            if member.instance_id == instance_id:
                return member
        return None

    def is_subscribed_to(self, topic: str) -> bool:
        """When in doubt, a group of type consumer is: its offsets are kept."""
        if self.subscribed_topics is not None:
            return topic in self.subscribed_topics
        return self.protocol_type == CONSUMER_TYPE


def can_work_with(group: Group, protocol_type: str, protocols: tuple[Protocol, ...], but: str | None) -> bool:
    """Whether somebody with these protocols can be a member beside all others; ``but`` is the member it replaces."""
    others = [member for member in group.members.values() if member.member_id != but]
    if not protocol_type or not protocols:
        return False
    if not others:
        return True
    return group.protocol_type == protocol_type and any(
        all(other.supports(protocol.name) for other in others) for protocol in protocols
    )


def elected_protocol(members: Collection[Member]) -> str:
    """Each votes for the first on its list that all know; the most votes win, among equals the one voted for first."""
    known = Counter(name for member in members for name in {protocol.name for protocol in member.protocols})
    votes = Counter(
        next(protocol.name for protocol in member.protocols if known[protocol.name] == len(members))
        for member in members
    )
    return votes.most_common(1)[0][0]


def subscribed_topics(
    protocol_type: str | None, protocol_name: str | None, members: Collection[Member]
) -> frozenset[str] | None:
    """Of all members together. None when the subscriptions are not of a kind we can read."""
    if protocol_type != CONSUMER_TYPE:
        return None
    if not members:
        return frozenset()
    topics: set[str] = set()
    for member in members:
        own = topics_of(member.metadata_of(protocol_name))
        if own is None:
            return None
        topics |= own
    return frozenset(topics)
