"""What the log has to hold of a consumer group: all of it (``assigned.log_records``). Pure.

Within one decision, patterns come after the members that are gone, and before subscriptions.
"""

from collections.abc import Iterator

from siltstone.broker.groups.assigned.log_records import (
    GroupRecordKinds,
    ReplayedGroup,
    records_of_change,
    records_of_gone,
    tombstones,
)
from siltstone.broker.groups.consumer_protocol.group import (
    ConsumerGroup,
    ConsumerMember,
    MemberState,
    PatternTopics,
    consumer_member_bytes,
)
from siltstone.broker.groups.offsets_log.consumer_records import (
    CURRENT,
    EPOCH,
    PARTITION_METADATA,
    PATTERN,
    SUBSCRIPTION,
    TARGET,
    TARGET_EPOCH,
    ConsumerRecord,
    FoundTopics,
    MemberAssignment,
    MemberSubscription,
)


def records_between(before: ConsumerGroup, after: ConsumerGroup) -> Iterator[ConsumerRecord]:
    """Yields the records that turn a log of ``before`` into one of ``after``."""
    if before is after:  # most heartbeats change nothing
        return
    yield from records_of_gone(FORM, before, after)
    yield from _patterns(before, after)
    yield from records_of_change(FORM, before, after)


def records_of(group: ConsumerGroup) -> Iterator[ConsumerRecord]:
    """Yields all records from which the group can be rebuilt."""
    yield from records_between(ConsumerGroup(group.group_id), group)


def tombstones_of(group: ConsumerGroup) -> Iterator[ConsumerRecord]:
    """Yields what deletes the group from the log, in Kafka's order."""
    patterns = (PATTERN.made(None, group.group_id, pattern) for pattern in group.patterns)
    return tombstones(FORM, group, (*patterns, PARTITION_METADATA.made(None, group.group_id)))


def count_of(group: ConsumerGroup) -> int:
    """Returns the number of records from which the group can be rebuilt."""
    return 2 * group.is_saved + 3 * len(group.members) + len(group.patterns)


def _patterns(before: ConsumerGroup, after: ConsumerGroup) -> Iterator[ConsumerRecord]:
    if before.patterns is after.patterns:
        return
    for pattern in before.patterns.keys() - after.patterns.keys():
        yield PATTERN.made(None, after.group_id, pattern)
    for pattern, resolved in after.patterns.items():
        if before.patterns.get(pattern) != resolved:
            value = FoundTopics(resolved.topics, version=0, resolved_ms=resolved.resolved_ms)
            yield PATTERN.made(value, after.group_id, pattern)


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


FORM = GroupRecordKinds(EPOCH, SUBSCRIPTION, TARGET_EPOCH, TARGET, CURRENT, _subscription_of, _current_of)


# -- replay ----------------------------------------------------------------------------------------------


class ReplayedConsumerGroup(ReplayedGroup):
    def group(self) -> ConsumerGroup:
        """A member without a record of what it has now has nothing."""
        members = {member_id: self._member(member_id) for member_id in self.all(SUBSCRIPTION)}
        return ConsumerGroup(
            **self.fields(FORM),
            members=members,
            holders={
                partition: member_id for member_id, member in members.items() for partition in member.held
            },
            patterns={
                pattern: PatternTopics(found.topics, found.resolved_ms)
                for pattern, found in self.all(PATTERN).items()
            },
            members_bytes=sum(map(consumer_member_bytes, members.values())),
        )

    def _member(self, member_id: str) -> ConsumerMember:
        subscription: MemberSubscription = self.all(SUBSCRIPTION)[member_id]
        current = self.all(CURRENT).get(member_id, MemberAssignment(0, -1, 0, {}, {}))
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
