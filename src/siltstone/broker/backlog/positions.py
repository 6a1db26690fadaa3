"""How far a group is, as far as that is durable."""

import asyncio
from collections.abc import Callable

import msgspec

from siltstone.broker.groups.cell import GroupCell
from siltstone.broker.groups.groups import Groups
from siltstone.broker.topics.registry import Topic
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.maintenance.retention.groups import NO_OFFSET


class GroupPosition(msgspec.Struct, frozen=True):
    """``offsets`` by topic id and partition, NO_OFFSET where it has committed none. ``is_known``: there is such a group
    at all. ``has_members``: somebody reads, or is about to."""

    offsets: dict[str, tuple[int, ...]]
    is_known: bool
    has_members: bool

    def offset(self, topic: Topic, partition: int) -> int:
        return self.offsets[topic.id][partition]


async def position_of(groups: Groups, group: str, topics: tuple[Topic, ...]) -> GroupPosition | ErrorCode:
    """What was asked for is answered when it is durable: only decided commits count."""
    return await groups.look(group, _taking(topics))


def position_at_once(
    groups: Groups, group: str, topics: tuple[Topic, ...]
) -> "asyncio.Future[GroupPosition | ErrorCode] | ErrorCode":
    """The same as it is now, given when it is durable."""
    return groups.look_at_once(group, _taking(topics))


def _taking(topics: tuple[Topic, ...]) -> Callable[[GroupCell | None], GroupPosition]:
    def taken(cell: GroupCell | None) -> GroupPosition:
        offsets = {
            topic.id: tuple(_offset(cell, topic, i) for i in range(topic.partition_count)) for topic in topics
        }
        if cell is None:
            return GroupPosition(offsets, is_known=False, has_members=False)
        has_members = bool(cell.group.members or cell.group.pending)
        return GroupPosition(offsets, is_known=True, has_members=has_members)

    return taken


def _offset(cell: GroupCell | None, topic: Topic, partition: int) -> int:
    """What was committed before the topic was made is about one with its name that is gone."""
    committed = None if cell is None else cell.offsets.get((topic.name, partition))
    if committed is None or committed.committed_ms < topic.metadata.created_ms:
        return NO_OFFSET
    return max(committed.offset, NO_OFFSET)
