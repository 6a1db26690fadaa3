"""Takes one member a step from the partitions that it has to its target. Pure (KIP-848, "Member Reconciliation").

A partition is given only when nobody has it any more. So a member first gives back what it is not to have, in its old
epoch, and gets the new epoch when it has done so; what others still have follows later.
"""

from collections.abc import Mapping

from msgspec.structs import replace

from siltstone.broker.groups.assigned.group import Partitions
from siltstone.broker.groups.consumer_protocol.group import (
    ConsumerGroup,
    ConsumerMember,
    MemberState,
    PartitionOfId,
)


def reconciled(
    group: ConsumerGroup, member: ConsumerMember, subscribed: frozenset[bytes], owned: Partitions | None
) -> ConsumerMember:
    """``subscribed``: the ids of the topics that the member subscribes to. ``owned``: the partitions that the member
    says it has, None if it says nothing. Returns the member after the step, the same object if there is none."""
    match member.state:
        case MemberState.STABLE if member.epoch == group.assignment_epoch:
            return _without_left_topics(member, subscribed, owned)
        case MemberState.UNREVOKED if _still_owns(owned, member.revoking):
            return _without_left_topics(member, subscribed, owned)
        case _:
            return _step(group, member, subscribed, owned)


def _still_owns(owned: Partitions | None, revoking: Mapping[PartitionOfId, int]) -> bool:
    return owned is None or not owned.isdisjoint(revoking)


def _without_left_topics(
    member: ConsumerMember, subscribed: frozenset[bytes], owned: Partitions | None
) -> ConsumerMember:
    """The topics that it does not subscribe to any more are taken away before a new target is there."""
    left = {key: epoch for key, epoch in member.assigned.items() if key[0] not in subscribed}
    if not left:
        return member
    kept = {key: epoch for key, epoch in member.assigned.items() if key not in left}
    revoking = {**member.revoking, **left}
    if _still_owns(owned, revoking):
        return replace(member, state=MemberState.UNREVOKED, assigned=kept, revoking=revoking)
    return replace(member, assigned=kept)


def _step(
    group: ConsumerGroup, member: ConsumerMember, subscribed: frozenset[bytes], owned: Partitions | None
) -> ConsumerMember:
    target = {key for key in group.targets.get(member.member_id, ()) if key[0] in subscribed}
    kept = {key: epoch for key, epoch in member.assigned.items() if key in target}
    revoking = {key: epoch for key, epoch in member.assigned.items() if key not in target}
    if revoking and _still_owns(owned, revoking):
        return replace(member, state=MemberState.UNREVOKED, assigned=kept, revoking=revoking)
    epoch = group.assignment_epoch
    wanted = target - kept.keys()
    free = {key for key in wanted if group.holders.get(key, member.member_id) == member.member_id}
    state = MemberState.STABLE if len(free) == len(wanted) else MemberState.UNRELEASED
    assigned = kept | dict.fromkeys(sorted(free), epoch) if free else kept
    previous = member.previous_epoch if member.epoch == epoch else member.epoch
    after = replace(member, epoch=epoch, previous_epoch=previous, state=state, assigned=assigned, revoking={})
    return member if after == member else after
