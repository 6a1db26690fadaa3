"""Turns a group of the classic protocol into one of KIP-848 while its members read, and back. Pure.

The first member of the new protocol turns the group, and the members of the classic protocol stay in it
(``classic_members``). When the last member of the new protocol goes, the group is classic again, and its members join
in a rebalance. Each direction may be forbidden (group.consumer.migration.policy). The rules are those of Apache Kafka.

What a member holds is never given to another one meanwhile: it holds the partitions of its last assignment, and also
what it owned when it joined, because a cooperative member reads these until it has synced.
"""

from msgspec.structs import replace

from siltstone.broker.groups.consumer_protocol.classic_members import ids_of, names_of
from siltstone.broker.groups.consumer_protocol.draft import join_timer, revocation_timer, sync_timer
from siltstone.broker.groups.consumer_protocol.embedded import (
    read_assignment,
    read_subscription,
    written_assignment,
)
from siltstone.broker.groups.consumer_protocol.group import (
    ConsumerGroup,
    ConsumerMember,
    PartitionOfId,
    consumer_member_bytes,
)
from siltstone.broker.groups.consumer_protocol.log_records import tombstones_of
from siltstone.broker.groups.offsets_log.consumer_records import ClassicMember, ConsumerRecord
from siltstone.broker.groups.offsets_log.record import GroupKey, GroupRecord
from siltstone.broker.groups.ports import KnownTopics
from siltstone.broker.groups.rules.decision import (
    JOIN_TIMER,
    SYNC_TIMER,
    Draft,
    GroupDecision,
    metadata_of,
)
from siltstone.broker.groups.rules.group import (
    CONSUMER_TYPE,
    Group,
    Member,
    Protocol,
    elected_protocol,
    member_bytes,
    subscribed_topics,
)
from siltstone.broker.groups.rules.membership_steps import begin_join_phase
from siltstone.broker.groups.rules.requests import Join, Request
from siltstone.broker.groups.rules.states import GroupState
from siltstone.broker.groups.settings import GroupSettings
from siltstone.kafka_protocol.error_code import ErrorCode

# -- from classic to consumer ----------------------------------------------------------------------------


def upgraded(group: Group, settings: GroupSettings, topics: KnownTopics) -> ConsumerGroup | None:
    """Returns the group with the same members; None if it has to stay as it is."""
    if group.is_empty:
        return ConsumerGroup(group.group_id)
    if (
        not settings.allows_upgrade
        or group.protocol_type != CONSUMER_TYPE
        or len(group.members) > settings.group_consumer_max_size
    ):
        return None
    members: dict[str, ConsumerMember] = {}
    holders: dict[PartitionOfId, str] = {}
    for member in group.members.values():
        turned = _as_consumer(group, member, topics)
        if turned is None or not holders.keys().isdisjoint(turned.assigned):
            return None
        members[member.member_id] = turned
        holders.update(dict.fromkeys(turned.assigned, member.member_id))
    return ConsumerGroup(
        group.group_id,
        epoch=group.generation,
        assignment_epoch=group.generation,
        members=members,
        targets={member_id: frozenset(member.assigned) for member_id, member in members.items()},
        holders=holders,
        members_bytes=sum(map(consumer_member_bytes, members.values())),
    )


def _as_consumer(group: Group, member: Member, topics: KnownTopics) -> ConsumerMember | None:
    """Returns None if what the member wrote cannot be read."""
    protocol_name = group.protocol_name or elected_protocol(list(group.members.values()))
    subscription = read_subscription(member.metadata_of(protocol_name))
    given = read_assignment(member.assignment)
    if subscription is None or given is None:
        return None
    held = subscription.owned if member.join_ticket is not None else given | subscription.owned
    return ConsumerMember(
        member.member_id,
        instance_id=member.instance_id,
        rack_id=subscription.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topics=tuple(sorted(set(subscription.topics))),
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        classic=ClassicMember(
            member.session_timeout_ms, tuple((each.name, each.metadata) for each in member.protocols)
        ),
        epoch=group.generation,
        previous_epoch=group.generation,
        assigned=dict.fromkeys(sorted(ids_of(held, topics)), group.generation),
    )


