"""``__consumer_offsets`` as the logs of the group coordinators: the ports of ``groups.ports``, implemented on
partitions."""

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AbstractContextManager

from siltstone.broker.cluster_view import ClusterView
from siltstone.broker.groups.offsets_log.record import EncodedRecord, LogProducer
from siltstone.broker.groups.ports import GroupLog, LogEntry, RecordInTransaction, TransactionEnd
from siltstone.broker.partitions.admission import Admitted
from siltstone.broker.partitions.partition import Partition
from siltstone.broker.partitions.partitions import Partitions
from siltstone.broker.partitions.transaction_state import PermissionQuestion, TransactionPermission
from siltstone.broker.topics.creating import TopicCreation
from siltstone.broker.topics.names import OFFSETS_TOPIC
from siltstone.broker.topics.registry import Topics
from siltstone.kafka_protocol.batch_header import TRANSACTIONAL_BIT, read_batch_header
from siltstone.kafka_protocol.records.building import build_batch
from siltstone.kafka_protocol.records.control import Outcome, read_control_batch
from siltstone.kafka_protocol.records.reading import Record, iterate_records
from siltstone.model.record_batch import NO_TIMESTAMP, RecordBatch
from siltstone.runtime.clock import Clock
from siltstone.runtime.turns import let_others_run

READ_BYTES = 256 * 1024
"""The size of one read; the event loop runs other tasks between two reads."""


class OffsetsTopicLeaders:
    """See GroupLeaders. ``name``: of the topic; the leaders of ``__transaction_state`` are found alike."""

    def __init__(self, cluster: ClusterView, topics: Topics, name: str = OFFSETS_TOPIC) -> None:
        self._cluster = cluster
        self._topics = topics
        self._name = name

    @property
    def node_id(self) -> int:
        return self._cluster.node_id

    @property
    def has_others(self) -> bool:
        return self._cluster.has_others

    @property
    def serves(self) -> bool:
        return self._cluster.serves

    def leader_of(self, partition: int) -> int | None:
        topic = self._topics.by_name(self._name)
        if topic is None or not 0 <= partition < topic.partition_count:
            return None
        metadata = topic.metadata.partitions[partition]
        return self.node_id if self._cluster.leads(metadata) else metadata.leader

    async def refreshed(self) -> object:
        return await self._cluster.refreshed()


class OffsetsTopicLogs:
    def __init__(self, creation: TopicCreation, partitions: Partitions, clock: Clock) -> None:
        self._creation = creation
        self._partitions = partitions
        self._clock = clock

    async def partition_count(self) -> int:
        return (await self._creation.offsets_topic()).partition_count

    async def open(self, partition: int) -> GroupLog:
        topic = await self._creation.offsets_topic()
        opened = await self._partitions.open(topic, partition)
        return OffsetsTopicLog(self._partitions, opened, self._clock, topic.id, partition)


class OffsetsTopicLog:
    def __init__(
        self, partitions: Partitions, partition: Partition, clock: Clock, topic_id: str = "", index: int = 0
    ) -> None:
        self._topic_id = topic_id
        self._index = index
        self._partitions = partitions
        self._partition = partition
        self._clock = clock

    @property
    def next_offset(self) -> int:
        return self._partition.next_offset

    def question(self, producer_id: int) -> AbstractContextManager[PermissionQuestion]:
        return self._partition.transactions.question(producer_id)

    async def take_transactions(self) -> None:
        await self._partitions.flag_transactional(self._topic_id, self._index, self._partition)

    async def append(self, records: Sequence[EncodedRecord], producer: LogProducer | None = None) -> None:
        """See GroupLog. What is in a transaction is checked as a batch of its producer: the partition knows that the
        transaction is open."""
        now_ms = self._clock.now_ms()
        rows = [Record(timestamp_ms=now_ms, key=key, value=value) for key, value in records]
        if producer is None:
            await self._partition.append_own(build_batch(rows))
            return
        batch = build_batch(
            rows,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            attributes=TRANSACTIONAL_BIT,
        )
        admitted = Admitted(batch, read_batch_header(batch), NO_TIMESTAMP)
        appended = self._partition.append_admitted(
            admitted, TransactionPermission(producer.number, coordinator_epoch=producer.coordinator_epoch)
        )
        assert appended.durable is not None, "these batches have no sequence, so that none repeats another"
        await appended.durable

    async def read_all(self) -> AsyncIterator[LogEntry]:
        """See GroupLog. Records whose append is still under way are included: the reader waits until they are
        durable."""
        async for batch, records in _own_batches(self._partition):
            header = read_batch_header(batch.payload)
            if header.is_control:
                if header.record_count:
                    outcome = read_control_batch(batch.payload).outcome
                    yield TransactionEnd(header.producer_id, outcome is Outcome.COMMIT)
                continue
            producer = LogProducer(header.producer_id, header.producer_epoch)
            for encoded in records:
                yield RecordInTransaction(encoded, producer) if header.is_transactional else encoded

    async def trim_before(self, offset: int) -> None:
        await self._partitions.trim(self._partition, offset)


async def own_records(partition: Partition) -> AsyncIterator[EncodedRecord]:
    """Yields the records that the broker itself has written to the partition, and waits until the last of them is
    appended. Control batches are none of them."""
    async for batch, records in _own_batches(partition):
        if not read_batch_header(batch.payload).is_control:
            for encoded in records:
                yield encoded


async def _own_batches(partition: Partition) -> AsyncIterator[tuple[RecordBatch, Iterator[EncodedRecord]]]:
    """Yields the batches up to the end of the partition at the call, and waits until the last of them is appended."""
    offset, end = partition.log_start_offset, partition.next_offset
    await partition.wait_for(end - 1)
    while offset < end:
        for batch in await partition.read(offset, READ_BYTES):
            yield batch, _encoded(batch, offset, end)
            offset = batch.end_offset
        await let_others_run()


def _encoded(batch: RecordBatch, offset: int, end: int) -> Iterator[EncodedRecord]:
    for record in iterate_records(batch.payload):
        if record.key is not None and offset <= record.offset < end:
            yield bytes(record.key), None if record.value is None else bytes(record.value)
