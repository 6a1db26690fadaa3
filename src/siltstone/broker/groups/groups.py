"""All consumer groups that this node coordinates: those of the partitions of ``__consumer_offsets`` that it leads.

The partition follows from the group id by Kafka's rule, so that tools which compute it themselves agree. A request goes
from ``Groups.ask`` to ``GroupCoordinator.ask`` (``coordinator``), and from there to ``KnownGroups.ask``
(``known_groups``), which decides it.
"""

import asyncio
import logging
import uuid
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import nullcontext
from typing import TypeVar

import msgspec

from siltstone.broker.coordination.life import resolved_after
from siltstone.broker.coordination.timers import TimerHeap
from siltstone.broker.groups.coordinator import CoordinatorStatistics, GroupCoordinator, MakeRequest
from siltstone.broker.groups.known_groups import GroupEnvironment, GroupMemory, KnownGroup
from siltstone.broker.groups.offsets_log.record import LogProducer
from siltstone.broker.groups.ports import (
    GroupLeaders,
    GroupLogs,
    GroupProgressPort,
    KnownTopics,
    NodeLeader,
)
from siltstone.broker.groups.rules.requests import Answer, Request, TopicPartition
from siltstone.broker.groups.settings import GroupSettings
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.model.errors import InvalidRequest, SiltstoneError
from siltstone.model.serving_limits import COORDINATOR_LOAD_WAIT_MS
from siltstone.runtime.clock import Clock
from siltstone.runtime.randomness import Random
from siltstone.runtime.tasks import TaskGroup

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
        configured: Callable[[GroupSettings, str], GroupSettings] = lambda settings, _: settings,
        progress: GroupProgressPort | None = None,
        leaders: GroupLeaders | None = None,
    ) -> None:
        """``keeping_topics_of``: group id → the names of the topics that keep their records for that group.
        ``configured``: the settings of the node and a group id → the settings of that group. ``progress`` has to agree
        before offsets move back or are deleted. ``leaders``: which node coordinates which
        groups; without them, this node coordinates every group."""
        self._leaders = leaders or NodeLeader()
        self._given_up: set[int] = set()
        self.topics = topics
        self._progress = progress
        self.settings = settings
        self._logs = logs
        self._rng = rng
        self._environment = GroupEnvironment(
            settings, clock, TimerHeap(clock), GroupMemory(settings), topics, keeping_topics_of, configured
        )
        self._coordinators: dict[int, GroupCoordinator] = {}
        self._partition_count: int | None = None
        self._counting: asyncio.Task[None] | None = None
        self._tasks = TaskGroup("groups", lambda _: None)
        self._is_closed = False

    # -- ask ---------------------------------------------------------------------------------------------

    async def ask(self, group_id: str, asked: Request | MakeRequest) -> Answer:
        """``asked`` is the request, or a function that makes it from the known group."""
        coordinator = await self._coordinator_of(group_id)
        if isinstance(coordinator, ErrorCode):
            return coordinator
        try:
            return self._served(await coordinator.ask(group_id, asked))
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

    async def commit_in_transaction(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, int],
        producer_id: int,
        permit: Callable[[int], Awaitable[LogProducer | ErrorCode]],
        make: Callable[[LogProducer], MakeRequest],
    ) -> Answer:
        """Asks for a commit of these offsets in a transaction. ``permit`` is called with the partition of
        ``__consumer_offsets`` when the groups are loaded, and the request is decided in the turn in which it
        returns. A permission is void if a marker came while the coordinator of the transaction was asked."""
        coordinator = await self._coordinator_of(group_id)
        if isinstance(coordinator, ErrorCode):
            return coordinator
        assert self._partition_count is not None
        partition = partition_of_group(group_id, self._partition_count)
        progress = self._progress
        try:
            async with nullcontext() if progress is None else progress.holding_back(group_id, offsets):
                await coordinator.take_transactions()
                with coordinator.question(producer_id) as question:
                    producer = await permit(partition)
                if isinstance(producer, ErrorCode):
                    return producer
                if question.is_void or producer.coordinator_epoch < question.coordinator_epoch:
                    return ErrorCode.CONCURRENT_TRANSACTIONS
                return self._served(await coordinator.ask(group_id, make(producer)))
        except InvalidRequest:
            return ErrorCode.INVALID_REQUEST
        except SiltstoneError as trouble:
            log.warning(
                "offsets of group %s cannot be committed now, the client has to retry: %s", group_id, trouble
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
        """Returns the result of ``take``, called with the known group or None, as soon as the state it saw is
        durable."""
        coordinator = await self._coordinator_of(group_id)
        if isinstance(coordinator, ErrorCode):
            return coordinator
        return self._served(await coordinator.look(group_id, take))

    def _served(self, answer: T) -> T | ErrorCode:
        """Looked at last: the node may have been stopped while the answer was made, and another one coordinates the
        group by now (N22)."""
        return answer if self._leaders.serves else ErrorCode.NOT_COORDINATOR

    def look_at_once(
        self, group_id: str, take: Callable[[KnownGroup | None], T]
    ) -> "asyncio.Future[T | ErrorCode] | ErrorCode":
        """Does the same as ``look``, without waiting for the coordinator: refused while it loads, and after
        ``end_waits``."""
        if self._partition_count is None:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        partition = partition_of_group(group_id, self._partition_count)
        if not self._coordinates(partition):
            return ErrorCode.NOT_COORDINATOR
        return self._coordinator(partition).look(group_id, take)

    async def look_at_all(self, take: Callable[[KnownGroup], T]) -> list[T] | ErrorCode:
        """``take``'s results for all groups that this node coordinates; an error when one coordinator is not active."""
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

    def known(self) -> list[KnownGroup]:
        """Returns the groups that are loaded, in their present state. Loads nothing and waits for nothing."""
        found: list[KnownGroup] = []
        for coordinator in self._coordinators.values():
            taken = coordinator.look_at_all(_itself)
            found += [] if isinstance(taken, ErrorCode) else taken
        return found

    def settings_of(self, group_id: str) -> GroupSettings:
        return self._environment.settings_of(group_id)

    def heartbeat_interval_ms(self, group_id: str) -> int:
        """Returns the interval of heartbeats that is in the answers to members of a group of KIP-848 now. Nearly every
        timer is the session of a member."""
        return self.settings_of(group_id).heartbeat_interval_ms(len(self._environment.timers))

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
        await self._tasks.cancel()
        await asyncio.gather(*(coordinator.close() for coordinator in self._coordinators.values()))
        self._environment.timers.close()

    async def forget_topic(self, topic: str, before_ms: int | None = None) -> None:
        """Deletes the offsets of a deleted topic, which would be wrong for a new topic of that name: all of them, or
        all that were committed before ``before_ms``, when the new topic was created. Returns when that is durable, or
        at once for groups that are being loaded, which delete them after loading."""
        coordinators = await self._all_coordinators()
        if not isinstance(coordinators, ErrorCode):
            await asyncio.gather(
                *(coordinator.forget_topic(topic, before_ms) for coordinator in coordinators)
            )

    @property
    def statistics(self) -> GroupsStatistics:
        return GroupsStatistics(
            bytes_used=self._environment.memory.bytes_used,
            timers=len(self._environment.timers),
            coordinators=tuple(coordinator.statistics for coordinator in self._coordinators.values()),
        )

    # -- markers of transactions -------------------------------------------------------------------------

    async def partition_of(self, group_id: str) -> int | ErrorCode:
        """Returns the group's partition of ``__consumer_offsets``, which is created if it does not exist; any node may
        lead it."""
        if (refusal := await self._not_ready()) is not None:
            return refusal
        assert self._partition_count is not None
        return partition_of_group(group_id, self._partition_count)

    async def prepare_for_marker(self, partition: int) -> None:
        """See MarkedGroups."""
        if await self._not_ready() is None and self._coordinates(partition):
            coordinator = self._coordinator(partition)
            await coordinator.loaded()
            await coordinator.transactions_written()

    def takes_marker(self, partition: int, producer_id: int) -> bool:
        coordinator = self._coordinators.get(partition)
        return coordinator is not None and coordinator.takes_marker(producer_id)

    def marked(
        self, partition: int, producer_id: int, durable: "asyncio.Future[int]", *, commits: bool
    ) -> None:
        self._coordinators[partition].marked(producer_id, durable, commits=commits)

    # -- leaders of __consumer_offsets -------------------------------------------------------------------

    async def prepare_to_find(self) -> None:
        """Creates ``__consumer_offsets`` if it does not exist and several nodes could coordinate a group: the leaders
        of its partitions are the coordinators."""
        if self._leaders.has_others:
            await self._not_ready()

    def coordinator_of(self, key: str) -> int | None:
        """Returns the node that coordinates the group; None when no node does now."""
        if self._partition_count is None:
            return None if self._leaders.has_others else self._leaders.node_id
        node_id = self._leaders.leader_of(partition_of_group(key, self._partition_count))
        if node_id == self._leaders.node_id and not self._leaders.serves:
            return None
        return node_id

    def follow_leaders(self) -> None:
        """Ends the coordinators of partitions that another node leads, and starts to load the groups of partitions that
        this node leads now, so that the time limits of members, and offsets, expire."""
        if not self._leaders.has_others or self._is_closed:
            return
        if self._partition_count is None:
            self._tasks.start("load-groups", self.start())
            return
        for partition in range(self._partition_count):
            if self._coordinates(partition):
                self._coordinator(partition)
            elif (coordinator := self._coordinators.pop(partition, None)) is not None:
                coordinator.end_waits()
                self._tasks.start("end-coordinator", coordinator.close())

    async def give_up(self, partition: int) -> None:
        """Answers the requests for groups of the partition with NOT_COORDINATOR from now on, and returns when nothing
        is appended to it any more."""
        self._given_up.add(partition)
        if (coordinator := self._coordinators.pop(partition, None)) is not None:
            await coordinator.close()

    def take_back(self, partition: int) -> None:
        """Lets this node coordinate the partition again, if it leads it."""
        self._given_up.discard(partition)
        self.follow_leaders()

    # -- coordinators ------------------------------------------------------------------------------------

    async def _coordinator_of(self, group_id: str) -> GroupCoordinator | ErrorCode:
        refusal = await self._not_ready()
        if refusal is not None:
            return refusal
        assert self._partition_count is not None
        partition = partition_of_group(group_id, self._partition_count)
        if not self._coordinates(partition):
            await self._leaders.refreshed()
        if not self._coordinates(partition) or not self._leaders.serves:
            return ErrorCode.NOT_COORDINATOR
        coordinator = self._coordinator(partition)
        await coordinator.loaded()
        return coordinator

    def _coordinates(self, partition: int) -> bool:
        is_given_up = partition in self._given_up
        return not is_given_up and self._leaders.leader_of(partition) in (self._leaders.node_id, None)

    async def _all_coordinators(self) -> list[GroupCoordinator] | ErrorCode:
        refusal = await self._not_ready()
        if refusal is not None:
            return refusal
        assert self._partition_count is not None
        return [
            self._coordinator(partition)
            for partition in range(self._partition_count)
            if self._coordinates(partition)
        ]

    async def _not_ready(self) -> ErrorCode | None:
        """Returns COORDINATOR_LOAD_IN_PROGRESS while ``__consumer_offsets`` is only late: librdkafka does not ask again
        after COORDINATOR_NOT_AVAILABLE."""
        if self._partition_count is None and not self._is_closed:
            if self._counting is None or self._counting.done():
                self._counting = self._tasks.start("offsets-topic", self._count_partitions())
            await self._wait_for_count(self._counting)
            if self._partition_count is None:
                if not self._counting.done():
                    return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
                return ErrorCode.COORDINATOR_NOT_AVAILABLE
        return ErrorCode.NOT_COORDINATOR if self._is_closed else None

    async def _count_partitions(self) -> None:
        try:
            self._partition_count = await self._logs.partition_count()
        except SiltstoneError as trouble:
            log.warning(
                "__consumer_offsets could not be created or opened, clients have to retry: %s", trouble
            )

    async def _wait_for_count(self, counting: "asyncio.Task[None]") -> None:
        """Waits for COORDINATOR_LOAD_WAIT_MS at most: while the metadata is locked, creating the topic takes half a
        minute, and the requests behind this one on its connection wait for its answer. The creation continues
        meanwhile."""
        late: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        with resolved_after(late, COORDINATOR_LOAD_WAIT_MS, self._environment.clock):
            await asyncio.wait({counting, late}, return_when=asyncio.FIRST_COMPLETED)

    def _coordinator(self, partition: int) -> GroupCoordinator:
        coordinator = self._coordinators.get(partition)
        if coordinator is None:
            coordinator = GroupCoordinator(partition, self._logs, self._environment)
            self._coordinators[partition] = coordinator
            coordinator.start()
        return coordinator


def _itself(known: KnownGroup) -> KnownGroup:
    return known


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
