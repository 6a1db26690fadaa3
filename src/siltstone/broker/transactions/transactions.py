"""All transaction coordinators of this node: one for each partition of ``__transaction_state`` that it leads.

The topic is created with the first transactional id, so a store without transactions has none. Coordinators are loaded
without a request, since an open transaction holds back the readers of committed records everywhere.
"""

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from siltstone.broker.coordination.life import Phase
from siltstone.broker.groups.groups import partition_of_group
from siltstone.broker.groups.ports import GroupLeaders, NodeLeader
from siltstone.broker.peers import Peers, UnknownPeers
from siltstone.broker.transactions.coordinator import TransactionCoordinator
from siltstone.broker.transactions.other_nodes import ask_for_open, ask_for_permission
from siltstone.broker.transactions.ports import MarkerSink, NewProducerIds, TransactionLogs
from siltstone.broker.transactions.rules.requests import (
    AddToTransaction,
    Answer,
    JoinedTransaction,
    Request,
)
from siltstone.broker.transactions.rules.transaction import PREPARED, Transaction
from siltstone.broker.transactions.state_log.record import TopicPartition, TransactionState
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.model.errors import SiltstoneError
from siltstone.model.serving_limits import TRANSACTION_EXPIRY_CHECK_INTERVAL_MS
from siltstone.runtime.clock import Clock
from siltstone.runtime.tasks import TaskGroup

log = logging.getLogger(__name__)

T = TypeVar("T")


