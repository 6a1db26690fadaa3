"""A consumer group and its members as values, and what follows from them alone: which client is a member, which
protocol is elected, which topics are subscribed to.

A member's subscription is the metadata of a protocol of type ``consumer``:

====== ======================= ==========================================
order  field                   type
====== ======================= ==========================================
1      version                 int16, 0–3
2      topics                  int32 count, then int16 length and UTF-8
3      user data and the rest  not read
====== ======================= ==========================================

Every version begins with the fields of version 0, so the version is not checked. Integers are big endian. Metadata in
another form is no error: an assignor may write what it likes, and the topics of such a group count as unknown.
"""

import struct
from collections import Counter
from collections.abc import Collection, Mapping
from struct import Struct
from typing import Any
from typing import Protocol as TypingProtocol

import msgspec

from siltstone.broker.groups.offsets_log.record import CommittedOffset
from siltstone.broker.groups.rules.states import GroupState
from siltstone.kafka_protocol.error_code import ErrorCode

CONSUMER_TYPE = "consumer"
"""The protocol type whose subscriptions the coordinator can read."""

MEMBER_OVERHEAD_BYTES = 1_000
"""The memory that a member takes besides its texts and bytes: the value, its place in dicts, its timer."""

PENDING_MEMBER_BYTES = 500
"""The memory that a pending member id takes."""

_COUNT = Struct(">hi")
_LENGTH = Struct(">h")


# -- members ---------------------------------------------------------------------------------------------


class Protocol(msgspec.Struct, frozen=True):
    """An assignment strategy that a member supports; ``metadata`` is the member's subscription, in the strategy's own
    format."""

    name: str
    metadata: bytes


class Member(msgspec.Struct, frozen=True):
    """``join_ticket`` and ``sync_ticket``: the member's JoinGroup and SyncGroup that still await an answer. ``is_new``:
    the member joined for the first time, and no generation has started since. ``must_sync``: the member was answered
    with the current generation and has not sent SyncGroup yet."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: tuple[Protocol, ...]
    assignment: bytes = b""
    join_ticket: int | None = None
    sync_ticket: int | None = None
    is_new: bool = False
    must_sync: bool = False

    @property
    def is_static(self) -> bool:
        return self.instance_id is not None

    def supports(self, protocol_name: str) -> bool:
        for protocol in self.protocols:  # noqa: SIM110 - called for every member at every join; any() takes three times as long
            if protocol.name == protocol_name:
                return True
        return False

    def metadata_of(self, protocol_name: str | None) -> bytes:
        """Empty when the member does not support that protocol."""
        for protocol in self.protocols:
            if protocol.name == protocol_name:
                return protocol.metadata
        return b""


def protocols_bytes(protocols: tuple[Protocol, ...]) -> int:
    return sum(len(protocol.name) + len(protocol.metadata) for protocol in protocols)


def member_bytes(member: Member) -> int:
    """Returns the memory that a member is charged; its record in the log is about as large."""
    texts = 2 * len(member.member_id) + len(member.client_id) + len(member.client_host)
    return (
        MEMBER_OVERHEAD_BYTES
        + texts
        + len(member.instance_id or "")
        + protocols_bytes(member.protocols)
        + len(member.assignment)
    )


# -- the group -------------------------------------------------------------------------------------------


class InitialDelay(msgspec.Struct, frozen=True):
    """Present during the join phase of a group that was empty: that phase ends by its timer only. ``newcomers``: a
    member joined since the timer was set."""

    remaining_ms: int
    newcomers: bool = False


class Group(msgspec.Struct, frozen=True):
    """``protocol_type`` None: a simple group, which has committed offsets and has never had a member. ``pending``:
    member ids that were given to clients and have not joined yet. ``subscribed_topics`` None: not known. ``is_saved``:
    the log holds a group record of it."""

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
        """The number of members that the group would have if the join phase ended now."""
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
        """True for every topic while the subscriptions of a group of type consumer are unknown, so that its offsets are
        kept."""
        if self.subscribed_topics is not None:
            return topic in self.subscribed_topics
        return self.protocol_type == CONSUMER_TYPE

    @property
    def is_empty(self) -> bool:
        return self.state is GroupState.EMPTY

    @property
    def is_dead(self) -> bool:
        return self.state is GroupState.DEAD

    def keeps_offsets_of(self, topic: str) -> bool:
        """Whether no offset of the topic expires: members use it, or may do so."""
        if self.state is GroupState.EMPTY:
            return False
        knows_topics = self.subscribed_topics is not None
        return self.state is not GroupState.STABLE or not knows_topics or self.is_subscribed_to(topic)

    def offset_age_begins_ms(self, committed: CommittedOffset) -> int:
        """Returns when the retention time of the offset begins."""
        if self.state is GroupState.EMPTY and not self.is_simple:
            return max(committed.committed_ms, self.state_since_ms)
        return committed.committed_ms


class OwnerOfOffsets(TypingProtocol):
    """What the rules of offsets ask of a group, whatever protocol its members speak."""

    @property
    def group_id(self) -> str: ...

    @property
    def members(self) -> Mapping[str, Any]: ...

    @property
    def pending(self) -> frozenset[str]: ...

    @property
    def is_empty(self) -> bool: ...

    def is_subscribed_to(self, topic: str) -> bool: ...

    def keeps_offsets_of(self, topic: str) -> bool: ...

    def offset_age_begins_ms(self, committed: CommittedOffset) -> int: ...


def membership_error(group: Group, member_id: str, instance_id: str | None) -> ErrorCode | None:
    """Returns the error for a client that calls itself this member and is not; None when the client is that member."""
    member = group.members.get(member_id)
    if instance_id is None or (member is not None and member.instance_id == instance_id):
        return ErrorCode.UNKNOWN_MEMBER_ID if member is None else None
    if group.static_member(instance_id) is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return ErrorCode.FENCED_INSTANCE_ID


# -- protocols and subscriptions -------------------------------------------------------------------------


def can_work_with(group: Group, protocol_type: str, protocols: tuple[Protocol, ...], but: str | None) -> bool:
    """Returns whether a member with these protocols can join the other members of the group; ``but`` is the id of the
    member that it replaces."""
    others = [member for member in group.members.values() if member.member_id != but]
    if not protocol_type or not protocols:
        return False
    if not others:
        return True
    return group.protocol_type == protocol_type and any(
        all(other.supports(protocol.name) for other in others) for protocol in protocols
    )


def elected_protocol(members: Collection[Member]) -> str:
    """Elects the protocol: each member votes for the first protocol on its list that all members support; the protocol
    with the most votes wins, and among equals the one that was voted for first."""
    known = Counter(name for member in members for name in {protocol.name for protocol in member.protocols})
    votes = Counter(
        next(protocol.name for protocol in member.protocols if known[protocol.name] == len(members))
        for member in members
    )
    return votes.most_common(1)[0][0]


def subscribed_topics(
    protocol_type: str | None, protocol_name: str | None, members: Collection[Member]
) -> frozenset[str] | None:
    """Returns the topics of all members together; None when a subscription has a form that cannot be read."""
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


def topics_of(metadata: bytes) -> frozenset[str] | None:
    """Returns None when ``metadata`` is not a consumer's subscription."""
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
