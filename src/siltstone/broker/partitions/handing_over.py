"""Hands partitions over to the nodes that the metadata names as their targets.

====  =========================================================================  ==================================
step  what happens                                                               appends to the partition
====  =========================================================================  ==================================
1     this node reads that a partition that it leads has a target                are answered
2     what it holds is uploaded, once for all partitions that leave              are answered
3     its streams are held                                                       wait, at most HAND_OVER_MS_MAX
4     appends under way end; a last snapshot; the rest is uploaded               wait
5     one GiveUpPartitions closes the streams and makes the target the leader    wait
6     the partition is closed here; waiting clients get the new leader          are refused, none was appended
====  =========================================================================  ==================================

If a step before step 5 fails, this node continues to serve the partitions, and tries again later. Step 5 is different.
The new leader may append before this node has its answer, so until then this node answers no question for their ends.
While its outcome is unknown, nothing may be appended: the entry may still reach the metadata log, and would close the
streams before records that were acknowledged meanwhile, so that recovery would leave these records out. So the command
is repeated until it has an answer, and the partitions are held until then. Any answer ends the uncertainty, because it
is decided on an image at the head of the log. If the version of the unknown entry is still free in that image, the
command is decided as before, and its answer is an entry of its own at that version, which the late entry then cannot
have. If the version is taken, the image contains the entry that took it. So the metadata, and not the answer alone,
says afterwards which partitions are still open here. A partition whose streams were closed may have come back to this
node meanwhile, because its new leader died: it is closed here all the same, and opened again under its next epoch."""

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from siltstone.broker.cluster_view import ClusterView
from siltstone.broker.partitions.partition import Partition
from siltstone.broker.partitions.partitions import PartitionKey, Partitions
from siltstone.broker.topics.names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from siltstone.broker.topics.registry import Topics
from siltstone.metadata.client import CommitUnknown
from siltstone.metadata.commands import GiveUpPartitions, PartitionEnds
from siltstone.metadata.entities import NO_NODE, GivenUpPartition, StreamMetadata, StreamState
from siltstone.metadata.image import MetadataImage
from siltstone.metadata.refusals import Refusal
from siltstone.metadata.service import MetadataService, ServiceClosed
from siltstone.model.errors import SiltstoneError, Unavailable
from siltstone.model.limits import MINUTE_MS, PARTITIONS_PER_COMMAND_MAX, SECOND_MS
from siltstone.runtime.clock import Clock
from siltstone.runtime.tasks import TaskGroup, ends_in_time
from siltstone.stream_engine.engine import StreamEngine
from siltstone.stream_engine.stream import Stream

PREPARING_MS_MAX = 10 * SECOND_MS
"""How long step 2 may take, and steps 3 and 4 together. Uploads that take longer will not end soon: the bucket is
unreachable."""

AGAIN_MS_MIN = 1 * SECOND_MS
AGAIN_MS_MAX = MINUTE_MS
"""The pause before another attempt doubles from the first of these to the second."""

REPEAT_MS = 200
"""The pause before GiveUpPartitions is repeated because its outcome is unknown."""

LOOK_MS = 50
"""How often a node that ends checks whether it has handed over all its partitions."""

log = logging.getLogger(__name__)


class MovingCoordinators(Protocol):
    """The groups, or the transactions, whose coordinators are the leaders of a topic's partitions."""

    async def give_up(self, partition: int) -> None:
        """Returns when nothing is appended to the partition any more."""
        ...

    def take_back(self, partition: int) -> None: ...


class HandOverLate(Unavailable):
    """The partitions could not be made ready in time; this node continues serving them."""


