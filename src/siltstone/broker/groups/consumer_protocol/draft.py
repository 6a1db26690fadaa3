"""A decision about a consumer group of KIP-848 that steps are still adding to."""

from siltstone.broker.groups.assigned.draft import AssignedDraft
from siltstone.broker.groups.consumer_protocol.group import (
    ConsumerGroup,
    ConsumerMember,
    MemberState,
    PartitionOfId,
    consumer_member_bytes,
)
from siltstone.broker.groups.consumer_protocol.log_records import records_between, tombstones_of
from siltstone.broker.groups.ports import KnownTopics
from siltstone.broker.groups.rules.decision import GroupDecision
from siltstone.broker.groups.rules.requests import GroupTimer, TimerKind
from siltstone.broker.groups.settings import GroupSettings


def revocation_timer(member_id: str) -> GroupTimer:
    return GroupTimer(TimerKind.REVOCATION, member_id)


def join_timer(member_id: str) -> GroupTimer:
    """Runs while a member of the classic protocol has to join again."""
    return GroupTimer(TimerKind.JOIN, member_id)


def sync_timer(member_id: str) -> GroupTimer:
    """Runs from the answer to a JoinGroup to the member's SyncGroup."""
    return GroupTimer(TimerKind.SYNC, member_id)


def session_ms_of(member: ConsumerMember, settings: GroupSettings) -> int:
    """Returns how long the member may be silent; one that speaks the classic protocol says so itself."""
    if member.classic is not None:
        return member.classic.session_timeout_ms
    return settings.group_consumer_session_timeout_ms


class ConsumerDraft(AssignedDraft[ConsumerGroup]):
    def __init__(
        self, group: ConsumerGroup, ticket: int, now_ms: int, settings: GroupSettings, topics: KnownTopics
    ) -> None:
        super().__init__(group, ticket, now_ms, settings, topics)
        self._holders: dict[PartitionOfId, str] | None = None

    def decision(self) -> GroupDecision[ConsumerGroup]:
        return self.decision_by(records_between, tombstones_of)

    def put(self, member: ConsumerMember) -> None:
        known = self.group.members.get(member.member_id)
        super().put(member)
        self._hold(known, member)
        change_bytes = consumer_member_bytes(member) - (0 if known is None else consumer_member_bytes(known))
        self.change(members_bytes=self.group.members_bytes + change_bytes)

    def remove(self, member: ConsumerMember) -> None:
        super().remove(member)
        self._hold(member, None)
        self.change(members_bytes=self.group.members_bytes - consumer_member_bytes(member))
        self.cancel_timer(revocation_timer(member.member_id))
        if member.classic is not None:
            self.cancel_timer(join_timer(member.member_id))
            self.cancel_timer(sync_timer(member.member_id))

    def keep_session(self, member: ConsumerMember) -> None:
        self.begin_session(member.member_id, session_ms_of(member, self.settings))

    def watch_revocation(self, before: ConsumerMember | None, member: ConsumerMember) -> None:
        """A member that has to give partitions back has its rebalance timeout for it, from the moment at which it is
        asked to. One of the classic protocol has the same time to join again."""
        if before is not None and (before.state, before.revoking) == (member.state, member.revoking):
            return
        if member.state is MemberState.UNREVOKED and member.classic is None:
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
