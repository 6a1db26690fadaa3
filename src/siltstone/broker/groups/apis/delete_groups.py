"""DeleteGroups: deletes groups with all their offsets; a group that has members is refused."""

from siltstone.broker.groups.groups import Groups
from siltstone.broker.groups.known_groups import KnownGroup
from siltstone.broker.groups.rules.requests import DeleteGroup
from siltstone.broker.request import RequestContext
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from siltstone.runtime.turns import side_by_side


async def handle_delete_groups(
    groups: Groups, _: RequestContext, request: DeleteGroupsRequest
) -> DeleteGroupsResponse:
    """Answers DeleteGroups. A group named twice is deleted once."""
    named = dict.fromkeys(request.groups_names)
    return DeleteGroupsResponse(results=await side_by_side(lambda group_id: _delete(groups, group_id), named))


async def _delete(groups: Groups, group_id: str) -> DeletableGroupResult:
    answer = await groups.delete(group_id, _if_known)
    assert isinstance(answer, ErrorCode)
    return DeletableGroupResult(group_id=group_id, error_code=answer)


def _if_known(known: KnownGroup | None) -> DeleteGroup | ErrorCode:
    return ErrorCode.GROUP_ID_NOT_FOUND if known is None else DeleteGroup(tuple(known.partitions))
