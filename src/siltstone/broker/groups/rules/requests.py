"""What a group can be asked, as values without a protocol version.

``member_id`` is empty where the asker has none yet. Negative generations mean none.
"""

from collections.abc import Collection, Mapping, Sequence
from enum import Enum, auto
from typing import TypeAlias

import msgspec

from siltstone.broker.groups.offsets_log.committed_offset import CommittedOffset
from siltstone.broker.groups.rules.member import Protocol

TopicPartition: TypeAlias = tuple[str, int]


class TimerKind(Enum):
    SESSION = auto()
    JOIN = auto()
    SYNC = auto()


class GroupTimer(msgspec.Struct, frozen=True):
    """``member_id`` only for a session."""

    kind: TimerKind
    member_id: str = ""


class Join(msgspec.Struct, frozen=True):
    """``new_member_id`` is what it is called if it has to have a new one. ``takes_member_id``: it can come back
    with one it is given (JoinGroup v4). ``can_skip_assignment``: it understands skip_assignment (v9)."""

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
    """``retention_ms`` only from clients that still say how long (OffsetCommit v2 to v4)."""

    member_id: str
    instance_id: str | None
    generation: int
    offsets: Sequence[OffsetToCommit]
    retention_ms: int | None = None


class DeleteOffsets(msgspec.Struct, frozen=True):
    """``committed``: those among ``partitions`` that have an offset."""

    partitions: Sequence[TopicPartition]
    committed: frozenset[TopicPartition]


class ExpireOffsets(msgspec.Struct, frozen=True):
    """``committed``: all the group has. ``kept_topics``: those whose data is kept until the group has read it."""

    committed: Mapping[TopicPartition, CommittedOffset]
    kept_topics: Collection[str] = frozenset()


class ForgetOffsets(msgspec.Struct, frozen=True):
    """Their topic is gone. ``committed``: those the group has."""

    committed: Sequence[TopicPartition]


class MoveOffsets(msgspec.Struct, frozen=True):
    """The broker's own: what lies before the ``targets`` counts as read. Never back: ``committed`` is where the group
    is, as far as it has committed. ``spares_members``: not while somebody is a member."""

    targets: Mapping[TopicPartition, int]
    committed: Mapping[TopicPartition, int]
    spares_members: bool


class DeleteGroup(msgspec.Struct, frozen=True):
    """``committed``: all the group has."""

    committed: Sequence[TopicPartition]


class TimerRang(msgspec.Struct, frozen=True):
    timer: GroupTimer


class Close(msgspec.Struct, frozen=True):
    """The coordinator gives the group up."""


Request: TypeAlias = (
    Join
    | Sync
    | Heartbeat
    | Leave
    | Commit
    | DeleteOffsets
    | ExpireOffsets
    | ForgetOffsets
    | MoveOffsets
    | DeleteGroup
    | TimerRang
    | Close
)
