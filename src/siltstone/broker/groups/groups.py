"""All consumer groups of this node. Each belongs to the coordinator of one partition of ``__consumer_offsets``.

The partition follows from the group id by Kafka's rule, so that tools which compute it themselves agree. A request goes
from ``Groups.ask`` to ``GroupCoordinator.ask`` (``coordinator``), and from there to ``KnownGroups.ask``
(``known_groups``), which decides it.
"""

import asyncio
import logging
import uuid
from collections.abc import Callable, Collection, Mapping
from typing import TypeVar

import msgspec

from siltstone.broker.groups.coordinator import CoordinatorStatistics, GroupCoordinator, MakeRequest
from siltstone.broker.groups.known_groups import GroupEnvironment, GroupMemory, KnownGroup
from siltstone.broker.groups.ports import GroupLogs, GroupProgressPort, KnownTopics
from siltstone.broker.groups.rules.requests import Answer, Request, TopicPartition
from siltstone.broker.groups.settings import GroupSettings
from siltstone.broker.groups.timers import TimerHeap
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.model.errors import InvalidRequest, SiltstoneError
from siltstone.runtime.clock import Clock
from siltstone.runtime.randomness import Random

log = logging.getLogger(__name__)

T = TypeVar("T")

MEMBER_ID_PREFIX_CHARACTERS_MAX = 1_000
"""A client id may have 32,767 bytes, as many as a member id, and a member id is longer than its prefix."""


class GroupsStatistics(msgspec.Struct, frozen=True):
    bytes_used: int
    timers: int
    coordinators: tuple[CoordinatorStatistics, ...]