class HandingOver:
    """The moves of one node: all partitions that leave at the same time share two uploads and one command."""

    def __init__(
        self,
        engine: StreamEngine,
        metadata: MetadataService,
        cluster: ClusterView,
        topics: Topics,
        partitions: Partitions,
        groups: MovingCoordinators,
        transactions: MovingCoordinators,
        clock: Clock,
    ) -> None:
        self._engine = engine
        self._metadata = metadata
        self._cluster = cluster
        self._topics = topics
        self._partitions = partitions
        self._coordinating: Mapping[str, MovingCoordinators] = {
            OFFSETS_TOPIC: groups, TRANSACTIONS_TOPIC: transactions,
        }  # fmt: skip
        self._clock = clock
        self._image = metadata.image
        self._wanted: set[PartitionKey] = set()
        self._news = asyncio.Event()
        self._tasks = TaskGroup("handing-over", lambda _: None)
        self._stop_following = metadata.add_listener(self._follow)
        self.partitions_given_up = 0

    def start(self) -> None:
        self._find(self._image.topics)
        self._tasks.start("rounds", self._rounds())

    async def close(self) -> None:
        """Ends the moves. A command whose outcome is unknown is not awaited: the engine closes the streams next."""
        self._stop_following()
        await self._tasks.cancel()

    # -- what leaves -------------------------------------------------------------------------------------

    def _follow(self, image: MetadataImage) -> None:
        before, self._image = self._image, image
        if not image.topics.is_unchanged_from(before.topics):
            self._find(dict(image.topics.changed_from(before.topics)))
        if not image.nodes.is_unchanged_from(before.nodes) and self._wanted:
            self._news.set()  # a target may be live again

    def _find(self, topic_ids: Iterable[str]) -> None:
        """Notes the partitions of these topics that this node is to hand over."""
        for topic_id in topic_ids:
            topic = self._image.topics.get(topic_id)
            for index, partition in enumerate(() if topic is None else topic.partitions):
                if partition.target != NO_NODE and partition.leader == self._engine.node_id:
                    self._wanted.add((topic_id, index))
                    self._news.set()

    def _due(self) -> list[PartitionKey]:
        """Returns the partitions that are still to be handed over, and whose targets are live; at most one command's
        worth."""
        image, due = self._metadata.image, []
        for key in list(self._wanted):
            partition = self._cluster.partition(*key)
            if partition is None or partition.target == NO_NODE or partition.leader != self._engine.node_id:
                self._wanted.discard(key)
                continue
            target = image.nodes.get(partition.target)
            if target is not None and target.is_live:
                due.append(key)
        return due[:PARTITIONS_PER_COMMAND_MAX]

    async def _rounds(self) -> None:
        pause_ms = AGAIN_MS_MIN
        while True:
            await self._news.wait()
            self._news.clear()
            while due := self._due():
                try:
                    await self._hand_over(due)
                    pause_ms = AGAIN_MS_MIN
                except ServiceClosed:
                    return  # the node is ending
                except SiltstoneError as trouble:
                    log.warning(
                        "%d partitions could not be handed over yet; still served: %s", len(due), trouble
                    )
                    await self._clock.sleep_ms(pause_ms)
                    pause_ms = min(2 * pause_ms, AGAIN_MS_MAX)

    # -- one hand-over -----------------------------------------------------------------------------------

    async def _hand_over(self, keys: Sequence[PartitionKey]) -> None:
        """Hands the partitions over. Raises what prevents that; this node then continues serving them."""
        await self._in_time(self._open_what_has_records(keys))
        await self._in_time(self._engine.flush())
        coordinated = [
            (coordinating, index)
            for topic_id, index in keys
            for coordinating in self._coordinating_by(topic_id)
        ]
        held: list[Partition] = []
        is_settled = True
        try:
            ends = await self._held_and_committed(keys, coordinated, held)
            is_settled = False
            for partition in held:
                partition.forget_end()
            answers = await self._give_up(ends)
            is_settled = True
            self.partitions_given_up += len(answers)
            log.info("%d partitions were handed over", len(answers))
        except ServiceClosed:
            raise
        except SiltstoneError:
            is_settled = True
            raise
        finally:
            if is_settled:  # else this task was cancelled, and the entry may still land
                self._forget_closed(keys)
                for partition in held:
                    partition.release()
                self._partitions.allow_to_open(keys)
                for coordinating, index in coordinated:
                    coordinating.take_back(index)

    def _coordinating_by(self, topic_id: str) -> list[MovingCoordinators]:
        """Returns what is coordinated by the leaders of the topic's partitions, if anything is."""
        named = ((self._topics.by_name(name), each) for name, each in self._coordinating.items())
        return [each for topic, each in named if topic is not None and topic.id == topic_id]

    async def _open_what_has_records(self, keys: Sequence[PartitionKey]) -> None:
        """Opens the partitions whose streams have been open in the metadata since an earlier start that could not
        upload its log: only the engine knows where they end."""
        await asyncio.gather(*(self._open(key) for key in keys if self._is_open_in_metadata(key)))

    def _is_open_in_metadata(self, key: PartitionKey) -> bool:
        return any(stream.state is StreamState.OPENED for stream in self._streams(key))

    def _streams(self, key: PartitionKey) -> tuple[StreamMetadata, ...]:
        """Returns the data stream and the meta stream as the metadata has them; none if the topic was deleted."""
        partition = self._cluster.partition(*key)
        if partition is None:
            return ()
        streams = self._metadata.image.streams
        found = (streams.get(partition.data_stream_id), streams.get(partition.meta_stream_id))
        return tuple(stream for stream in found if stream is not None)

    async def _open(self, key: PartitionKey) -> None:
        topic = self._topics.by_id(bytes.fromhex(key[0]))
        if topic is not None:
            await self._partitions.open(topic, key[1])

    async def _held_and_committed(
        self,
        keys: Sequence[PartitionKey],
        coordinated: Sequence[tuple[MovingCoordinators, int]],
        held: list[Partition],
    ) -> list[PartitionEnds]:
        """Steps 3 and 4. Returns the ends of the partitions, which are final."""
        begun_ms = self._clock.monotonic_ms()
        await asyncio.gather(*(coordinating.give_up(index) for coordinating, index in coordinated))
        await self._in_time(self._partitions.refuse_to_open(keys))
        opened = {key: partition for key in keys if (partition := self._partitions.opened(*key)) is not None}
        for partition in opened.values():
            held.append(partition)
            partition.hold()
        left_ms = PREPARING_MS_MAX - (self._clock.monotonic_ms() - begun_ms)
        await self._in_time(self._committed(held), left_ms)
        return [ends for key in keys if (ends := self._ends(key, opened.get(key))) is not None]

    async def _committed(self, held: Sequence[Partition]) -> None:
        await asyncio.gather(*(partition.wait_until_durable() for partition in held))
        await asyncio.gather(*(partition.write_snapshot() for partition in held if partition.needs_snapshot))
        for partition in held:
            partition.hold_snapshots()
        await self._engine.flush()

    def _ends(self, key: PartitionKey, partition: Partition | None) -> PartitionEnds | None:
        """Returns None for a partition whose topic was deleted. Raises HandOverLate for one that was opened
        meanwhile."""
        streams = self._streams(key)
        if len(streams) < 2:
            return None
        data, meta = streams
        if partition is None:
            if self._is_open_in_metadata(key):
                raise HandOverLate(
                    f"partition {key[1]} of topic {key[0]} was opened while it was to be handed over"
                )
            return PartitionEnds(*key, data.epoch, data.end_offset, meta.end_offset)
        ends = partition.streams
        return PartitionEnds(*key, ends.data.epoch, ends.data.next_offset, ends.meta.next_offset)

    async def _give_up(self, ends: Sequence[PartitionEnds]) -> tuple[GivenUpPartition, ...]:
        """Step 5. Returns, or raises a Refusal, only when the outcome is certain. Raises Unavailable only when the
        command was certainly not executed."""
        command = GiveUpPartitions(self._engine.node_id, self._engine.node_epoch, tuple(ends))
        is_unknown = False
        while True:
            try:
                return await self._metadata.execute(command)
            except (Refusal, ServiceClosed):
                raise
            except CommitUnknown as unknown:
                is_unknown = True
                log.error(
                    "it is not known whether %d partitions were handed over; they take no appends until it is: %s",
                    len(ends),
                    unknown,
                )
            except Unavailable:
                if not is_unknown:
                    raise
            await self._clock.sleep_ms(REPEAT_MS)

    def _forget_closed(self, keys: Sequence[PartitionKey]) -> None:
        """Closes the partitions here whose streams are no longer open under the epoch of this node's opening."""
        for key in keys:
            partition = self._partitions.opened(*key)
            if partition is not None and not self._has_open(partition.streams.data):
                self._partitions.given_up(key)

    def _has_open(self, stream: Stream) -> bool:
        """Returns whether this node has the stream open in the metadata, too."""
        found = self._metadata.image.streams.get(stream.stream_id)
        return (
            found is not None
            and found.state is StreamState.OPENED
            and (found.owner, found.epoch) == (self._engine.node_id, stream.epoch)
        )

    async def _in_time(self, work: object, limit_ms: float = PREPARING_MS_MAX) -> None:
        """Raises HandOverLate, and what the work raises."""
        if not await ends_in_time(work, self._clock, max(0.0, limit_ms)):  # type: ignore[arg-type]
            raise HandOverLate(
                f"no progress in {PREPARING_MS_MAX} ms: the bucket or the metadata does not answer; tried again later"
            )

    # -- before the node ends ----------------------------------------------------------------------------

    async def wait_until_all_left(self) -> None:
        """Returns when this node leads no partition any more, or when no other node could take one."""
        while self._metadata.image.leader_counts.get(self._engine.node_id, 0) and self._cluster.has_takers:
            await self._clock.sleep_ms(LOOK_MS)
