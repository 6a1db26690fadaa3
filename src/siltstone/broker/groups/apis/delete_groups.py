"""DeleteGroups: deletes groups with all their offsets; a group that has members is refused."""

from collections.abc import Awaitable, Callable

from siltstone.broker.groups.groups import Groups
from siltstone.broker.groups.known_groups import KnownGroup
from siltstone.broker.groups.rules.requests import DeleteGroup
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from siltstone.runtime.turns import side_by_side


async def handle_delete_groups(
    groups: Groups, request: DeleteGroupsRequest, forget_shares: Callable[[str], Awaitable[ErrorCode]]
) -> DeleteGroupsResponse:
    """Answers DeleteGroups. A group named twice is deleted once. ``forget_shares`` first deletes what leaders of
    partitions know of a share group."""
    named = dict.fromkeys(request.groups_names)
    results = await side_by_side(lambda group_id: _delete(groups, group_id, forget_shares), named)
    return DeleteGroupsResponse(results=results)


async def _delete(
    groups: Groups, group_id: str, forget_shares: Callable[[str], Awaitable[ErrorCode]]
) -> DeletableGroupResult:
    if (refusal := await forget_shares(group_id)) is not ErrorCode.NONE:
        return DeletableGroupResult(group_id=group_id, error_code=refusal)
    answer = await groups.delete(group_id, _if_known)
    assert isinstance(answer, ErrorCode)
    return DeletableGroupResult(group_id=group_id, error_code=answer)


def _if_known(known: KnownGroup | None) -> DeleteGroup | ErrorCode:
    return ErrorCode.GROUP_ID_NOT_FOUND if known is None else DeleteGroup(tuple(known.partitions))