def classic_ends(group: Group, now_ms: int, settings: GroupSettings) -> GroupDecision[Group]:
    """Returns what the classic group does before it is one of KIP-848: requests that wait are answered with
    REBALANCE_IN_PROGRESS, and members have sessions only."""
    draft = Draft(group, 0, now_ms, settings)
    for timer in (JOIN_TIMER, SYNC_TIMER):
        draft.cancel_timer(timer)
    for member_id in group.pending:
        draft.end_session(member_id)
    for member in list(group.members.values()):
        told = draft.turn_away(member, ErrorCode.REBALANCE_IN_PROGRESS)
        draft.keep_session(told)
    if group.is_saved:
        draft.records.append(GroupRecord(GroupKey(group.group_id), None))
    return draft.decision()


# -- from consumer to classic ----------------------------------------------------------------------------


def is_to_be_classic(before: ConsumerGroup, after: ConsumerGroup, settings: GroupSettings) -> bool:
    """Whether the last member of the new protocol has gone, and others remain."""
    return (
        settings.allows_downgrade
        and not after.is_dead
        and 0 < len(after.members) <= settings.group_max_size
        and before.has_consumer_members
        and not after.has_consumer_members
    )


def downgraded(
    before: ConsumerGroup,
    decision: GroupDecision[ConsumerGroup],
    request: Request,
    now_ms: int,
    settings: GroupSettings,
    topics: KnownTopics,
) -> GroupDecision[Group]:
    """Returns the decision with a classic group. Its members join in a rebalance, unless the group changes with a
    static member that joins, and each member has its target already."""
    turned = decision.group
    settled = turned.epoch == turned.assignment_epoch and all(map(turned.is_settled, turned.members.values()))
    has_to_join = not (isinstance(request, Join) and settled)
    generation = before.epoch if has_to_join else turned.epoch
    draft = Draft(_as_classic(turned, generation, now_ms, topics), 0, now_ms, settings)
    # A coordinator that loads the group knows of no rebalance: in a higher generation everybody joins there, too.
    logged = replace(draft.group, generation=generation + has_to_join)
    record = GroupRecord(GroupKey(turned.group_id), metadata_of(logged))
    for member_id in {**before.members, **turned.members}:
        for timer in (revocation_timer(member_id), join_timer(member_id), sync_timer(member_id)):
            draft.cancel_timer(timer)
    for member in draft.group.members.values():
        draft.keep_session(member)
    if has_to_join:
        begin_join_phase(draft, request)
        draft.become(GroupState.PREPARING)
    kept = tuple(each for each in decision.records if not isinstance(each, ConsumerRecord))
    gone = tombstones_of(before) if before.is_saved else iter(())
    return GroupDecision(
        draft.group, (*decision.actions, *draft.actions), (*gone, record, *kept), decision.pending
    )


def _as_classic(group: ConsumerGroup, generation: int, now_ms: int, topics: KnownTopics) -> Group:
    members = [_as_member(member) for member in group.members.values()]
    protocol_name = elected_protocol(members)
    assigned = {
        member.member_id: replace(
            member, assignment=_assignment(group.members[member.member_id], member, protocol_name, topics)
        )
        for member in members
    }
    return Group(
        group.group_id,
        state=GroupState.STABLE,
        generation=generation,
        protocol_type=CONSUMER_TYPE,
        protocol_name=protocol_name,
        leader_id=members[0].member_id,
        members=assigned,
        members_bytes=sum(map(member_bytes, assigned.values())),
        subscribed_topics=subscribed_topics(CONSUMER_TYPE, protocol_name, members),
        state_since_ms=now_ms,
        is_saved=True,
    )


def _as_member(member: ConsumerMember) -> Member:
    assert member.classic is not None
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        session_timeout_ms=member.classic.session_timeout_ms,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        protocols=tuple(Protocol(name, metadata) for name, metadata in member.classic.protocols),
    )


def _assignment(has: ConsumerMember, member: Member, protocol_name: str | None, topics: KnownTopics) -> bytes:
    """Returns what the member has. Kafka takes its target, but another member may still have
    that: after a crash two members would have it."""
    subscription = read_subscription(member.metadata_of(protocol_name))
    version = 0 if subscription is None else subscription.version
    return written_assignment(names_of(has.held, topics), version)
