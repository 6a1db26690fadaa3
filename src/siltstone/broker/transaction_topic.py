"""``__transaction_state`` as the logs of the transaction coordinators, and partitions of topics as the places of
markers: the ports of ``transactions.ports``, implemented on partitions."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from typing import TypeAlias

from siltstone.broker.cluster_view import ClusterView
from siltstone.broker.offsets_topic import own_records
from siltstone.broker.partitions.partition import Partition
from siltstone.broker.partitions.partitions import PartitionGone, Partitions
from siltstone.broker.partitions.transaction_state import MarkerVerdict, TransactionEnding
from siltstone.broker.peers import Peers
from siltstone.broker.topics.names import OFFSETS_TOPIC
from siltstone.broker.topics.registry import Topic, Topics
from siltstone.broker.transactions.markers_under_way import MarkersUnderWay, bytes_of_markers
from siltstone.broker.transactions.other_nodes import ask_for_markers
from siltstone.broker.transactions.ports import MarkedGroups, MarkersAnswered, TransactionLog
from siltstone.broker.transactions.rules.decision import MarkersToWrite
from siltstone.broker.transactions.rules.requests import JoinedTransaction
from siltstone.broker.transactions.state_log.record import EncodedRecord, TopicPartition
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.records.building import build_batch
from siltstone.kafka_protocol.records.control import Outcome, TransactionMarker
from siltstone.kafka_protocol.records.reading import Record
from siltstone.model.errors import SiltstoneError, Unavailable
from siltstone.runtime.clock import Clock
from siltstone.runtime.turns import side_by_side

log = logging.getLogger(__name__)


class TransactionTopicLogs:
    """``topic`` returns ``__transaction_state``, which it creates if it does not exist."""

    def __init__(self, topic: Callable[[], Awaitable[Topic]], partitions: Partitions, clock: Clock) -> None:
        self._topic = topic
        self._partitions = partitions
        self._clock = clock

    async def partition_count(self) -> int:
        return (await self._topic()).partition_count

    async def open(self, partition: int) -> TransactionLog:
        opened = await self._partitions.open(await self._topic(), partition)
        return TransactionTopicLog(self._partitions, opened, self._clock)


class TransactionTopicLog:
    def __init__(self, partitions: Partitions, partition: Partition, clock: Clock) -> None:
        self._partitions = partitions
        self._partition = partition
        self._clock = clock

    @property
    def coordinator_epoch(self) -> int:
        return self._partition.leader_epoch

    @property
    def next_offset(self) -> int:
        return self._partition.next_offset

    async def trim_before(self, offset: int) -> None:
        await self._partitions.trim(self._partition, offset)

    def append(self, records: Sequence[EncodedRecord]) -> "asyncio.Future[int]":
        """Nothing is gathered: the records leave with this call, before any marker that is written after it."""
        now_ms = self._clock.now_ms()
        batch = build_batch([Record(timestamp_ms=now_ms, key=key, value=value) for key, value in records])
        return self._partition.append_own(batch)

    def read_all(self) -> AsyncIterator[EncodedRecord]:
        return own_records(self._partition)


class GroupsNotReady(Unavailable):
    """The groups of a partition of __consumer_offsets cannot take over the offsets of a transaction now."""


class TransactionNotKnown(Unavailable):
    """It is not known whether a marker is for the transaction that a producer has open."""


OpenOf: TypeAlias = Callable[[int, TopicPartition], Awaitable[JoinedTransaction | ErrorCode]]


async def _no_coordinator(_: int, __: TopicPartition) -> ErrorCode:
    return ErrorCode.COORDINATOR_NOT_AVAILABLE


class PartitionMarkers:
    """Writes markers to the partitions that this node leads, and asks the other leaders to write theirs.

    A marker in ``__consumer_offsets`` is written in the turn in which the ``groups`` of the partition take over the
    offsets of the transaction, or drop them: so a client that reads an offset after the end of the transaction gets the
    new one."""

    def __init__(
        self,
        topics: Topics,
        partitions: Partitions,
        groups: MarkedGroups,
        cluster: ClusterView,
        peers: Peers,
    ) -> None:
        self._topics = topics
        self._partitions = partitions
        self._groups = groups
        self._cluster = cluster
        self._peers = peers
        self._open_of: OpenOf = _no_coordinator
        self._under_way: dict[int, MarkersUnderWay] = {}
        """By node."""

    def ask_with(self, open_of: OpenOf) -> None:
        """``open_of``: see ``Transactions.open_anywhere``. The transactions are made with the markers."""
        self._open_of = open_of

    async def open(self, partitions: Collection[TopicPartition]) -> None:
        """See MarkerSink. The leader of a partition that was added may know a topic that this node has not heard of
        yet: the metadata is read before ``write`` takes it for deleted. The partitions are opened, and asked for, in
        their order: a set of names has another one in each process, and a history would not be repeated by its seed."""
        if any(self._topic_of(each) is None for each in partitions):
            await self._cluster.refreshed()
        closed = [
            each
            for each in sorted(partitions)
            if self._other_leader(each) is None and not self._is_open(each)
        ]
        if closed:
            await side_by_side(self._open, closed)

    def _topic_of(self, partition: TopicPartition) -> Topic | None:
        """Returns the topic that has the partition; None if there is none."""
        name, index = partition
        topic = self._topics.by_name(name)
        return topic if topic is not None and 0 <= index < topic.partition_count else None

    def _other_leader(self, partition: TopicPartition) -> int | None:
        """Returns the node that leads the partition; None if this node does, and if the partition is deleted."""
        if (topic := self._topic_of(partition)) is None:
            return None
        metadata = topic.metadata.partitions[partition[1]]
        return None if self._cluster.leads(metadata) else metadata.leader

    async def send(
        self, partitions: Collection[TopicPartition], markers: MarkersToWrite, coordinator_epoch: int
    ) -> MarkersAnswered:
        """See MarkerSink. If one has no answer the metadata is read: its partition may have moved."""
        by_node: dict[int, list[TopicPartition]] = {}
        for partition in sorted(partitions):
            if (node_id := self._other_leader(partition)) is not None:
                by_node.setdefault(node_id, []).append(partition)

        async def ask(node_id: int) -> MarkersAnswered:
            named = by_node[node_id]
            async with self._under_way.setdefault(node_id, MarkersUnderWay()).place(bytes_of_markers(named)):
                return await ask_for_markers(self._peers, node_id, named, markers, coordinator_epoch)

        answers = await side_by_side(ask, by_node)
        written: frozenset[TopicPartition] = frozenset().union(*(each.written for each in answers))
        if len(written) < sum(map(len, by_node.values())):
            await self._cluster.refreshed()
        return MarkersAnswered(written, any(each.knows_newer for each in answers))

    def _is_open(self, partition: TopicPartition) -> bool:
        """Whether nothing has to be waited for before the marker: usually, since the transaction has written there."""
        name, index = partition
        topic = self._topic_of(partition)
        return (
            name != OFFSETS_TOPIC
            and topic is not None
            and self._partitions.opened(topic.id, index) is not None
        )

    async def _open(self, partition: TopicPartition) -> None:
        if (topic := self._topic_of(partition)) is None:
            return
        name, index = partition
        try:
            await self._opened(topic, index)
        except SiltstoneError as trouble:
            log.warning("%s-%d cannot be opened for the marker of a transaction: %s", name, index, trouble)

    async def _opened(self, topic: Topic, index: int) -> Partition:
        opened = self._partitions.opened(topic.id, index) or await self._partitions.open(topic, index)
        if topic.name == OFFSETS_TOPIC:
            await self._groups.prepare_for_marker(index)
        return opened

    def write(self, partition: TopicPartition, markers: MarkersToWrite, coordinator_epoch: int) -> bool:
        name, index = partition
        if (topic := self._topic_of(partition)) is None:
            log.info(
                "%s-%d was deleted during a transaction of producer %d", name, index, markers.producer_id
            )
            return True
        opened = self._partitions.opened(topic.id, index)
        if opened is None or opened.is_closed:
            return False
        ending = TransactionEnding(
            markers.producer_id,
            markers.producer_epoch,
            TransactionMarker(markers.outcome, coordinator_epoch),
            markers.raises_epoch,
            markers.start_ms,
        )
        try:
            self._append(opened, partition, ending)
        except SiltstoneError as trouble:
            log.warning("the marker for %s-%d has to wait: %s", name, index, trouble)
            return False
        return True

    async def end(self, partition: TopicPartition, ending: TransactionEnding) -> None:
        """See MarkerSink."""
        name, index = partition
        if (topic := self._topic_of(partition)) is None:
            raise PartitionGone(
                f"there is no partition {index} of topic {name[:300]!r}: refresh the metadata"
            )
        opened = await self._opened(topic, index)
        if opened.transactions.judge_marker(ending) is MarkerVerdict.IS_UNSURE:
            await self._learn_number(opened, partition, ending)
        durable = self._append(opened, partition, ending)
        if durable is None:
            await opened.wait_until_durable()
        else:
            await asyncio.shield(durable)

    async def _learn_number(
        self, opened: Partition, partition: TopicPartition, ending: TransactionEnding
    ) -> None:
        """Asks which transaction it is that the producer has open: this node has read it in the log, where it has no
        number. The answer is void when that transaction has ended meanwhile: another one may be open by now. It is
        void as well when a newer coordinator is known. Raises TransactionNotKnown."""
        asked = opened.producers.get(ending.producer_id)
        found = await self._open_of(ending.producer_id, partition)
        now = opened.producers.get(ending.producer_id)
        if (
            isinstance(found, ErrorCode)
            or partition not in found.partitions
            or asked is None
            or now is None
            or now.open_from != asked.open_from
            or found.coordinator_epoch < now.coordinator_epoch
        ):
            name, index = partition
            raise TransactionNotKnown(
                f"the coordinator of producer {ending.producer_id} does not say which transaction is open in "
                f"{name}-{index}: its marker has to wait"
            )
        opened.transactions.number_is(ending.producer_id, found.number, found.coordinator_epoch)

    def _append(
        self, opened: Partition, partition: TopicPartition, ending: TransactionEnding
    ) -> "asyncio.Future[int] | None":
        name, index = partition
        if name != OFFSETS_TOPIC:
            return opened.append_marker(ending)
        if not self._groups.takes_marker(index, ending.producer_id):
            raise GroupsNotReady(f"the groups of {name}-{index} are being loaded, or written: retry")
        durable = opened.append_marker(ending)
        if durable is not None:
            commits = ending.marker.outcome is Outcome.COMMIT
            self._groups.marked(index, ending.producer_id, durable, commits=commits)
        return durable
