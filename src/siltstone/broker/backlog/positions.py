"""The groups that are registered with topics (``siltstone.retention.groups``), and their durable offsets there."""

import asyncio
from collections.abc import Callable, Collection, Iterator, Mapping

import msgspec

from siltstone.broker.groups.groups import Groups
from siltstone.broker.groups.known_groups import KnownGroup
from siltstone.broker.topics.registry import Topic, Topics
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.maintenance.retention.groups import NO_OFFSET


class Registrations:
    """The registered groups, as of the current metadata image. A look-up costs a dictionary read while no topic is
    created, altered or deleted."""

    def __init__(self, topics: Topics) -> None:
        self._topics = topics
        self._all: tuple[Topic, ...] | None = None
        self._by_group: dict[str, tuple[Topic, ...]] = {}
        self._with_groups: tuple[Topic, ...] = ()

    def by_group(self) -> Mapping[str, tuple[Topic, ...]]:
        """Returns the topics of each registered group. The same object while no topic changes."""
        self._follow()
        return self._by_group

    def topics_of(self, group: str) -> tuple[Topic, ...]:
        return self.by_group().get(group, ())

    def names_of(self, group: str) -> Collection[str]:
        """Returns the names of the topics that keep their data for the group."""
        topics = self.by_group().get(group)
        return () if topics is None else {topic.name for topic in topics}

    def topics(self) -> tuple[Topic, ...]:
        """Returns the topics with registered groups."""
        self._follow()
        return self._with_groups

    def _follow(self) -> None:
        everything = self._topics.all()
        if everything is self._all:
            return
        self._all = everything
        self._with_groups = tuple(_with_groups(everything))
        by_group: dict[str, tuple[Topic, ...]] = {}
        for topic in self._with_groups:
            for group in topic.config.retention_groups:
                by_group[group] = (*by_group.get(group, ()), topic)
        self._by_group = by_group


def _with_groups(topics: tuple[Topic, ...]) -> Iterator[Topic]:
    """Yields the topics with registered groups. Internal topics keep their data for no group."""
    return (topic for topic in topics if topic.config.retention_groups and not topic.is_internal)


class GroupPosition(msgspec.Struct, frozen=True):
    """``offsets`` by topic id and partition, NO_OFFSET where the group has committed none. ``is_known``: the group
    exists. ``has_members``: it has members, or members that are joining."""

    offsets: dict[str, tuple[int, ...]]
    is_known: bool
    has_members: bool

    def offset(self, topic: Topic, partition: int) -> int:
        return self.offsets[topic.id][partition]


async def position_of(groups: Groups, group: str, topics: tuple[Topic, ...]) -> GroupPosition | ErrorCode:
    """Returns the group's offsets, after all commits that they include are durable; or why the coordinator cannot
    say."""
    return await groups.look(group, _taking(topics))


def position_at_once(
    groups: Groups, group: str, topics: tuple[Topic, ...]
) -> "asyncio.Future[GroupPosition | ErrorCode] | ErrorCode":
    """Does the same as ``position_of``, with the offsets as they are at the call; the future is done when they are
    durable."""
    return groups.look_at_once(group, _taking(topics))


def _taking(topics: tuple[Topic, ...]) -> Callable[[KnownGroup | None], GroupPosition]:
    def taken(known: KnownGroup | None) -> GroupPosition:
        offsets = {
            topic.id: tuple(_offset(known, topic, i) for i in range(topic.partition_count))
            for topic in topics
        }
        if known is None:
            return GroupPosition(offsets, is_known=False, has_members=False)
        has_members = bool(known.group.members or known.group.pending)
        return GroupPosition(offsets, is_known=True, has_members=has_members)

    return taken


def _offset(known: KnownGroup | None, topic: Topic, partition: int) -> int:
    """Returns the committed offset, or a lower one that a transaction may put in its place. One that was committed
    before the topic was created belongs to a deleted topic of the same name and does not count."""
    committed = None if known is None else known.offsets.get((topic.name, partition))
    if committed is None or committed.committed_ms < topic.metadata.created_ms:
        return NO_OFFSET
    assert known is not None
    pending = known.pending.lowest((topic.name, partition))
    lowest = committed.offset if pending is None else min(committed.offset, pending)
    return max(lowest, NO_OFFSET)
