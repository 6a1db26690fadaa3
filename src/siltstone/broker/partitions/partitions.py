"""The open partitions of a broker: opened on first use, written down now and then, given back together at the end."""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

import msgspec

from siltstone.broker.partitions.opening import PartitionOpening, next_epoch
from siltstone.broker.partitions.partition import Partition
from siltstone.broker.settings import BrokerSettings
from siltstone.broker.topics.registry import Topic
from siltstone.metadata.commands import DeleteTopic
from siltstone.metadata.entities import PartitionMetadata, StreamState
from siltstone.metadata.service import MetadataService
from siltstone.model.errors import SiltstoneError, Stale
from siltstone.model.limits import MINUTE_MS
from siltstone.runtime.clock import Clock
from siltstone.runtime.tasks import TaskGroup
from siltstone.stream_engine.engine import StreamEngine

PartitionKey = tuple[str, int]
"""Topic id and index."""

EXPIRY_INTERVAL_MS = 10 * MINUTE_MS

log = logging.getLogger(__name__)


class PartitionGone(Stale):
    """The topic was deleted, or never had that partition."""


class PartitionsStatistics(msgspec.Struct, frozen=True):
    open: int
    producers: int


class Partitions:
    def __init__(
        self, engine: StreamEngine, metadata: MetadataService, settings: BrokerSettings, clock: Clock
    ) -> None:
        self._engine = engine
        self._metadata = metadata
        self._settings = settings
        self._clock = clock
        self._open: dict[PartitionKey, Partition] = {}
        self._opening: dict[PartitionKey, asyncio.Future[Partition]] = {}
        self._locks: dict[str, asyncio.Lock] = {}
        self._opener = PartitionOpening(engine, metadata, settings, clock, self._snapshot_due)
        self._tasks = TaskGroup("partitions", lambda _: None)

    def start(self) -> None:
        self._tasks.start("expire-producers", self._expire_producers())

    def opened(self, topic_id: str, index: int) -> Partition | None:
        """None: not opened yet, ``open`` does it."""
        return self._open.get((topic_id, index))

    async def open(self, topic: Topic, index: int) -> Partition:
        """Raises PartitionGone, EngineNotRunning, and what opening raises. Concurrent callers share one opening."""
        key = (topic.id, index)
        if (partition := self._open.get(key)) is not None:
            return partition
        under_way = self._opening.get(key)
        if under_way is None:
            under_way = self._opening[key] = asyncio.get_running_loop().create_future()
            self._start("open", self._opened_into(key, under_way))
        return await asyncio.shield(under_way)

    def _start(self, name: str, body: Coroutine[Any, Any, None]) -> None:
        self._tasks.start(name, body)

    async def _opened_into(self, key: PartitionKey, answer: "asyncio.Future[Partition]") -> None:
        try:
            async with self._lock_of(key[0]):
                partition = self._open[key] = await self._opener.open(self._metadata_of(key))
            answer.set_result(partition)
        except asyncio.CancelledError:
            answer.cancel()
            raise
        except Exception as failure:
            answer.set_exception(failure)
            answer.exception()  # seen, should nobody wait any more
        finally:
            self._opening.pop(key, None)

    def _metadata_of(self, key: PartitionKey) -> PartitionMetadata:
        topic_id, index = key
        topic = self._metadata.image.topics.get(topic_id)
        if topic is None or not 0 <= index < len(topic.partitions):
            raise PartitionGone(f"topic {topic_id} has no partition {index}: refresh the metadata")
        return topic.partitions[index]

    def _lock_of(self, topic_id: str) -> asyncio.Lock:
        return self._locks.setdefault(topic_id, asyncio.Lock())

    def leader_epoch(self, topic: Topic, index: int) -> int:
        """The epoch it is open under, or will be when it is opened: what clients may be told either way."""
        if (partition := self._open.get((topic.id, index))) is not None:
            return partition.leader_epoch
        stream = self._metadata.image.streams.get(topic.metadata.partitions[index].data_stream_id)
        if stream is None:
            return 0
        is_being_opened = stream.state is StreamState.OPENED
        return stream.epoch if is_being_opened else next_epoch(stream)

    # -- topics that go ----------------------------------------------------------------------------------

    async def delete_topic(self, topic: Topic) -> None:
        """Raises the refusals of DeleteTopic. From then on its partitions are closed for everybody."""
        async with self._lock_of(topic.id):
            node_id, node_epoch = self._engine.node_id, self._engine.node_epoch
            await self._metadata.execute(DeleteTopic(node_id, node_epoch, topic.id))
            for index in range(topic.partition_count):
                if (partition := self._open.pop((topic.id, index), None)) is not None:
                    self._engine.forget_stream(partition.streams.data)
                    self._engine.forget_stream(partition.streams.meta)
        self._locks.pop(topic.id, None)

    # -- snapshots ---------------------------------------------------------------------------------------

    def _snapshot_due(self, partition: Partition) -> None:
        self._start("snapshot", self._write_snapshot(partition))

    async def _write_snapshot(self, partition: Partition) -> None:
        if partition.is_closed:
            return
        try:
            await partition.write_snapshot()
        except SiltstoneError as trouble:  # costs time at the next start, nothing else
            log.warning("the snapshot of a partition was not written: %s", trouble)

    async def _expire_producers(self) -> None:
        while True:
            await self._clock.sleep_ms(EXPIRY_INTERVAL_MS)
            before_ms = self._clock.now_ms() - self._settings.producer_id_expiration_ms
            for partition in self._open.values():
                partition.expire_producers(before_ms)

    async def close(self) -> None:
        """Snapshots of what changed. The engine closes the streams."""
        await self._tasks.cancel()
        due = [partition for partition in self._open.values() if partition.needs_snapshot]
        await asyncio.gather(*(self._write_snapshot(partition) for partition in due))

    def statistics(self) -> PartitionsStatistics:
        return PartitionsStatistics(
            open=len(self._open),
            producers=sum(len(partition.producers) for partition in self._open.values()),
        )
