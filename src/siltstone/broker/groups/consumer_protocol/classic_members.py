"""Members of the classic protocol in a group of KIP-848, while the members of a group are replaced one by one. Pure.

Such a member joins, syncs and sends heartbeats as ever, but nobody leads and nobody waits: JoinGroup takes the step of
a heartbeat with what the member owns, its generation is its epoch, and SyncGroup answers with its partitions. A
heartbeat tells it to join again when there is a step to take. The rules are Apache Kafka's (GroupMetadataManager).
"""

from collections.abc import Iterable

from msgspec.structs import replace

from siltstone.broker.groups.assigned.group import Partitions
from siltstone.broker.groups.consumer_protocol.draft import ConsumerDraft, join_timer, sync_timer
from siltstone.broker.groups.consumer_protocol.embedded import (
    EmbeddedSubscription,
    NamedPartition,
    read_subscription,
    written_assignment,
)
from siltstone.broker.groups.consumer_protocol.group import (
    ConsumerGroup,
    ConsumerMember,
    MemberState,
    PartitionOfId,
)
from siltstone.broker.groups.consumer_protocol.heartbeats import newcomer, take_step, taken_over
from siltstone.broker.groups.offsets_log.consumer_records import ClassicMember
from siltstone.broker.groups.ports import KnownTopics
from siltstone.broker.groups.rules.group import CONSUMER_TYPE
from siltstone.broker.groups.rules.requests import Assigned, Heartbeat, Join, Joined, MemberIdGiven, Sync
from siltstone.kafka_protocol.error_code import ErrorCode

NO_LEADER = ""

# -- JoinGroup -------------------------------------------------------------------------------------------


