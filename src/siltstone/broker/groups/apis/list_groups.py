"""ListGroups, filtered by state and by type if the request has filters. A group has the type of
its protocol."""

from siltstone.broker.groups.group_kinds import name_of_kind
from siltstone.broker.groups.groups import Groups
from siltstone.broker.groups.known_groups import KnownGroup
from siltstone.broker.request import RequestContext
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse


async def handle_list_groups(
    groups: Groups, _: RequestContext, request: ListGroupsRequest
) -> ListGroupsResponse:
    states, types = _as_filter(request.states_filter), _as_filter(request.types_filter)
    listed = await groups.look_at_all(_listed)
    if isinstance(listed, ErrorCode):
        return ListGroupsResponse(error_code=listed)
    return ListGroupsResponse(
        groups=[
            group
            for group in listed
            if (not states or group.group_state.lower() in states)
            and (not types or group.group_type in types)
        ]
    )


def _as_filter(names: list[str]) -> set[str]:
    """Returns the values of a filter; an empty filter admits every group. Upper and lower case are the same."""
    return {name.strip().lower() for name in names}


def _listed(known: KnownGroup) -> ListedGroup:
    group = known.group
    return ListedGroup(
        group_id=group.group_id,
        protocol_type=group.protocol_type or "",
        group_state=group.state.value,
        group_type=name_of_kind(type(group)),
    )
