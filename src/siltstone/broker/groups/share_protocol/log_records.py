"""What the log has to hold of a share group: all of it (``assigned.log_records``). Pure."""

from collections.abc import Iterator

from siltstone.broker.groups.assigned.log_records import (
    GroupRecordKinds,
    ReplayedGroup,
    records_of_change,
    records_of_gone,
    tombstones,
)
from siltstone.broker.groups.offsets_log.share_records import (
    SHARE_CURRENT,
    SHARE_EPOCH,
    SHARE_SUBSCRIPTION,
    SHARE_TARGET,
    SHARE_TARGET_EPOCH,
    SHARED_TOPICS,
    ShareAssignment,
    ShareRecord,
    ShareSubscription,
)
from siltstone.broker.groups.share_protocol.group import ShareGroup, ShareMember


def share_records_between(before: ShareGroup, after: ShareGroup) -> Iterator[ShareRecord]:
    """Yields the records that turn a log of ``before`` into one of ``after``, in Kafka's order."""
    if before is after:  # most heartbeats change nothing
        return
    yield from records_of_gone(FORM, before, after)
    yield from records_of_change(FORM, before, after)
    if before.shared != after.shared:
        yield SHARED_TOPICS.made(after.shared or None, after.group_id)


def share_records_of(group: ShareGroup) -> Iterator[ShareRecord]:
    """Yields all records from which the group can be rebuilt."""
    yield from share_records_between(ShareGroup(group.group_id), group)


def share_tombstones_of(group: ShareGroup) -> Iterator[ShareRecord]:
    """Yields what deletes the group from the log."""
    shared = [SHARED_TOPICS.made(None, group.group_id)] if group.shared else []
    return tombstones(FORM, group, shared)


def share_count_of(group: ShareGroup) -> int:
    """Returns the number of records from which the group can be rebuilt."""
    return 2 * group.is_saved + 3 * len(group.members) + bool(group.shared)


def _subscription_of(member: ShareMember) -> ShareSubscription:
    return ShareSubscription(member.rack_id, member.client_id, member.client_host, member.topics)


def _current_of(member: ShareMember) -> ShareAssignment:
    return ShareAssignment(member.epoch, member.previous_epoch, member.assigned)


FORM = GroupRecordKinds(
    SHARE_EPOCH,
    SHARE_SUBSCRIPTION,
    SHARE_TARGET_EPOCH,
    SHARE_TARGET,
    SHARE_CURRENT,
    _subscription_of,
    _current_of,
)


# -- replay ----------------------------------------------------------------------------------------------


class ReplayedShareGroup(ReplayedGroup):
    def group(self) -> ShareGroup:
        members = {member_id: self._member(member_id) for member_id in self.all(SHARE_SUBSCRIPTION)}
        return ShareGroup(**self.fields(FORM), members=members, shared=self.one(SHARED_TOPICS, {}))

    def _member(self, member_id: str) -> ShareMember:
        subscription: ShareSubscription = self.all(SHARE_SUBSCRIPTION)[member_id]
        current = self.all(SHARE_CURRENT).get(member_id, ShareAssignment(0, -1, frozenset()))
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
