"""What a decision asks for: answers, timers, records.

An answer is an error code (any request may be refused), or what was asked for. A request is answered under the
ticket it came with, at once or in a later decision.
"""

from collections.abc import Mapping
from typing import TypeAlias

import msgspec

from siltstone.broker.groups.offsets_log.record import GroupRecord, OffsetRecord
from siltstone.broker.groups.rules.group import Group
from siltstone.broker.groups.rules.requests import GroupTimer, TopicPartition
from siltstone.kafka_protocol.error_code import ErrorCode


class MemberIdGiven(msgspec.Struct, frozen=True):
    """Join again with this id (MEMBER_ID_REQUIRED)."""

    member_id: str


class JoinedMember(msgspec.Struct, frozen=True):
    member_id: str
    instance_id: str | None
    metadata: bytes


class Joined(msgspec.Struct, frozen=True):
    """``members`` only for the leader, which assigns, or, with ``skip_assignment``, only looks."""

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


class Left(msgspec.Struct, frozen=True):
    """One per member named."""

    errors: tuple[ErrorCode, ...]


class OffsetErrors(msgspec.Struct, frozen=True):
    """One per offset named."""

    errors: tuple[ErrorCode, ...]


class OffsetsMoved(msgspec.Struct, frozen=True):
    """The new offsets, of those that moved."""

    moved: Mapping[TopicPartition, int]


Answer: TypeAlias = ErrorCode | MemberIdGiven | Joined | Assigned | Left | OffsetErrors | OffsetsMoved


class AnswerTo(msgspec.Struct, frozen=True):
    ticket: int
    answer: Answer


class SetTimer(msgspec.Struct, frozen=True):
    """Replaces the same timer if it is set."""

    timer: GroupTimer
    delay_ms: int


class CancelTimer(msgspec.Struct, frozen=True):
    timer: GroupTimer


Action: TypeAlias = AnswerTo | SetTimer | CancelTimer
Record: TypeAlias = GroupRecord | OffsetRecord


class Decision(msgspec.Struct, frozen=True):
    """``records`` are to be durable before any of the answers is given."""

    group: Group
    actions: tuple[Action, ...] = ()
    records: tuple[Record, ...] = ()
