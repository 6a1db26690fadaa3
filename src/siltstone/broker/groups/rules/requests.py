"""Defines the requests to a group, and the answers to them, as values without a protocol version.

In a request ``member_id`` is empty if the client has none yet, and a negative generation means none. An answer is an
error code, since every request may be refused, or the value that the request asks for.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from enum import Enum, auto
from typing import TypeAlias

import msgspec

from siltstone.broker.groups.offsets_log.record import CommittedOffset, LogProducer
from siltstone.broker.groups.offsets_log.share_records import SharedTopic
from siltstone.broker.groups.rules.group import Protocol
from siltstone.kafka_protocol.error_code import ErrorCode

TopicPartition: TypeAlias = tuple[str, int]


# -- requests of clients ---------------------------------------------------------------------------------


class Join(msgspec.Struct, frozen=True):
    """``new_member_id``: the id that the client gets if it needs a new one. ``takes_member_id``: the client joins again
    with the id that it has got (JoinGroup v4). ``can_skip_assignment``: the client understands skip_assignment (v9)."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: tuple[Protocol, ...]
    new_member_id: str
    takes_member_id: bool = True
    can_skip_assignment: bool = True


class Sync(msgspec.Struct, frozen=True):
    member_id: str
    instance_id: str | None
    generation: int
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignments: Mapping[str, bytes] = {}


class Heartbeat(msgspec.Struct, frozen=True):
    member_id: str
    instance_id: str | None
    generation: int


class ConsumerBeat(msgspec.Struct, frozen=True):
    """A heartbeat of KIP-848. ``epoch``: 0 to join, -1 to leave, -2 to leave for a while. None: unchanged since the
    last heartbeat, and so is a rebalance timeout of -1. ``regex`` empty: no pattern. ``owned``: (topic id, partition).
    """

    member_id: str
    epoch: int
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    topics: tuple[str, ...] | None = None
    regex: str | None = None
    assignor: str | None = None
    owned: frozenset[tuple[bytes, int]] | None = None
    client_id: str = ""
    client_host: str = ""
    sees: Callable[[str], bool] = lambda _: True
    """Whether the client may see a topic that a pattern finds."""

    @property
    def is_full(self) -> bool:
        """Whether the member says everything, because it may have missed an answer."""
        says_topics = self.topics is not None or self.regex is not None
        return self.rebalance_timeout_ms != -1 and says_topics and self.owned is not None


class ShareBeat(msgspec.Struct, frozen=True):
    """A heartbeat of a member of a share group. ``epoch``: 0 to join, -1 to leave. None: unchanged since the last
    heartbeat."""

    member_id: str
    epoch: int
    rack_id: str | None = None
    topics: tuple[str, ...] | None = None
    client_id: str = ""
    client_host: str = ""


class ChangeShared(msgspec.Struct, frozen=True):
    """An administrator changes in which topics a share group without members has a state. ``removed``: names."""

    added: Mapping[bytes, SharedTopic] = {}
    removed: frozenset[str] = frozenset()


class LeavingMember(msgspec.Struct, frozen=True):
    """An administrator names static members by ``instance_id`` alone."""

    member_id: str
    instance_id: str | None = None


class Leave(msgspec.Struct, frozen=True):
    members: tuple[LeavingMember, ...]


class OffsetToCommit(msgspec.Struct, frozen=True):
    topic: str
    partition: int
    offset: int
    leader_epoch: int
    metadata: str


class Commit(msgspec.Struct, frozen=True):
    """``retention_ms`` is set only by clients that send a retention time (OffsetCommit v2 to v4)."""

    member_id: str
    instance_id: str | None
    generation: int
    offsets: Sequence[OffsetToCommit]
    retention_ms: int | None = None
    knows_epochs: bool = True
    """Whether the client could be a member of a group of KIP-848 (OffsetCommit v9)."""


class CommitInTransaction(msgspec.Struct, frozen=True):
    """The offsets become the group's when the transaction of the ``producer`` is committed."""

    member_id: str
    instance_id: str | None
    generation: int
    offsets: Sequence[OffsetToCommit]
    producer: LogProducer


