"""``__consumer_offsets`` as the logs of the group coordinators: the ports of ``groups.ports``, implemented on
partitions."""

from collections.abc import AsyncIterator, Sequence

from siltstone.broker.cluster_view import ClusterView
from siltstone.broker.groups.offsets_log.record import EncodedRecord
from siltstone.broker.groups.ports import GroupLog
from siltstone.broker.partitions.partition import Partition
from siltstone.broker.partitions.partitions import Partitions
from siltstone.broker.topics.creating import TopicCreation
from siltstone.broker.topics.names import OFFSETS_TOPIC
from siltstone.broker.topics.registry import Topics
from siltstone.kafka_protocol.records.building import build_batch
from siltstone.kafka_protocol.records.reading import Record, iterate_records
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
        return OffsetsTopicLog(self._partitions, opened, self._clock)


class OffsetsTopicLog:
    def __init__(self, partitions: Partitions, partition: Partition, clock: Clock) -> None:
        self._partitions = partitions
        self._partition = partition
        self._clock = clock

    @property
    def next_offset(self) -> int:
        return self._partition.next_offset

    async def append(self, records: Sequence[EncodedRecord]) -> None:
        now_ms = self._clock.now_ms()
        batch = build_batch([Record(timestamp_ms=now_ms, key=key, value=value) for key, value in records])
        await self._partition.append_own(batch)

    async def read_all(self) -> AsyncIterator[EncodedRecord]:
        """See GroupLog. Records whose append is still under way are included: the reader waits until they are
        durable."""
        async for record in own_records(self._partition):
            yield record

    async def trim_before(self, offset: int) -> None:
        await self._partitions.trim(self._partition, offset)


async def own_records(partition: Partition) -> AsyncIterator[EncodedRecord]:
    """Yields the records that the broker itself has written to the partition, and waits until the last of them is
    appended."""
    offset, end = partition.log_start_offset, partition.next_offset
    await partition.wait_for(end - 1)
    while offset < end:
        for batch in await partition.read(offset, READ_BYTES):
            for record in iterate_records(batch.payload):
                if record.key is not None and offset <= record.offset < end:
                    yield bytes(record.key), None if record.value is None else bytes(record.value)
            offset = batch.end_offset
        await let_others_run()
