"""``__transaction_state`` as the logs of the transaction coordinators, and partitions of topics as the places of
markers: the ports of ``transactions.ports``, implemented on partitions."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence

from siltstone.broker.offsets_topic import own_records
from siltstone.broker.partitions.partition import Partition
from siltstone.broker.partitions.partitions import PartitionGone, Partitions
from siltstone.broker.partitions.transaction_state import TransactionEnding
from siltstone.broker.topics.names import OFFSETS_TOPIC
from siltstone.broker.topics.registry import Topic, Topics
from siltstone.broker.transactions.ports import MarkedGroups, TransactionLog
from siltstone.broker.transactions.rules.decision import MarkersToWrite
from siltstone.broker.transactions.state_log.record import EncodedRecord, TopicPartition
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


class PartitionMarkers:
    """Writes markers to the partitions that this node leads. One that another node leads is not written: the
    transaction stays prepared.

    A marker in ``__consumer_offsets`` is written in the turn in which the ``groups`` of the partition take over the
    offsets of the transaction, or drop them: so a client that reads an offset after the end of the transaction gets the
    new one."""

    def __init__(self, topics: Topics, partitions: Partitions, groups: MarkedGroups) -> None:
        self._topics = topics
        self._partitions = partitions
        self._groups = groups

    async def open(self, partitions: Collection[TopicPartition]) -> None:
        await side_by_side(self._open, partitions)

    async def _open(self, partition: TopicPartition) -> None:
        name, index = partition
        topic = self._topics.by_name(name)
        if topic is None or not 0 <= index < topic.partition_count:
            return
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
        topic = self._topics.by_name(name)
        if topic is None or index >= topic.partition_count:
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
        topic = self._topics.by_name(name)
        if topic is None or not 0 <= index < topic.partition_count:
            raise PartitionGone(
                f"there is no partition {index} of topic {name[:300]!r}: refresh the metadata"
            )
        opened = await self._opened(topic, index)
        durable = self._append(opened, partition, ending)
        if durable is None:
            await opened.wait_until_durable()
        else:
            await asyncio.shield(durable)

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
