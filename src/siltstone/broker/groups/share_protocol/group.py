"""A share group and its members as values."""

from collections.abc import Mapping
from enum import Enum

import msgspec

from siltstone.broker.groups.assigned.group import AssignedGroup
from siltstone.broker.groups.offsets_log.keyed_values import PartitionOfId
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


class ShareGroup(AssignedGroup, frozen=True):
    """``shared``: the topics in which the group may have a state."""

    members: Mapping[str, ShareMember] = {}
    shared: SharedTopics = {}

    @property
    def state(self) -> ShareGroupState:
        if self.is_dead:
            return ShareGroupState.DEAD
        return ShareGroupState.STABLE if self.members else ShareGroupState.EMPTY

    @property
    def protocol_type(self) -> str:
        return SHARE_TYPE

    @property
    def charged_bytes(self) -> int:
        targets = sum(map(len, self.targets.values()))
        return PARTITION_BYTES * targets + sum(map(share_member_bytes, self.members.values()))

    def keeps_offsets_of(self, topic: str) -> bool:
        """A share group commits no offsets."""
        return False


def share_member_bytes(member: ShareMember) -> int:
    """Returns the memory that a member is charged."""
    texts = (member.member_id, member.client_id, member.client_host, *member.topics)
    return MEMBER_OVERHEAD_BYTES + sum(map(len, texts))
