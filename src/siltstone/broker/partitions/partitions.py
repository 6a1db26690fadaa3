"""The open partitions of a broker. A partition is opened on first use, by its leader only, and stays open until the
broker is closed, the topic is deleted, here or at another node, or the partition is handed over; its snapshots and
closed segments are written in the background."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, TypeVar

import msgspec

from siltstone.broker.cluster_view import ClusterView, leader_epoch_in
from siltstone.broker.partitions.damage import DamageReport
from siltstone.broker.partitions.opening import PartitionOpening
from siltstone.broker.partitions.opening_watch import OpeningWatch
from siltstone.broker.partitions.partition import Partition
from siltstone.broker.partitions.segment_rolls import SegmentRolls
from siltstone.broker.settings import BrokerSettings
from siltstone.broker.topics.registry import Topic, Topics
from siltstone.metadata.commands import DeleteTopic
from siltstone.metadata.entities import PartitionMetadata
from siltstone.metadata.image import MetadataImage
from siltstone.metadata.refusals import NotLeader, TopicNotExist
from siltstone.metadata.service import MetadataService
from siltstone.model.errors import SiltstoneError, Stale
from siltstone.model.limits import (
    MINUTE_MS,
    SECOND_MS,
    SEGMENT_CHECK_INTERVAL_MS,
    SEGMENTS_CHECKED_AT_ONCE_MAX,
)
from siltstone.offline.topic_streams import put_transactional_from, transactional_flags_of, transactional_from
from siltstone.runtime.clock import Clock
from siltstone.runtime.tasks import TaskGroup, ends_while_it_progresses
from siltstone.stream_engine.components import Readiness
from siltstone.stream_engine.engine import StreamEngine
from siltstone.stream_engine.errors import EngineNotRunning
from siltstone.topic_configs.table import TopicConfig

T = TypeVar("T")
PartitionKey = tuple[str, int]
"""Topic id and index."""

EXPIRY_INTERVAL_MS = 10 * MINUTE_MS

SNAPSHOTS_AT_CLOSE_STALLED_MS_MAX = 2 * SECOND_MS
"""While the bucket cannot be reached, a full tail cache may have no room for snapshots for an hour. Without them the
next start reads more batches again."""

log = logging.getLogger(__name__)


class PartitionGone(Stale):
    """The partition does not exist: its topic was deleted, or never had it."""


class PartitionsStatistics(msgspec.Struct, frozen=True):
    open: int
    producers: int


class Traffic(msgspec.Struct, frozen=True):
    """The bytes of batches that were appended and fetched since the start of the broker."""

    bytes_in: int = 0
    bytes_out: int = 0

    def __add__(self, other: "Traffic") -> "Traffic":
        return Traffic(self.bytes_in + other.bytes_in, self.bytes_out + other.bytes_out)


class Partitions:
    """Also the PartitionListener of every partition."""

    def __init__(
        self,
        engine: StreamEngine,
        metadata: MetadataService,
        topics: Topics,
        settings: BrokerSettings,
        clock: Clock,
        cluster: ClusterView | None = None,
    ) -> None:
        self._cluster = cluster or ClusterView(metadata, clock, engine.node_id)
        self._engine = engine
        self._metadata = metadata
        self._topics = topics
        self._settings = settings
        self._clock = clock
        self._open: dict[PartitionKey, Partition] = {}
        self._opening: dict[PartitionKey, asyncio.Future[Partition]] = {}
        self._deleting: dict[str, asyncio.Future[None]] = {}
        self.openings = OpeningWatch(clock, engine.silent_buckets)
        self.damage = DamageReport(clock)
        self._opener = PartitionOpening(engine, metadata, settings, clock, self._config_of, self, self.damage)
        self._rolls = SegmentRolls(metadata, clock, node_id=engine.node_id, node_epoch=engine.node_epoch)
        self._to_check: list[PartitionKey] = []
        self.traffic_of_deleted = Traffic()
        """The traffic of the partitions whose topics were deleted, or that were handed over."""
        self._tasks = TaskGroup("partitions", lambda _: None)
        self._leaving: set[PartitionKey] = set()
        self._is_closed = False
        self._image = metadata.image
        self._stop_following: Callable[[], None] = lambda: None

    def start(self) -> None:
        self._stop_following = self._metadata.add_listener(self._follow)
        self._tasks.start("expire-producers", self._expire_producers())
        self._tasks.start("write-closed-segments", self._rolls.write())
        self._tasks.start("close-segments-by-age", self._check_segments())

    def opened(self, topic_id: str, index: int) -> Partition | None:
        """Returns the partition if it is open, else None."""
        return self._open.get((topic_id, index))

    def exists(self, topic_id: str, index: int) -> bool:
        """Returns whether the metadata has the partition, wherever it is led."""
        return self._cluster.partition(topic_id, index) is not None

    def all_opened(self) -> list[tuple[PartitionKey, Partition]]:
        """Returns the open partitions as of now."""
        return list(self._open.items())

    def counts(self) -> dict[PartitionKey, tuple[int, int, int]]:
        """Returns, for each open partition: bytes in, bytes out, and requests, since it was opened."""
        return {key: (each.bytes_in, each.bytes_out, each.requests) for key, each in self._open.items()}

    def count_fetched(self, topic_id: str, index: int, size_bytes: int) -> None:
        if (partition := self._open.get((topic_id, index))) is not None:
            partition.bytes_out += size_bytes
            partition.requests += 1

    async def open(self, topic: Topic, index: int) -> Partition:
        """Returns the partition, opened if need be. Concurrent callers share one opening. While the topic is being
        deleted the caller waits for the outcome. Raises PartitionGone, NotLeader, EngineNotRunning, and what
        PartitionOpening.open raises."""
        key = (topic.id, index)
        while (deletion := self._deleting.get(topic.id)) is not None:
            await asyncio.wait((deletion,))
        if (partition := self._open.get(key)) is not None:
            return partition
        under_way = self._opening.get(key)
        if under_way is None:
            under_way = self._opening[key] = self._begin("open", self._opened_now(key))
            if self.openings.begin(key):
                self._tasks.start("look-at-openings", self.openings.look_while_there_are())
            under_way.add_done_callback(lambda _: self._opening_ended(key))
        return await asyncio.shield(under_way)

    def _opening_ended(self, key: PartitionKey) -> None:
        self._opening.pop(key, None)
        self.openings.end(key)

    async def _opened_now(self, key: PartitionKey) -> Partition:
        if key in self._leaving:
            raise NotLeader(f"partition {key[1]} of topic {key[0]} is being handed over: retry")
        if not self._cluster.leads(self._metadata_of(key)):
            await self._cluster.refreshed()
        metadata = self._metadata_of(key)
        if not self._cluster.leads(metadata):
            raise NotLeader(
                f"node {metadata.leader} leads partition {key[1]} of topic {key[0]}: ask it instead"
            )
        partition = await self._opener.open(*key, metadata)
        if not self.exists(*key):  # another node has deleted the topic meanwhile
            self._forget_partition(partition)
            raise PartitionGone(f"topic {key[0]} was deleted: refresh the metadata")
        self._open[key] = partition
        if partition.segments.unwritten:
            self._rolls.due(partition)
        return partition

    def _metadata_of(self, key: PartitionKey) -> PartitionMetadata:
        topic_id, index = key
        topic = self._metadata.image.topics.get(topic_id)
        if topic is None or not 0 <= index < len(topic.partitions):
            raise PartitionGone(f"topic {topic_id} has no partition {index}: refresh the metadata")
        return topic.partitions[index]

    def _config_of(self, topic_id: str) -> TopicConfig:
        """Raises PartitionGone."""
        topic = self._metadata.image.topics.get(topic_id)
        if topic is None:
            raise PartitionGone(f"topic {topic_id} was deleted: refresh the metadata")
        return self._topics.of(topic).config

    def leader_epoch(self, topic: Topic, index: int) -> int:
        """Returns the epoch under which the partition is open, or would be opened next."""
        if (partition := self._open.get((topic.id, index))) is not None:
            return partition.leader_epoch
        return self._cluster.leader_epoch(topic.metadata.partitions[index])

    def leader_epochs(self, topic: Topic) -> list[int]:
        """Returns the ``leader_epoch`` of each partition of the topic, all of one image."""
        image, epochs = self._cluster.image, []
        for index, metadata in enumerate(topic.metadata.partitions):
            partition = self._open.get((topic.id, index))
            epochs.append(leader_epoch_in(image, metadata) if partition is None else partition.leader_epoch)
        return epochs

    def is_transactional(self, topic_id: str, index: int) -> bool:
        """Returns whether the metadata says that the partition may have batches of transactions."""
        return transactional_from(self._metadata.image, topic_id, index) is not None

    async def flag_transactional(self, topic_id: str, index: int, partition: Partition) -> None:
        """Returns when the metadata says that the partition may have batches of transactions, from its present end on.
        Called before the first of them is appended: scans, tables and key compaction read the flag. Raises
        Unavailable."""
        if not self.is_transactional(topic_id, index):
            await self._metadata.execute(put_transactional_from(topic_id, index, partition.next_offset))

    async def trim(self, partition: Partition, offset: int) -> None:
        """See Partition.trim; it continues when the caller is cancelled. Raises OffsetBeyondEnds, EngineOverloaded,
        EngineNotRunning."""
        await asyncio.shield(self._begin("trim", partition.trim(offset)))

    # -- work that continues when its caller is cancelled ----------------------------------------------------

    def _begin(self, name: str, work: Coroutine[Any, Any, T]) -> "asyncio.Future[T]":
        """Starts ``work`` as a task of its own; ``close`` cancels it. Raises EngineNotRunning after ``close``."""
        if self._is_closed:
            work.close()
            raise EngineNotRunning("the broker is closing: retry when it has started again")
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        task = self._tasks.start(name, _into(answer, work))
        task.add_done_callback(lambda _: (work.close(), answer.cancel()))
        return answer

    # -- handing over --------------------------------------------------------------------------------------

    async def refuse_to_open(self, keys: Iterable[PartitionKey]) -> None:
        """From now on partitions that are not open are not opened. Returns when the partitions that are being opened
        are open, or could not be."""
        keys = list(keys)
        self._leaving.update(keys)
        if openings := [self._opening[key] for key in keys if key in self._opening]:
            await asyncio.wait(openings)

    def allow_to_open(self, keys: Iterable[PartitionKey]) -> None:
        """Takes ``refuse_to_open`` back."""
        self._leaving.difference_update(keys)

    def given_up(self, key: PartitionKey) -> None:
        """Forgets a partition here whose streams are closed in the metadata, and wakes all that wait for it: another
        node leads it, or this one has to open it again."""
        if (partition := self._open.pop(key, None)) is not None:
            self._forget_partition(partition)

    # -- deletion of topics --------------------------------------------------------------------------------

    async def delete_topic(self, topic: Topic) -> None:
        """Deletes the topic and closes its partitions. Raises the refusals of DeleteTopic, EngineNotRunning."""
        while (deletion := self._deleting.get(topic.id)) is not None:
            await asyncio.wait((deletion,))
        deletion = self._deleting[topic.id] = self._begin("delete", self._delete(topic.id))
        deletion.add_done_callback(lambda _: self._deleting.pop(topic.id))
        await asyncio.shield(deletion)

    async def _delete(self, topic_id: str) -> None:
        openings = [under_way for key, under_way in self._opening.items() if key[0] == topic_id]
        if openings:
            await asyncio.wait(openings)
        topic = self._metadata.image.topics.get(topic_id)
        flags = [] if topic is None else transactional_flags_of(self._metadata.image, topic)
        try:
            await self._metadata.execute(DeleteTopic(self._engine.node_id, self._engine.node_epoch, topic_id))
            for command in flags:
                await self._metadata.execute(command)
        except TopicNotExist:  # an earlier command deleted it, and its answer may have been lost
            self._forget(topic_id)
            raise
        self._forget(topic_id)

    def _follow(self, image: MetadataImage) -> None:
        """Forgets the partitions of topics that were deleted at another node (N16)."""
        before, self._image = self._image, image
        if image.topics.is_unchanged_from(before.topics):
            return
        for topic_id in {topic_id for topic_id, _ in self._open} - image.topics.keys():
            self._forget(topic_id)

    def _forget(self, topic_id: str) -> None:
        for key in [key for key in self._open if key[0] == topic_id]:
            self._forget_partition(self._open.pop(key))

    def _forget_partition(self, partition: Partition) -> None:
        self.traffic_of_deleted += Traffic(partition.bytes_in, partition.bytes_out)
        streams = partition.streams
        self._engine.forget_stream(streams.data)
        self._engine.forget_stream(streams.meta)
        partition.release()

    # -- segments ----------------------------------------------------------------------------------------

    def segment_closed(self, partition: Partition) -> None:
        self._rolls.due(partition)

    async def _check_segments(self) -> None:
        """Runs for ever. Checks some partitions at a time, so that segments that were opened together are not all
        closed at once."""
        while True:
            await self._clock.sleep_ms(SEGMENT_CHECK_INTERVAL_MS)
            if not self._to_check:
                self._to_check = list(self._open)
            for key in self._to_check[-SEGMENTS_CHECKED_AT_ONCE_MAX:]:
                self._check_segment(key)
            del self._to_check[-SEGMENTS_CHECKED_AT_ONCE_MAX:]

    def _check_segment(self, key: PartitionKey) -> None:
        partition, topic = self._open.get(key), self._metadata.image.topics.get(key[0])
        if partition is None or topic is None or partition.is_closed:
            return
        stream = self._metadata.image.streams[partition.stream_id]
        partition.check_segment(self._topics.of(topic).config, stream.active_offset)

    # -- snapshots ---------------------------------------------------------------------------------------

    def snapshot_due(self, partition: Partition) -> None:
        if not self._is_closed:  # ``close`` writes all of them
            self._tasks.start("snapshot", self._write_snapshot(partition))

    async def _write_snapshot(self, partition: Partition) -> None:
        if partition.is_closed:
            return
        try:
            await partition.write_snapshot()
        except SiltstoneError as trouble:  # without it the next start takes longer, no more
            log.warning("the snapshot of stream %d was not written: %s", partition.stream_id, trouble)

    async def _expire_producers(self) -> None:
        while True:
            await self._clock.sleep_ms(EXPIRY_INTERVAL_MS)
            before_ms = self._clock.now_ms() - self._settings.producer_id_expiration_ms
            for partition in self._open.values():
                partition.expire_producers(before_ms)

    async def close(self) -> None:
        """Writes a snapshot of every partition that has changed, as far as there is room in the tail cache. The engine
        closes the streams."""
        self._is_closed = True
        self._stop_following()
        await self._tasks.cancel()
        if self._engine.readiness[0] is Readiness.FULL:
            log.warning(
                "no snapshots of partitions are written: there is no room, and the next start reads more"
            )
            return
        stalled_ms_max = SNAPSHOTS_AT_CLOSE_STALLED_MS_MAX
        if not await ends_while_it_progresses(
            self._write_snapshots(), lambda: self._engine.progress, self._clock, stalled_ms_max
        ):
            log.warning(
                "stopped writing snapshots of partitions: no progress for %d ms; the next start reads more",
                stalled_ms_max,
            )

    async def _write_snapshots(self) -> None:
        due = [partition for partition in self._open.values() if partition.needs_snapshot]
        await asyncio.gather(*(self._write_snapshot(partition) for partition in due))

    def statistics(self) -> PartitionsStatistics:
        return PartitionsStatistics(
            open=len(self._open),
            producers=sum(len(partition.producers) for partition in self._open.values()),
        )


async def _into(answer: "asyncio.Future[T]", work: Coroutine[Any, Any, T]) -> None:
    try:
        answer.set_result(await work)
    except Exception as failure:
        answer.set_exception(failure)
        answer.exception()  # marks it as retrieved, in case the caller was cancelled
