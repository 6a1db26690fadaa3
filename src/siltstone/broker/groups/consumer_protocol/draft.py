"""A decision about a consumer group of KIP-848 that steps are still adding to."""

from siltstone.broker.groups.consumer_protocol.group import (
    ConsumerGroup,
    ConsumerMember,
    MemberState,
    PartitionOfId,
    Partitions,
    consumer_member_bytes,
)
from siltstone.broker.groups.consumer_protocol.log_records import records_between, tombstones_of
from siltstone.broker.groups.ports import KnownTopics
from siltstone.broker.groups.rules.decision import GroupDecision, GroupDraft
from siltstone.broker.groups.rules.requests import GroupTimer, TimerKind
from siltstone.broker.groups.settings import GroupSettings


def revocation_timer(member_id: str) -> GroupTimer:
    return GroupTimer(TimerKind.REVOCATION, member_id)


class ConsumerDraft(GroupDraft[ConsumerGroup]):
    """Steps change the group and write the records of offsets. ``decision`` makes the group's own records."""

    def __init__(
        self, group: ConsumerGroup, ticket: int, now_ms: int, settings: GroupSettings, topics: KnownTopics
    ) -> None:
        super().__init__(group, ticket, now_ms, settings)
        self.topics = topics
        self._is_forgotten = False
        self._members: dict[str, ConsumerMember] | None = None
        self._targets: dict[str, Partitions] | None = None
        self._holders: dict[PartitionOfId, str] | None = None

    def decision(self) -> GroupDecision[ConsumerGroup]:
        """The records of a group that ends are deleted."""
        if not self.group.is_dead:
            changes = records_between(self.before, self.group)
        else:
            changes = tombstones_of(self.before) if self._is_forgotten else iter(())
        records = (*changes, *self.records)
        return GroupDecision(self.group, tuple(self.actions), records, tuple(self.pending))

    def forget(self) -> None:
        """Ends the group, and deletes it from the log if it is there."""
        self._is_forgotten = self.before.is_saved
        self.dismiss()

    def dismiss(self) -> None:
        """Ends the group in memory, with its timers."""
        for member_id in self.group.members:
            self.end_session(member_id)
            self.cancel_timer(revocation_timer(member_id))
        self.change(is_dead=True, members={}, targets={}, holders={}, members_bytes=0)

    def put(self, member: ConsumerMember) -> None:
        """Adds the member, or puts it in the place of its former value."""
        members, known = self._own_members(), self.group.members.get(member.member_id)
        members[member.member_id] = member
        self._hold(known, member)
        change_bytes = consumer_member_bytes(member) - (0 if known is None else consumer_member_bytes(known))
        self.change(members_bytes=self.group.members_bytes + change_bytes)

    def remove(self, member: ConsumerMember) -> None:
        """Removes the member with its target and its timers."""
        del self._own_members()[member.member_id]
        self._own_targets().pop(member.member_id, None)
        self._hold(member, None)
        self.change(members_bytes=self.group.members_bytes - consumer_member_bytes(member))
        self.end_session(member.member_id)
        self.cancel_timer(revocation_timer(member.member_id))

    def set_target(self, member_id: str, target: Partitions) -> None:
        self._own_targets()[member_id] = target

    def raise_epoch(self) -> None:
        self.change(epoch=self.group.epoch + 1)

    def keep_session(self, member: ConsumerMember) -> None:
        self.begin_session(member.member_id, self.settings.group_consumer_session_timeout_ms)

    def watch_revocation(self, before: ConsumerMember | None, member: ConsumerMember) -> None:
        """A member that has to give partitions back has its rebalance timeout for it, from the moment at which it is
        asked to."""
        if before is not None and (before.state, before.revoking) == (member.state, member.revoking):
            return
        if member.state is MemberState.UNREVOKED:
            self.set_timer(revocation_timer(member.member_id), member.rebalance_timeout_ms)
        elif before is not None and before.state is MemberState.UNREVOKED:
            self.cancel_timer(revocation_timer(member.member_id))

    def _hold(self, before: ConsumerMember | None, after: ConsumerMember | None) -> None:
        had = frozenset() if before is None else frozenset(before.held)
        has = frozenset() if after is None else frozenset(after.held)
        if had == has:
            return
        if self._holders is None:
            self._holders = dict(self.group.holders)
            self.change(holders=self._holders)
        for partition in had - has:
            if before is not None and self._holders.get(partition) == before.member_id:
                del self._holders[partition]
        if after is not None:
            self._holders.update(dict.fromkeys(has, after.member_id))

    def _own_members(self) -> dict[str, ConsumerMember]:
        if self._members is None:
            self._members = dict(self.group.members)
            self.change(members=self._members)
        return self._members

    def _own_targets(self) -> dict[str, Partitions]:
        if self._targets is None:
            self._targets = dict(self.group.targets)
            self.change(targets=self._targets)
        return self._targets