class DeleteOffsets(msgspec.Struct, frozen=True):
    """``committed``: those of ``partitions`` that have a committed offset."""

    partitions: Sequence[TopicPartition]
    committed: frozenset[TopicPartition]


class DeleteGroup(msgspec.Struct, frozen=True):
    """``committed``: all partitions with a committed offset of the group."""

    committed: Sequence[TopicPartition]


# -- requests of the broker itself -----------------------------------------------------------------------


class ExpireOffsets(msgspec.Struct, frozen=True):
    """``committed``: all committed offsets of the group. ``kept_topics``: the topics whose records are kept until the
    group has read them."""

    committed: Mapping[TopicPartition, CommittedOffset]
    kept_topics: Collection[str] = frozenset()


class ForgetOffsets(msgspec.Struct, frozen=True):
    """The topics of these committed offsets were deleted."""

    committed: Sequence[TopicPartition]


class MoveOffsets(msgspec.Struct, frozen=True):
    """The records before the ``targets`` count as read. Offsets move forward only: ``committed`` has the offsets that
    the group has committed. ``spares_members``: the request is refused while the group has members."""

    targets: Mapping[TopicPartition, int]
    committed: Mapping[TopicPartition, int]
    spares_members: bool


class TimerKind(Enum):
    SESSION = auto()
    JOIN = auto()
    SYNC = auto()
    REVOCATION = auto()
    """A member of a group of KIP-848 has to give partitions back."""


class GroupTimer(msgspec.Struct, frozen=True):
    """``member_id`` is set for a session and a revocation only."""

    kind: TimerKind
    member_id: str = ""


class TimerRang(msgspec.Struct, frozen=True):
    timer: GroupTimer


class Close(msgspec.Struct, frozen=True):
    """The coordinator stops serving the group."""


Request: TypeAlias = (
    Join
    | Sync
    | Heartbeat
    | ConsumerBeat
    | ShareBeat
    | ChangeShared
    | Leave
    | Commit
    | CommitInTransaction
    | DeleteOffsets
    | DeleteGroup
    | ExpireOffsets
    | ForgetOffsets
    | MoveOffsets
    | TimerRang
    | Close
)


# -- answers ---------------------------------------------------------------------------------------------


class MemberIdGiven(msgspec.Struct, frozen=True):
    """The client is to join again with this id (MEMBER_ID_REQUIRED)."""

    member_id: str


class JoinedMember(msgspec.Struct, frozen=True):
    member_id: str
    instance_id: str | None
    metadata: bytes


class Joined(msgspec.Struct, frozen=True):
    """Only the leader gets ``members``, to assign partitions to them; with ``skip_assignment`` the leader only watches
    for new partitions."""

    member_id: str
    generation: int
    protocol_type: str | None
    protocol_name: str | None
    leader_id: str
    members: tuple[JoinedMember, ...] = ()
    skip_assignment: bool = False


class Assigned(msgspec.Struct, frozen=True):
    protocol_type: str | None
    protocol_name: str | None
    assignment: bytes


class BeatAnswer(msgspec.Struct, frozen=True):
    """The answer to a ``ConsumerBeat``. ``assigned`` None: unchanged."""

    member_id: str
    epoch: int
    assigned: frozenset[tuple[bytes, int]] | None


class Left(msgspec.Struct, frozen=True):
    """One error code per member of the request."""

    errors: tuple[ErrorCode, ...]


class OffsetErrors(msgspec.Struct, frozen=True):
    """One error code per offset of the request."""

    errors: tuple[ErrorCode, ...]


class OffsetsMoved(msgspec.Struct, frozen=True):
    """The new offsets of the partitions whose offset moved."""

    moved: Mapping[TopicPartition, int]


Answer: TypeAlias = (
    ErrorCode | MemberIdGiven | Joined | Assigned | BeatAnswer | Left | OffsetErrors | OffsetsMoved
)