class Groups:
    """A coordinator is opened with the first request for a group of its partition, or by ``start``."""

    def __init__(
        self,
        logs: GroupLogs,
        topics: KnownTopics,
        settings: GroupSettings,
        clock: Clock,
        rng: Random,
        *,
        keeping_topics_of: Callable[[str], Collection[str]] = lambda _: (),
        progress: GroupProgressPort | None = None,
    ) -> None:
        """``keeping_topics_of``: group id → the names of the topics that keep their records for that group.
        ``progress`` has to agree before offsets move back or are deleted."""
        self.topics = topics
        self._progress = progress
        self.settings = settings
        self._logs = logs
        self._rng = rng
        self._environment = GroupEnvironment(
            settings, clock, TimerHeap(clock), GroupMemory(settings), topics, keeping_topics_of
        )
        self._coordinators: dict[int, GroupCoordinator] = {}
        self._partition_count: int | None = None
        self._is_closed = False

    # -- ask ---------------------------------------------------------------------------------------------

    async def ask(self, group_id: str, asked: Request | MakeRequest) -> Answer:
        """``asked`` is the request, or a function that makes it from the known group."""
        coordinator = await self._coordinator_of(group_id)
        if isinstance(coordinator, ErrorCode):
            return coordinator
        try:
            return await coordinator.ask(group_id, asked)
        except InvalidRequest:
            return ErrorCode.INVALID_REQUEST

    async def commit(self, group_id: str, offsets: Mapping[TopicPartition, int], make: MakeRequest) -> Answer:
        """Asks for a change after which the group has these offsets; NO_OFFSET: no offset."""
        if self._progress is None:
            return await self.ask(group_id, make)
        try:
            async with self._progress.holding_back(group_id, offsets):
                return await self.ask(group_id, make)
        except SiltstoneError as trouble:
            log.warning(
                "offsets of group %s cannot move back now, the client has to retry: %s", group_id, trouble
            )
            return ErrorCode.COORDINATOR_NOT_AVAILABLE

    async def delete(self, group_id: str, make: MakeRequest) -> Answer:
        """Asks for the deletion of the group. Then retention stops waiting for this group, also when the group was
        already deleted by a broker that crashed before it could record this."""
        answer = await self.ask(group_id, make)
        if self._progress is not None and (
            answer is ErrorCode.NONE
            or (answer is ErrorCode.GROUP_ID_NOT_FOUND and self._progress.has_counted(group_id))
        ):
            await self._progress.let_go(group_id)
        return answer

    async def look(self, group_id: str, take: Callable[[KnownGroup | None], T]) -> T | ErrorCode:
        """The result of ``take``, called with the known group or None, as soon as the state it saw is durable."""
        coordinator = await self._coordinator_of(group_id)
        return coordinator if isinstance(coordinator, ErrorCode) else await coordinator.look(group_id, take)

    def look_at_once(
        self, group_id: str, take: Callable[[KnownGroup | None], T]
    ) -> "asyncio.Future[T | ErrorCode] | ErrorCode":
        """As ``look``, without waiting for the coordinator: refused while it loads, and after ``end_waits``."""
        if self._partition_count is None:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        return self._coordinator(partition_of_group(group_id, self._partition_count)).look(group_id, take)

    async def look_at_all(self, take: Callable[[KnownGroup], T]) -> list[T] | ErrorCode:
        """``take``'s results for all groups of the node; an error when one coordinator is not active."""
        coordinators = await self._all_coordinators()
        if isinstance(coordinators, ErrorCode):
            return coordinators
        found: list[T] = []
        await asyncio.gather(*(coordinator.loaded() for coordinator in coordinators))
        for coordinator in coordinators:
            taken = coordinator.look_at_all(take)
            if isinstance(taken, ErrorCode):
                return taken
            found += taken
        return found

    def new_member_id(self, prefix: str) -> str:
        """``prefix`` is the client's id, or a static member's instance id. A long prefix is cut, so that the member
        id fits the 16-bit length of Kafka's strings."""
        prefix = prefix[:MEMBER_ID_PREFIX_CHARACTERS_MAX]
        return f"{prefix}-{uuid.UUID(int=self._rng.getrandbits(128), version=4)}"

    # -- life --------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Begins to load all groups. If ``__consumer_offsets`` cannot be opened now, the first request for a group
        tries again."""
        if isinstance(refusal := await self._all_coordinators(), ErrorCode):
            log.warning(
                "groups are not loaded yet (%s): the first request for a group loads them", refusal.name
            )

    def end_waits(self) -> None:
        """Answers every waiting and every later request with NOT_COORDINATOR."""
        self._is_closed = True
        for coordinator in self._coordinators.values():
            coordinator.end_waits()

    async def close(self) -> None:
        self._is_closed = True
        await asyncio.gather(*(coordinator.close() for coordinator in self._coordinators.values()))
        self._environment.timers.close()

    async def forget_topic(self, topic: str) -> None:
        """Deletes the offsets of a deleted topic, which would be wrong for a new topic of that name. Returns when
        that is durable, or at once for groups that are being loaded, which delete them after loading."""
        coordinators = await self._all_coordinators()
        if not isinstance(coordinators, ErrorCode):
            await asyncio.gather(*(coordinator.forget_topic(topic) for coordinator in coordinators))

    @property
    def statistics(self) -> GroupsStatistics:
        return GroupsStatistics(
            bytes_used=self._environment.memory.bytes_used,
            timers=len(self._environment.timers),
            coordinators=tuple(coordinator.statistics for coordinator in self._coordinators.values()),
        )

    # -- coordinators ------------------------------------------------------------------------------------

    async def _coordinator_of(self, group_id: str) -> GroupCoordinator | ErrorCode:
        refusal = await self._not_ready()
        if refusal is not None:
            return refusal
        assert self._partition_count is not None
        coordinator = self._coordinator(partition_of_group(group_id, self._partition_count))
        await coordinator.loaded()
        return coordinator

    async def _all_coordinators(self) -> list[GroupCoordinator] | ErrorCode:
        refusal = await self._not_ready()
        if refusal is not None:
            return refusal
        assert self._partition_count is not None
        return [self._coordinator(partition) for partition in range(self._partition_count)]

    async def _not_ready(self) -> ErrorCode | None:
        if self._partition_count is None and not self._is_closed:
            try:
                self._partition_count = await self._logs.partition_count()
            except SiltstoneError as trouble:
                log.warning(
                    "__consumer_offsets could not be created or opened, clients have to retry: %s", trouble
                )
                return ErrorCode.COORDINATOR_NOT_AVAILABLE
        return ErrorCode.NOT_COORDINATOR if self._is_closed else None

    def _coordinator(self, partition: int) -> GroupCoordinator:
        coordinator = self._coordinators.get(partition)
        if coordinator is None:
            coordinator = GroupCoordinator(partition, self._logs, self._environment)
            self._coordinators[partition] = coordinator
            coordinator.start()
        return coordinator


def partition_of_group(group_id: str, partition_count: int) -> int:
    """Kafka's rule: |hash| modulo the count, where the hash is Java's String.hashCode, and its most negative value
    counts as 0."""
    hashed = java_string_hash(group_id)
    return 0 if hashed == -(2**31) else abs(hashed) % partition_count


def java_string_hash(text: str) -> int:
    """Java's String.hashCode: over UTF-16 code units, in 32-bit arithmetic."""
    hashed = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for high, low in zip(units[::2], units[1::2], strict=True):
        hashed = (31 * hashed + (high << 8 | low)) & 0xFFFFFFFF
    return hashed - 2**32 if hashed >= 2**31 else hashed