def join_as_classic(draft: ConsumerDraft, join: Join) -> None:
    subscription = read_subscription(join.protocols[0].metadata) if join.protocols else None
    if not can_join(draft.group, join) or subscription is None:
        draft.answer(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        return
    if not join.member_id and join.instance_id is None and join.takes_member_id:
        draft.answer(MemberIdGiven(join.new_member_id))
        return
    member = _member_of(draft, join, subscription)
    if isinstance(member, ErrorCode):
        draft.answer(member)
        return
    owned = ids_of(subscription.owned, draft.topics)
    after = take_step(draft, _as_asked(member, join, subscription), owned, at_once=True)
    draft.cancel_timer(join_timer(after.member_id))
    draft.set_timer(sync_timer(after.member_id), after.rebalance_timeout_ms)
    draft.answer(
        Joined(after.member_id, after.epoch, CONSUMER_TYPE, join.protocols[0].name, leader_id=NO_LEADER)
    )


def can_join(group: ConsumerGroup, join: Join) -> bool:
    """Whether the classic members support one protocol of the client, all of them."""
    others = [
        {name for name, _ in member.classic.protocols}
        for member in group.members.values()
        if member.classic is not None and member.member_id != join.member_id
    ]
    is_consumer = join.protocol_type == CONSUMER_TYPE
    return is_consumer and any(all(each.name in names for names in others) for each in join.protocols)


def _member_of(
    draft: ConsumerDraft, join: Join, subscription: EmbeddedSubscription
) -> ConsumerMember | ErrorCode:
    """Returns the member as it is in the group, or a new one; or why it is not a member."""
    if join.instance_id is None:
        known = draft.group.members.get(join.member_id)
    elif join.member_id:
        return classic_member(draft.group, join.member_id, join.instance_id, speaks_classic=False)
    elif (known := draft.group.static_member(join.instance_id)) is not None:
        return taken_over(draft, known, join.new_member_id)
    if known is not None:
        return known
    if subscription.owned:  # it was removed, and others may have its partitions: it has to give them up first
        return ErrorCode.UNKNOWN_MEMBER_ID
    new = ConsumerMember(join.member_id or join.new_member_id, instance_id=join.instance_id)
    return newcomer(draft, _as_asked(new, join, subscription), new)


def _as_asked(member: ConsumerMember, join: Join, subscription: EmbeddedSubscription) -> ConsumerMember:
    return replace(
        member,
        rack_id=subscription.rack_id or member.rack_id,
        client_id=join.client_id,
        client_host=join.client_host,
        topics=tuple(sorted(set(subscription.topics))),
        regex=None,
        rebalance_timeout_ms=join.rebalance_timeout_ms,
        classic=ClassicMember(
            join.session_timeout_ms, tuple((each.name, each.metadata) for each in join.protocols)
        ),
    )


# -- SyncGroup and Heartbeat -----------------------------------------------------------------------------


def sync_as_classic(draft: ConsumerDraft, sync: Sync) -> None:
    member = _of_this_generation(draft, sync)
    if isinstance(member, ErrorCode):
        draft.answer(member)
        return
    assert member.classic is not None
    name, metadata = member.classic.protocols[0]
    if sync.protocol_type not in {None, CONSUMER_TYPE} or sync.protocol_name not in {None, name}:
        draft.answer(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        return
    if draft.group.epoch > member.epoch and member.state is not MemberState.UNREVOKED:
        _tell_to_join(draft, member)
        return
    draft.cancel_timer(sync_timer(member.member_id))
    draft.keep_session(member)
    subscription = read_subscription(metadata)
    named = names_of(member.assigned, draft.topics)
    assignment = written_assignment(named, 0 if subscription is None else subscription.version)
    draft.answer(Assigned(sync.protocol_type, sync.protocol_name, assignment))


def beat_as_classic(draft: ConsumerDraft, beat: Heartbeat) -> None:
    member = _of_this_generation(draft, beat)
    if isinstance(member, ErrorCode):
        draft.answer(member)
        return
    draft.keep_session(member)
    if _has_step(draft.group, member):
        _tell_to_join(draft, member)
    else:
        draft.answer(ErrorCode.NONE)


def _has_step(group: ConsumerGroup, member: ConsumerMember) -> bool:
    """Whether the member has to join again: for another epoch, because it has to give up partitions, or because all
    that it waits for is free."""
    if member.epoch < group.epoch or member.state is MemberState.UNREVOKED:
        return True
    if member.state is not MemberState.UNRELEASED:
        return False
    wanted = group.targets.get(member.member_id, frozenset()) - member.assigned.keys()
    return all(group.holders.get(key, member.member_id) == member.member_id for key in wanted)


def _tell_to_join(draft: ConsumerDraft, member: ConsumerMember) -> None:
    """The member has its rebalance timeout for joining, from the first such answer on."""
    draft.set_timer(join_timer(member.member_id), member.rebalance_timeout_ms, keeps=True)
    draft.answer(ErrorCode.REBALANCE_IN_PROGRESS)


def _of_this_generation(draft: ConsumerDraft, request: Sync | Heartbeat) -> ConsumerMember | ErrorCode:
    member = classic_member(draft.group, request.member_id, request.instance_id, speaks_classic=True)
    if isinstance(member, ConsumerMember) and request.generation != member.epoch:
        return ErrorCode.ILLEGAL_GENERATION
    return member


def classic_member(
    group: ConsumerGroup, member_id: str, instance_id: str | None, *, speaks_classic: bool
) -> ConsumerMember | ErrorCode:
    """Returns the member that the client calls itself; or why it is not that member. ``speaks_classic``: a member of
    the new protocol is unknown."""
    member = group.members.get(member_id) if instance_id is None else group.static_member(instance_id)
    if member is None or (speaks_classic and member.classic is None):
        return ErrorCode.UNKNOWN_MEMBER_ID
    return member if member.member_id == member_id else ErrorCode.FENCED_INSTANCE_ID


# -- partitions by name ----------------------------------------------------------------------------------


def ids_of(partitions: frozenset[NamedPartition], topics: KnownTopics) -> Partitions:
    """Leaves out the partitions of topics that do not exist."""
    known = {name: topics.by_name(name) for name, _ in partitions}
    return frozenset(
        (topic.topic_id, number) for name, number in partitions if (topic := known[name]) is not None
    )


def names_of(partitions: Iterable[PartitionOfId], topics: KnownTopics) -> list[NamedPartition]:
    """Leaves out the partitions of topics that do not exist any more."""
    return [
        (topic.name, number)
        for topic_id, number in partitions
        if (topic := topics.by_id(topic_id)) is not None
    ]
