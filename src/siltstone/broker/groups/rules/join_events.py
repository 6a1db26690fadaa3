"""What a JoinGroup is to the group it meets."""

import msgspec

from siltstone.broker.groups.rules.group import Group, can_work_with, elected_protocol, subscribed_topics
from siltstone.broker.groups.rules.member import MEMBER_OVERHEAD_BYTES, Member, protocols_bytes
from siltstone.broker.groups.rules.membership import stranger
from siltstone.broker.groups.rules.requests import Join
from siltstone.broker.groups.rules.states import GroupEvent, GroupState
from siltstone.broker.groups.settings import GroupSettings
from siltstone.kafka_protocol.error_code import ErrorCode


def join_event(group: Group, join: Join, settings: GroupSettings) -> GroupEvent | ErrorCode:
    replaced = _replaced_by(group, join)
    replaced_id = None if replaced is None else replaced.member_id
    if not _has_room(group, join, replaced, settings):
        return ErrorCode.GROUP_MAX_SIZE_REACHED
    if not can_work_with(group, join.protocol_type, join.protocols, replaced_id):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if join.member_id:
        return _rejoin_event(group, join)
    if replaced is not None:
        return _return_event(group, join, replaced)
    if join.instance_id is None and join.takes_member_id:
        return GroupEvent.MEMBER_ID_WANTED
    return GroupEvent.MEMBER_JOINS


def _replaced_by(group: Group, join: Join) -> Member | None:
    """Whose place it takes: its own, or that of the static member that it is."""
    if join.member_id:
        return group.members.get(join.member_id)
    return None if join.instance_id is None else group.static_member(join.instance_id)


def _has_room(group: Group, join: Join, replaced: Member | None, settings: GroupSettings) -> bool:
    """During the join phase those count who are sure to stay: the limit may have been lowered, and then the last to
    rejoin are left out. Otherwise all members count. Ids that were given away take no place, only bytes."""
    known_bytes = 0 if replaced is None else protocols_bytes(replaced.protocols)
    own_bytes = MEMBER_OVERHEAD_BYTES + protocols_bytes(join.protocols) - known_bytes
    if group.charged_bytes + own_bytes > settings.group_bytes_max:
        return False
    if len(group.members) < settings.group_max_size:
        return True
    if group.state is GroupState.PREPARING:
        has_place = replaced is not None and (replaced.is_static or replaced.join_ticket is not None)
        places_taken = group.certain_members
    else:
        has_place = replaced is not None
        places_taken = len(group.members)
    return has_place or places_taken < settings.group_max_size


def _rejoin_event(group: Group, join: Join) -> GroupEvent | ErrorCode:
    if join.member_id in group.pending and join.instance_id is None:
        return GroupEvent.MEMBER_JOINS
    refusal = stranger(group, join.member_id, join.instance_id)
    if refusal is not None:
        return refusal
    if group.members[join.member_id].protocols != join.protocols:
        return GroupEvent.MEMBER_REJOINS_CHANGED
    is_leader = join.member_id == group.leader_id
    return GroupEvent.LEADER_REJOINS if is_leader else GroupEvent.FOLLOWER_REJOINS


def _return_event(group: Group, join: Join, replaced: Member) -> GroupEvent:
    """A static member that was restarted knows neither its id nor what it had: its metadata may differ without its
    wanting anything else. What counts is whether all still agree on the protocol, and on the topics."""
    returned = msgspec.structs.replace(replaced, protocols=join.protocols)
    members = [
        returned if member.member_id == replaced.member_id else member for member in group.members.values()
    ]
    protocol_name = elected_protocol(members)
    topics = subscribed_topics(group.protocol_type, protocol_name, [returned])
    topics_before = subscribed_topics(group.protocol_type, protocol_name, [replaced])
    if protocol_name == group.protocol_name and topics == topics_before:
        return GroupEvent.STATIC_MEMBER_RETURNS
    return GroupEvent.STATIC_MEMBER_RETURNS_CHANGED
