"""``__transaction_state`` as the logs of the transaction coordinators, and partitions of topics as the places of
markers: the ports of ``transactions.ports``, implemented on partitions."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence

from siltstone.broker.offsets_topic import own_records
from siltstone.broker.partitions.partition import Partition
from siltstone.broker.partitions.partitions import Partitions
from siltstone.broker.partitions.transaction_state import TransactionEnding
from siltstone.broker.topics.registry import Topic, Topics
from siltstone.broker.transactions.ports import TransactionLog
from siltstone.broker.transactions.rules.decision import MarkersToWrite
from siltstone.broker.transactions.state_log.record import EncodedRecord, TopicPartition
from siltstone.kafka_protocol.records.building import build_batch
from siltstone.kafka_protocol.records.control import TransactionMarker
from siltstone.kafka_protocol.records.reading import Record
from siltstone.model.errors import SiltstoneError
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
        return TransactionTopicLog(opened, self._clock)


class TransactionTopicLog:
    def __init__(self, partition: Partition, clock: Clock) -> None:
        self._partition = partition
        self._clock = clock

    @property
    def coordinator_epoch(self) -> int:
        return self._partition.leader_epoch

    def append(self, records: Sequence[EncodedRecord]) -> "asyncio.Future[int]":
        """Nothing is gathered: the records leave with this call, before any marker that is written after it."""
        now_ms = self._clock.now_ms()
        batch = build_batch([Record(timestamp_ms=now_ms, key=key, value=value) for key, value in records])
        return self._partition.append_own(batch)

    def read_all(self) -> AsyncIterator[EncodedRecord]:
        return own_records(self._partition)


class PartitionMarkers:
    """Writes markers to the partitions that this node leads. One that another node leads is not written: the
    transaction stays prepared."""

    def __init__(self, topics: Topics, partitions: Partitions) -> None:
        self._topics = topics
        self._partitions = partitions

    async def open(self, partitions: Collection[TopicPartition]) -> None:
        await side_by_side(self._open, partitions)

    async def _open(self, partition: TopicPartition) -> None:
        name, index = partition
        topic = self._topics.by_name(name)
        if topic is None or index >= topic.partition_count or self._partitions.opened(topic.id, index):
            return
        try:
            await self._partitions.open(topic, index)
        except SiltstoneError as trouble:
            log.warning("%s-%d cannot be opened for the marker of a transaction: %s", name, index, trouble)

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
            opened.append_marker(ending)
        except SiltstoneError as trouble:
            log.warning("the marker for %s-%d has to wait: %s", name, index, trouble)
            return False
        return True
