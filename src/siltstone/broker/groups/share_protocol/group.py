"""A share group and its members as values."""

from collections.abc import Mapping
from enum import Enum
from typing import Any

import msgspec

from siltstone.broker.groups.offsets_log.consumer_records import PartitionOfId
from siltstone.broker.groups.offsets_log.record import CommittedOffset
from siltstone.broker.groups.offsets_log.share_records import SharedTopics
from siltstone.broker.groups.rules.group import MEMBER_OVERHEAD_BYTES

SHARE_TYPE = "share"
"""The type of the protocol, as clients see it."""

PARTITION_BYTES = 100
"""The memory that a partition takes in a target and an assignment together."""


class ShareGroupState(Enum):
    """The values are the names that clients see."""

    EMPTY = "Empty"
    STABLE = "Stable"
    DEAD = "Dead"


class ShareMember(msgspec.Struct, frozen=True):
    """``topics``: the names that it subscribes to, in order. ``epoch``: that of the target that it has."""

    member_id: str
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: tuple[str, ...] = ()
    epoch: int = 0
    previous_epoch: int = -1
    assigned: frozenset[PartitionOfId] = frozenset()


class ShareGroup(msgspec.Struct, frozen=True):
    """``targets``: member id → the partitions that it is to have, as of ``assignment_epoch``. ``shared``: the topics in
    which the group may have a state. ``seen``: the topics of ``metadata_hash``, which are not in the log."""

    group_id: str
    epoch: int = 0
    metadata_hash: int = 0
    assignment_epoch: int = 0
    assignment_ms: int = 0
    members: Mapping[str, ShareMember] = {}
    targets: Mapping[str, frozenset[PartitionOfId]] = {}
    shared: SharedTopics = {}
    is_dead: bool = False
    seen: Any = None

    @property
    def state(self) -> ShareGroupState:
        if self.is_dead:
            return ShareGroupState.DEAD
        return ShareGroupState.STABLE if self.members else ShareGroupState.EMPTY

    @property
    def is_empty(self) -> bool:
        return not self.members

    @property
    def protocol_type(self) -> str:
        return SHARE_TYPE

    @property
    def is_saved(self) -> bool:
        """Whether the log holds records of it."""
        return self.epoch > 0

    @property
    def charged_bytes(self) -> int:
        targets = sum(map(len, self.targets.values()))
        return PARTITION_BYTES * targets + sum(map(share_member_bytes, self.members.values()))

    @property
    def pending(self) -> frozenset[str]:
        """No client waits for a member id: each makes its own."""
        return frozenset()

    @property
    def names(self) -> list[str]:
        """The topics that any member subscribes to, in order."""
        return sorted({name for member in self.members.values() for name in member.topics})

    def is_subscribed_to(self, topic: str) -> bool:
        return any(topic in member.topics for member in self.members.values())

    def keeps_offsets_of(self, topic: str) -> bool:
        """A share group commits no offsets."""
        return False

    def offset_age_begins_ms(self, committed: CommittedOffset) -> int:
        return committed.committed_ms


def share_member_bytes(member: ShareMember) -> int:
    """Returns the memory that a member is charged."""
    texts = (member.member_id, member.client_id, member.client_host, *member.topics)
    return MEMBER_OVERHEAD_BYTES + sum(map(len, texts))
