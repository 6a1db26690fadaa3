"""Who is who: whether somebody is the member it says it is, and which members a request means."""

from siltstone.broker.groups.rules.group import Group
from siltstone.broker.groups.rules.requests import Leave, LeavingMember, TimerRang
from siltstone.kafka_protocol.error_code import ErrorCode


def stranger(group: Group, member_id: str, instance_id: str | None) -> ErrorCode | None:
    """Why it is not that member. None: it is."""
    member = group.members.get(member_id)
    if instance_id is None or (member is not None and member.instance_id == instance_id):
        return ErrorCode.UNKNOWN_MEMBER_ID if member is None else None
    if group.static_member(instance_id) is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return ErrorCode.FENCED_INSTANCE_ID


def going(group: Group, request: Leave | TimerRang) -> tuple[list[str], tuple[ErrorCode, ...]]:
    """The ids of members and newcomers that go, each once, and for each that the request names an error or none."""
    if isinstance(request, TimerRang):
        return [request.timer.member_id], ()
    member_ids: list[str] = []
    errors: list[ErrorCode] = []
    for leaving in request.members:
        found = _leaving_id(group, leaving)
        if found in member_ids:
            found = ErrorCode.UNKNOWN_MEMBER_ID
        if isinstance(found, ErrorCode):
            errors.append(found)
        else:
            member_ids.append(found)
            errors.append(ErrorCode.NONE)
    return member_ids, tuple(errors)


def _leaving_id(group: Group, leaving: LeavingMember) -> str | ErrorCode:
    if not leaving.member_id:
        member = None if leaving.instance_id is None else group.static_member(leaving.instance_id)
        return ErrorCode.UNKNOWN_MEMBER_ID if member is None else member.member_id
    if leaving.member_id in group.pending:
        return leaving.member_id
    return stranger(group, leaving.member_id, leaving.instance_id) or leaving.member_id