class Transactions:
    """``leaders``: which node leads which partition of ``__transaction_state``; without them, this node leads all."""

    def __init__(
        self,
        logs: TransactionLogs,
        markers: MarkerSink,
        producer_ids: NewProducerIds,
        clock: Clock,
        leaders: GroupLeaders | None = None,
        peers: Peers | None = None,
    ) -> None:
        self._logs = logs
        self._markers = markers
        self._producer_ids = producer_ids
        self._clock = clock
        self._leaders = leaders or NodeLeader()
        self._peers = peers or UnknownPeers()
        self._coordinators: dict[int, TransactionCoordinator] = {}
        self._given_up: set[int] = set()
        self._partition_count: int | None = None
        self._tasks = TaskGroup("transactions", lambda _: None)
        self._is_closed = False

    # -- ask ---------------------------------------------------------------------------------------------

    async def ask(self, transactional_id: str, request: Request) -> Answer:
        """Returns the answer when all that it rests on is durable."""
        coordinator = await self._coordinator_of(transactional_id)
        if isinstance(coordinator, ErrorCode):
            return coordinator
        return self._served(await coordinator.ask(transactional_id, request))

    async def join(
        self, transactional_id: str, add: AddToTransaction, *, adds: bool
    ) -> JoinedTransaction | ErrorCode:
        """Returns the producer's transaction. If it ``adds``, the partitions are added to the transaction first. The
        caller may append to them in the turn in which this returns: later the permission is void. It is void as well if
        a marker came while the coordinator, which may be another node, was asked (``PartitionTransactions.question``).
        """
        coordinator = await self._coordinator_of(transactional_id)
        if coordinator is ErrorCode.NOT_COORDINATOR:
            node_id = self.coordinator_of(transactional_id)
            if node_id is None or node_id == self._leaders.node_id:
                return coordinator
            return await ask_for_permission(self._peers, node_id, transactional_id, add, adds=adds)
        if isinstance(coordinator, ErrorCode):
            return coordinator
        ask = coordinator.join if adds else coordinator.joined
        return self._served(await ask(transactional_id, add))

    async def permit(
        self, transactional_id: str, add: AddToTransaction, *, adds: bool
    ) -> JoinedTransaction | ErrorCode:
        """Does the same for the leader of a partition that is another node, when it is durable."""
        coordinator = await self._coordinator_of(transactional_id)
        if isinstance(coordinator, ErrorCode):
            return coordinator
        return self._served(await coordinator.permit(transactional_id, add, adds=adds))

    async def open_of(self, producer_id: int) -> JoinedTransaction | ErrorCode:
        """Returns the producer's transaction that is open, or has markers on their way, if this node coordinates it.
        The producer id alone says in which partition it is (``NewProducerIds``)."""
        coordinator = await self._coordinator_at(partial(_partition_of_producer, producer_id))
        if isinstance(coordinator, ErrorCode):
            return coordinator
        return self._served(await coordinator.open_of(producer_id))

    async def open_anywhere(
        self, producer_id: int, partition: TopicPartition
    ) -> JoinedTransaction | ErrorCode:
        """Does the same, and asks another node if that coordinates it."""
        found = await self.open_of(producer_id)
        if found is not ErrorCode.NOT_COORDINATOR or self._partition_count is None:
            return found
        node_id = self._leaders.leader_of(_partition_of_producer(producer_id, self._partition_count))
        if node_id is None or node_id == self._leaders.node_id:
            return found
        return await ask_for_open(self._peers, node_id, producer_id, partition)

    async def look(self, transactional_id: str) -> Transaction | ErrorCode:
        """Returns the transaction in its present state, which need not be durable yet."""
        coordinator = await self._coordinator_of(transactional_id)
        if isinstance(coordinator, ErrorCode):
            return coordinator
        if coordinator.phase is not Phase.ACTIVE:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        known = coordinator.find(transactional_id)
        return self._served(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND if known is None else known)

    def look_at_all(self) -> list[Transaction] | ErrorCode:
        """Returns all transactions that this node coordinates; an error while one coordinator is loaded."""
        if any(each.phase is not Phase.ACTIVE for each in self._coordinators.values()):
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return [known for each in self._coordinators.values() for known in each.transactions()]

    def open_since_ms(self) -> list[int]:
        """Returns the start of each open transaction that this node coordinates, in ms since 1970. Waits for
        nothing."""
        return [
            known.start_ms
            for each in self._coordinators.values()
            for known in each.transactions()
            if known.state is TransactionState.ONGOING or known.state in PREPARED
        ]

    def _served(self, answer: T) -> T | ErrorCode:
        """Looked at last: the node may have been stopped while the answer was made (N22)."""
        return answer if self._leaders.serves else ErrorCode.NOT_COORDINATOR

    # -- coordinators ------------------------------------------------------------------------------------

    async def prepare_to_find(self) -> ErrorCode | None:
        """Creates ``__transaction_state`` if it does not exist. Returns an error that clients retry, if it cannot."""
        if self._is_closed:
            return ErrorCode.NOT_COORDINATOR
        if self._partition_count is None:
            try:
                self._partition_count = await self._logs.partition_count()
            except SiltstoneError as trouble:
                log.warning("__transaction_state could not be created, clients have to retry: %s", trouble)
                return ErrorCode.COORDINATOR_NOT_AVAILABLE
        return None

    def coordinator_of(self, key: str) -> int | None:
        """Returns the node that coordinates the id; None when no node does now."""
        if self._partition_count is None:
            return None
        node_id = self._leaders.leader_of(partition_of_group(key, self._partition_count))
        is_stopped = node_id == self._leaders.node_id and not self._leaders.serves
        return None if is_stopped else node_id

    async def _coordinator_of(self, transactional_id: str) -> TransactionCoordinator | ErrorCode:
        return await self._coordinator_at(partial(partition_of_group, transactional_id))

    async def _coordinator_at(self, partition_of: Callable[[int], int]) -> TransactionCoordinator | ErrorCode:
        """``partition_of``: number of partitions → the partition of ``__transaction_state``."""
        if (refusal := await self.prepare_to_find()) is not None:
            return refusal
        assert self._partition_count is not None
        partition = partition_of(self._partition_count)
        if not self._leads(partition):
            await self._leaders.refreshed()
        if not self._leads(partition) or not self._leaders.serves:
            return ErrorCode.NOT_COORDINATOR
        coordinator = self._coordinator(partition)
        await coordinator.loaded()
        return coordinator

    def _leads(self, partition: int) -> bool:
        is_given_up = partition in self._given_up
        return not is_given_up and self._leaders.leader_of(partition) in (self._leaders.node_id, None)

    def _coordinator(self, partition: int) -> TransactionCoordinator:
        coordinator = self._coordinators.get(partition)
        if coordinator is None:
            assert self._partition_count is not None
            coordinator = TransactionCoordinator(
                partition, self._partition_count, self._logs, self._markers, self._producer_ids, self._clock
            )
            self._coordinators[partition] = coordinator
            coordinator.start()
        return coordinator

    # -- life --------------------------------------------------------------------------------------------

    async def start(self, expiration_ms: int, *, loads: bool) -> None:
        """``loads``: there is ``__transaction_state``, and all its coordinators are loaded. ``expiration_ms``: how long
        an id is kept that nothing happens to."""
        self._tasks.start("expiry", self._expire(expiration_ms))
        if loads:
            await self._load_all()

    async def _load_all(self) -> None:
        if await self.prepare_to_find() is None:
            self.follow_leaders()

    def end_waits(self) -> None:
        """Answers every later request with NOT_COORDINATOR."""
        self._is_closed = True

    def follow_leaders(self) -> None:
        """Ends the coordinators of partitions that another node leads, and begins to load those of this node. Called
        where ``__transaction_state`` exists."""
        if self._is_closed:
            return
        if self._partition_count is None:
            self._tasks.start("load-transactions", self._load_all())
            return
        for partition in range(self._partition_count):
            if self._leads(partition):
                self._coordinator(partition).leaders_changed()
            elif (coordinator := self._coordinators.pop(partition, None)) is not None:
                self._tasks.start("end-coordinator", coordinator.close())

    async def give_up(self, partition: int) -> None:
        """Answers the requests for transactional ids of the partition with NOT_COORDINATOR from now on, and returns
        when nothing is decided any more."""
        self._given_up.add(partition)
        if (coordinator := self._coordinators.pop(partition, None)) is not None:
            await coordinator.close()

    def take_back(self, partition: int) -> None:
        """Lets this node coordinate the partition again, if it leads it."""
        self._given_up.discard(partition)
        self.follow_leaders()

    async def close(self) -> None:
        self._is_closed = True
        await self._tasks.cancel()
        await asyncio.gather(*(coordinator.close() for coordinator in self._coordinators.values()))

    async def _expire(self, expiration_ms: int) -> None:
        while True:
            await self._clock.sleep_ms(TRANSACTION_EXPIRY_CHECK_INTERVAL_MS)
            for coordinator in list(self._coordinators.values()):
                await coordinator.expire(expiration_ms)


def _partition_of_producer(producer_id: int, partition_count: int) -> int:
    return producer_id % partition_count
