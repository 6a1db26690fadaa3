"""Which requests change offsets of groups by hand, and what they changed.

Members of a group commit all the time, and that is no event. A commit without a member sets offsets by hand: it is
that of a tool such as ``kafka-consumer-groups``, or of a client that assigns its partitions itself. In a transaction it
counts when that is committed, and the event says so. Where a share group begins in a partition is an offset, too; the
coordinator's node writes the event, and not the leaders of the partitions, which it asks to change it.
"""

from collections.abc import Iterator
from typing import Any

from siltstone.broker.groups.groups import Groups
from siltstone.broker.groups.known_groups import KnownGroup
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
)
from siltstone.kafka_protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from siltstone.kafka_protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
)
from siltstone.kafka_protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from siltstone.kafka_protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from siltstone.kafka_protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)
from siltstone.model.audit import NAME_CHARACTERS, AuditEvent, AuditKind, shortened, shown_offsets

GROUPS_SHOWN = 100
NO_MEMBER = -1
IF_COMMITTED = ", if the transaction is committed"

Known = dict[str, dict[tuple[str, int], int]]
"""Group → partition → committed offset."""


def groups_changed(request: Any) -> list[str]:
    """Returns the groups whose offsets the request changes by hand."""
    if isinstance(request, OffsetCommitRequest):
        by_hand = request.generation_id_or_member_epoch == NO_MEMBER and not request.member_id
        return [request.group_id] if by_hand else []
    if isinstance(request, TxnOffsetCommitRequest):
        by_hand = request.generation_id == NO_MEMBER and not request.member_id
        return [request.group_id] if by_hand else []
    if isinstance(
        request, OffsetDeleteRequest | AlterShareGroupOffsetsRequest | DeleteShareGroupOffsetsRequest
    ):
        return [request.group_id]
    if isinstance(request, DeleteGroupsRequest):
        return request.groups_names[:GROUPS_SHOWN]
    return []


async def known_offsets(groups: Groups, group_ids: list[str]) -> Known:
    """Returns what the groups have committed, as far as this node coordinates them."""
    found: Known = {}
    for group_id in group_ids:
        offsets = await groups.look(group_id, _offsets)
        if not isinstance(offsets, ErrorCode):
            found[group_id] = offsets
    return found


def _offsets(known: KnownGroup | None) -> dict[tuple[str, int], int]:
    return {} if known is None else {key: each.offset for key, each in known.offsets.items()}


def offset_events(request: Any, response: Any, before: Known, after: Known) -> Iterator[AuditEvent]:
    """Yields what was changed. A request that was refused is none."""
    if isinstance(request, DeleteGroupsRequest):
        assert isinstance(response, DeleteGroupsResponse)
        gone = {row.group_id for row in response.results if not row.error_code}
        for group_id in groups_changed(request):
            if group_id in gone:
                yield _event(group_id, "DELETE", before.get(group_id, {}), {})
        return
    if isinstance(request, AlterShareGroupOffsetsRequest | DeleteShareGroupOffsetsRequest):
        yield from _of_shares(request, response, before.get(request.group_id, {}))
        return
    if isinstance(request, TxnOffsetCommitRequest):
        yield from _in_transaction(request, response, before.get(request.group_id, {}))
        return
    if isinstance(response, OffsetCommitResponse):
        # By name or by id, in the order of the request: the rows that were taken are those without an error.
        is_taken = any(not row.error_code for topic in response.topics for row in topic.partitions)
    else:
        assert isinstance(response, OffsetDeleteResponse)
        is_taken = not response.error_code
    old, new = before.get(request.group_id, {}), after.get(request.group_id, {})
    changed = {key for key in old.keys() | new.keys() if old.get(key) != new.get(key)}
    if is_taken and changed:
        yield _event(
            request.group_id,
            "RESET" if isinstance(request, OffsetCommitRequest) else "DELETE",
            {key: old[key] for key in changed & old.keys()},
            {key: new[key] for key in changed & new.keys()},
        )


def _of_shares(
    request: AlterShareGroupOffsetsRequest | DeleteShareGroupOffsetsRequest,
    response: AlterShareGroupOffsetsResponse | DeleteShareGroupOffsetsResponse,
    old: dict[tuple[str, int], int],
) -> Iterator[AuditEvent]:
    if isinstance(request, DeleteShareGroupOffsetsRequest):
        assert isinstance(response, DeleteShareGroupOffsetsResponse)
        names = {row.topic_name for row in response.responses if not row.error_code}
        gone = {key: offset for key, offset in old.items() if key[0] in names}
        if gone:
            yield _event(request.group_id, "DELETE", gone, {})
        return
    assert isinstance(response, AlterShareGroupOffsetsResponse)
    taken = {
        (topic.topic_name, row.partition_index)
        for topic in response.responses
        for row in topic.partitions
        if not row.error_code
    }
    new = {
        (topic.topic_name, row.partition_index): row.start_offset
        for topic in request.topics
        for row in topic.partitions
        if (topic.topic_name, row.partition_index) in taken
    }
    if new:
        yield _event(request.group_id, "RESET", {key: old[key] for key in new.keys() & old.keys()}, new)


def _in_transaction(
    request: TxnOffsetCommitRequest, response: TxnOffsetCommitResponse, old: dict[tuple[str, int], int]
) -> Iterator[AuditEvent]:
    taken = {
        (topic.name, row.partition_index)
        for topic in response.topics
        for row in topic.partitions
        if not row.error_code
    }
    new = {
        (topic.name, row.partition_index): row.committed_offset
        for topic in request.topics
        for row in topic.partitions
        if (topic.name, row.partition_index) in taken
    }
    if new:
        before = {key: old[key] for key in new.keys() & old.keys()}
        yield _event(request.group_id, "RESET", before, new, IF_COMMITTED)


def _event(
    group_id: str,
    operation: str,
    before: dict[tuple[str, int], int],
    after: dict[tuple[str, int], int],
    then: str = "",
) -> AuditEvent:
    return AuditEvent(
        event=AuditKind.OFFSETS,
        operation=operation,
        resource=shortened(f"group {group_id}", NAME_CHARACTERS),
        before=shown_offsets(before),
        after=shown_offsets(after) + then,
    )
