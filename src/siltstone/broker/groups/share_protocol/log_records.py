"""What the log has to hold of a share group: all of it. The records of a decision follow from the group before and
after it (decision 58). Pure."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from siltstone.broker.groups.offsets_log.consumer_records import PartitionOfId, TargetEpoch
from siltstone.broker.groups.offsets_log.share_records import (
    ShareAssignment,
    ShareAssignmentKey,
    SharedTopics,
    SharedTopicsKey,
    ShareEpoch,
    ShareEpochKey,
    ShareKey,
    ShareRecord,
    ShareSubscription,
    ShareSubscriptionKey,
    ShareTargetEpochKey,
    ShareTargetKey,
)
from siltstone.broker.groups.share_protocol.group import ShareGroup, ShareMember


def share_records_between(before: ShareGroup, after: ShareGroup) -> Iterator[ShareRecord]:
    """Yields the records that turn a log of ``before`` into one of ``after``, in Kafka's order."""
    if before is after:  # most heartbeats change nothing
        return
    group_id = after.group_id
    for member_id in before.members.keys() - after.members.keys():
        yield from _of_gone(group_id, member_id)
    changed = [
        (before.members.get(member_id), member)
        for member_id, member in after.members.items()
        if before.members.get(member_id) is not member
    ]
    yield from _of_members(group_id, changed, ShareSubscriptionKey, _subscription_of)
    if _epoch_of(before) != _epoch_of(after):
        yield ShareRecord(ShareEpochKey(group_id), _epoch_of(after))
    for member_id, target in after.targets.items():
        if before.targets.get(member_id) != target:
            yield ShareRecord(ShareTargetKey(group_id, member_id), target)
    if _target_epoch_of(before) != _target_epoch_of(after):
        yield ShareRecord(ShareTargetEpochKey(group_id), _target_epoch_of(after))
    yield from _of_members(group_id, changed, ShareAssignmentKey, _assignment_of)
    if before.shared != after.shared:
        yield ShareRecord(SharedTopicsKey(group_id), after.shared or None)


def _of_gone(group_id: str, member_id: str) -> Iterator[ShareRecord]:
    yield ShareRecord(ShareAssignmentKey(group_id, member_id), None)
    yield ShareRecord(ShareTargetKey(group_id, member_id), None)
    yield ShareRecord(ShareSubscriptionKey(group_id, member_id), None)


def _of_members(
    group_id: str,
    changed: Iterable[tuple[ShareMember | None, ShareMember]],
    key: Callable[[str, str], ShareKey],
    value_of: Callable[[ShareMember], Any],
) -> Iterator[ShareRecord]:
    """Yields a record for each member whose value is another one than before."""
    for known, member in changed:
        value = value_of(member)
        if known is None or value_of(known) != value:
            yield ShareRecord(key(group_id, member.member_id), value)


def share_records_of(group: ShareGroup) -> Iterator[ShareRecord]:
    """Yields all records from which the group can be rebuilt."""
    yield from share_records_between(ShareGroup(group.group_id), group)


def share_tombstones_of(group: ShareGroup) -> Iterator[ShareRecord]:
    """Yields what deletes the group from the log."""
    group_id = group.group_id
    if group.shared:
        yield ShareRecord(SharedTopicsKey(group_id), None)
    for member_id in group.members:
        yield ShareRecord(ShareAssignmentKey(group_id, member_id), None)
        yield ShareRecord(ShareTargetKey(group_id, member_id), None)
    yield ShareRecord(ShareTargetEpochKey(group_id), None)
    for member_id in group.members:
        yield ShareRecord(ShareSubscriptionKey(group_id, member_id), None)
    yield ShareRecord(ShareEpochKey(group_id), None)


def share_count_of(group: ShareGroup) -> int:
    """Returns the number of records from which the group can be rebuilt."""
    return 2 * group.is_saved + 3 * len(group.members) + bool(group.shared)


def _epoch_of(group: ShareGroup) -> ShareEpoch:
    return ShareEpoch(group.epoch, group.metadata_hash)


def _target_epoch_of(group: ShareGroup) -> TargetEpoch:
    return TargetEpoch(group.assignment_epoch, group.assignment_ms)


def _subscription_of(member: ShareMember) -> ShareSubscription:
    return ShareSubscription(member.rack_id, member.client_id, member.client_host, member.topics)


def _assignment_of(member: ShareMember) -> ShareAssignment:
    return ShareAssignment(member.epoch, member.previous_epoch, member.assigned)


# -- replay ----------------------------------------------------------------------------------------------


class ReplayedShareGroup:
    """A group as far as its records were read."""

    def __init__(self, group_id: str) -> None:
        self._group_id = group_id
        self._epoch: ShareEpoch | None = None
        self._target_epoch: TargetEpoch | None = None
        self._shared: SharedTopics = {}
        self._subscriptions: dict[str, ShareSubscription] = {}
        self._targets: dict[str, frozenset[PartitionOfId]] = {}
        self._assignments: dict[str, ShareAssignment] = {}

    @property
    def is_nothing(self) -> bool:
        return self._epoch is None and not self._subscriptions and not self._shared

    def read(self, record: ShareRecord) -> None:
        key, value = record.key, record.value
        match key:
            case ShareEpochKey():
                self._epoch = value
            case ShareTargetEpochKey():
                self._target_epoch = value
            case SharedTopicsKey():
                self._shared = value or {}
            case ShareSubscriptionKey():
                _set(self._subscriptions, key.member_id, value)
            case ShareTargetKey():
                _set(self._targets, key.member_id, value)
            case ShareAssignmentKey():
                _set(self._assignments, key.member_id, value)

    def group(self) -> ShareGroup:
        epoch, target_epoch = self._epoch or ShareEpoch(0, 0), self._target_epoch or TargetEpoch(0, 0)
        members = {member_id: self._member(member_id) for member_id in self._subscriptions}
        return ShareGroup(
            self._group_id,
            epoch=epoch.epoch,
            metadata_hash=epoch.metadata_hash,
            assignment_epoch=target_epoch.epoch,
            assignment_ms=target_epoch.assigned_ms,
            members=members,
            targets={key: target for key, target in self._targets.items() if key in members},
            shared=self._shared,
        )

    def _member(self, member_id: str) -> ShareMember:
        subscription = self._subscriptions[member_id]
        current = self._assignments.get(member_id, ShareAssignment(0, -1, frozenset()))
        return ShareMember(
            member_id,
            rack_id=subscription.rack_id,
            client_id=subscription.client_id,
            client_host=subscription.client_host,
            topics=subscription.topics,
            epoch=current.epoch,
            previous_epoch=current.previous_epoch,
            assigned=current.assigned,
        )


def _set(values: dict[str, Any], key: str, value: Any) -> None:
    if value is None:
        values.pop(key, None)
    else:
        values[key] = value
