"""What the log has to hold of a consumer group: all of it. The records of a decision follow from the group before and
after it, so the log cannot say anything else than memory does. Pure.

Within one decision, records come in Kafka's order: members that are gone, patterns, subscriptions, the epoch, targets,
the epoch of the targets, what each member has now.
"""

from collections.abc import Iterator, Mapping
from typing import TypeVar

from siltstone.broker.groups.consumer_protocol.group import (
    ConsumerGroup,
    ConsumerMember,
    MemberState,
    Partitions,
    PatternTopics,
    consumer_member_bytes,
)
from siltstone.broker.groups.offsets_log.consumer_records import (
    ConsumerRecord,
    EpochKey,
    EpochRecord,
    FoundTopics,
    GroupEpoch,
    MemberAssignment,
    MemberAssignmentKey,
    MemberAssignmentRecord,
    MemberSubscription,
    PartitionMetadataKey,
    PartitionMetadataRecord,
    PatternKey,
    PatternRecord,
    SubscriptionKey,
    SubscriptionRecord,
    TargetEpoch,
    TargetEpochKey,
    TargetEpochRecord,
    TargetKey,
    TargetRecord,
)

T = TypeVar("T")


def records_between(before: ConsumerGroup, after: ConsumerGroup) -> Iterator[ConsumerRecord]:
    """Yields the records that turn a log of ``before`` into one of ``after``."""
    if before is after:  # most heartbeats change nothing
        return
    group_id = after.group_id
    changed = [
        (before.members.get(member_id), member)
        for member_id, member in after.members.items()
        if before.members.get(member_id) is not member
    ]
    for member_id in before.members:
        if member_id not in after.members:
            yield MemberAssignmentRecord(MemberAssignmentKey(group_id, member_id), None)
            yield TargetRecord(TargetKey(group_id, member_id), None)
            yield SubscriptionRecord(SubscriptionKey(group_id, member_id), None)
    yield from _patterns(group_id, before.patterns, after.patterns)
    for known, member in changed:
        subscription = _subscription_of(member)
        if known is None or _subscription_of(known) != subscription:
            yield SubscriptionRecord(SubscriptionKey(group_id, member.member_id), subscription)
    if _epoch_of(before) != _epoch_of(after):
        yield EpochRecord(EpochKey(group_id), _epoch_of(after))
    yield from _targets(before, after)
    if _target_epoch_of(before) != _target_epoch_of(after):
        yield TargetEpochRecord(TargetEpochKey(group_id), _target_epoch_of(after))
    for known, member in changed:
        current = _current_of(member)
        if known is None or _current_of(known) != current:
            yield MemberAssignmentRecord(MemberAssignmentKey(group_id, member.member_id), current)


def records_of(group: ConsumerGroup) -> Iterator[ConsumerRecord]:
    """Yields all records from which the group can be rebuilt."""
    yield from records_between(ConsumerGroup(group.group_id), group)


def tombstones_of(group: ConsumerGroup) -> Iterator[ConsumerRecord]:
    """Yields what deletes the group from the log, in Kafka's order."""
    group_id = group.group_id
    for member_id in group.members:
        yield MemberAssignmentRecord(MemberAssignmentKey(group_id, member_id), None)
    for member_id in group.members:
        yield TargetRecord(TargetKey(group_id, member_id), None)
    yield TargetEpochRecord(TargetEpochKey(group_id), None)
    for member_id in group.members:
        yield SubscriptionRecord(SubscriptionKey(group_id, member_id), None)
    for pattern in group.patterns:
        yield PatternRecord(PatternKey(group_id, pattern), None)
    yield PartitionMetadataRecord(PartitionMetadataKey(group_id))
    yield EpochRecord(EpochKey(group_id), None)


def count_of(group: ConsumerGroup) -> int:
    """Returns the number of records from which the group can be rebuilt."""
    return 2 * group.is_saved + 3 * len(group.members) + len(group.patterns)


def _patterns(
    group_id: str, before: Mapping[str, PatternTopics], after: Mapping[str, PatternTopics]
) -> Iterator[PatternRecord]:
    if before is after:
        return
    for pattern in before.keys() - after.keys():
        yield PatternRecord(PatternKey(group_id, pattern), None)
    for pattern, resolved in after.items():
        if before.get(pattern) != resolved:
            value = FoundTopics(resolved.topics, version=0, resolved_ms=resolved.resolved_ms)
            yield PatternRecord(PatternKey(group_id, pattern), value)


def _targets(before: ConsumerGroup, after: ConsumerGroup) -> Iterator[TargetRecord]:
    if before.targets is after.targets:
        return
    for member_id, target in after.targets.items():
        if before.targets.get(member_id) != target:
            yield TargetRecord(TargetKey(after.group_id, member_id), target)


def _epoch_of(group: ConsumerGroup) -> GroupEpoch:
    return GroupEpoch(group.epoch, group.metadata_hash)


def _target_epoch_of(group: ConsumerGroup) -> TargetEpoch:
    return TargetEpoch(group.assignment_epoch, group.assignment_ms)


def _subscription_of(member: ConsumerMember) -> MemberSubscription:
    return MemberSubscription(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topics=member.topics,
        regex=member.regex,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        assignor=member.assignor,
        classic=member.classic,
    )


def _current_of(member: ConsumerMember) -> MemberAssignment:
    return MemberAssignment(
        member.epoch, member.previous_epoch, int(member.state), member.assigned, member.revoking
    )


# -- replay ----------------------------------------------------------------------------------------------


class ReplayedConsumerGroup:
    """A group as far as its records were read."""

    def __init__(self, group_id: str) -> None:
        self._group_id = group_id
        self._epoch: GroupEpoch | None = None
        self._target_epoch: TargetEpoch | None = None
        self._patterns: dict[str, PatternTopics] = {}
        self._subscriptions: dict[str, MemberSubscription] = {}
        self._targets: dict[str, Partitions] = {}
        self._current: dict[str, MemberAssignment] = {}

    @property
    def is_nothing(self) -> bool:
        return self._epoch is None and not self._subscriptions and not self._current and not self._targets

    def read(self, record: ConsumerRecord) -> None:
        match record:
            case EpochRecord(_, epoch):
                self._epoch = epoch
            case TargetEpochRecord(_, epoch):
                self._target_epoch = epoch
            case PatternRecord(key, resolved):
                _set(
                    self._patterns,
                    key.pattern,
                    None if resolved is None else PatternTopics(resolved.topics, resolved.resolved_ms),
                )
            case SubscriptionRecord(key, subscription):
                _set(self._subscriptions, key.member_id, subscription)
            case TargetRecord(key, target):
                _set(self._targets, key.member_id, target)
            case MemberAssignmentRecord(key, current):
                _set(self._current, key.member_id, current)

    def group(self) -> ConsumerGroup:
        """A member without a record of what it has now has nothing."""
        epoch, target_epoch = self._epoch or GroupEpoch(0, 0), self._target_epoch or TargetEpoch(0, 0)
        members = {member_id: self._member(member_id) for member_id in self._subscriptions}
        holders = {partition: member_id for member_id, member in members.items() for partition in member.held}
        return ConsumerGroup(
            self._group_id,
            epoch=epoch.epoch,
            metadata_hash=epoch.metadata_hash,
            assignment_epoch=target_epoch.epoch,
            assignment_ms=target_epoch.assigned_ms,
            members=members,
            targets={
                member_id: target for member_id, target in self._targets.items() if member_id in members
            },
            holders=holders,
            patterns=self._patterns,
            members_bytes=sum(map(consumer_member_bytes, members.values())),
        )

    def _member(self, member_id: str) -> ConsumerMember:
        subscription = self._subscriptions[member_id]
        current = self._current.get(member_id, MemberAssignment(0, -1, 0, {}, {}))
        return ConsumerMember(
            member_id,
            instance_id=subscription.instance_id,
            rack_id=subscription.rack_id,
            client_id=subscription.client_id,
            client_host=subscription.client_host,
            topics=subscription.topics,
            regex=subscription.regex,
            rebalance_timeout_ms=subscription.rebalance_timeout_ms,
            assignor=subscription.assignor,
            classic=subscription.classic,
            epoch=current.epoch,
            previous_epoch=current.previous_epoch,
            state=MemberState(current.state),
            assigned=current.assigned,
            revoking=current.revoking,
        )


def _set(values: dict[str, T], key: str, value: T | None) -> None:
    if value is None:
        values.pop(key, None)
    else:
        values[key] = value
