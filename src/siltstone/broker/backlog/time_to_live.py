"""``siltstone.message.ttl.ms``: records older than this count as read by registered groups without members.

No record is deleted here: the group's offset moves forward, and retention may then delete the records (Pulsar's message
expiry). A group with members is not moved, because its members commit.
"""

import logging
from functools import partial

from siltstone.broker.backlog.moving import GroupMover
from siltstone.broker.backlog.positions import Registrations, position_of
from siltstone.broker.groups.groups import Groups
from siltstone.broker.partitions.partition import Partition
from siltstone.broker.partitions.partitions import Partitions
from siltstone.broker.partitions.time_lookup import offset_for_time
from siltstone.broker.topics.registry import Topic
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.metadata.service import MetadataService
from siltstone.model.errors import SiltstoneError
from siltstone.runtime.blocking import BlockingCalls
from siltstone.runtime.clock import Clock

log = logging.getLogger(__name__)


class TimeToLive:
    def __init__(
        self,
        registrations: Registrations,
        mover: GroupMover,
        groups: Groups,
        partitions: Partitions,
        metadata: MetadataService,
        clock: Clock,
        record_calls: BlockingCalls,
    ) -> None:
        self._registrations = registrations
        self._mover = mover
        self._groups = groups
        self._partitions = partitions
        self._metadata = metadata
        self._clock = clock
        self._record_calls = record_calls
        self.records_expired = 0

    async def look(self) -> None:
        """Checks every topic with a time to live. A topic that fails is checked again the next time, and does not
        stop the others."""
        for topic in self._registrations.topics():
            if topic.config.message_ttl_ms < 0:
                continue
            try:
                await self._look_at(topic)
            except SiltstoneError as trouble:
                log.warning(
                    "siltstone.message.ttl.ms of topic %s will be checked again: %s", topic.name, trouble
                )

    async def _look_at(self, topic: Topic) -> None:
        behind = await self._behind(topic)
        if not behind:
            return
        lowest = {
            index: min(offsets[index] for offsets in behind.values() if index in offsets)
            for index in {index for offsets in behind.values() for index in offsets}
        }
        oldest_ms = self._clock.now_ms() - topic.config.message_ttl_ms
        targets: dict[int, int] = {}
        starts: dict[int, int] = {}
        for index in sorted(lowest):
            partition = await self._partitions.open(topic, index)
            starts[index] = partition.log_start_offset
            targets[index] = await self._first_not_older(topic, index, partition, oldest_ms)
        for group, offsets in behind.items():
            wanted = {index: targets[index] for index, offset in offsets.items() if targets[index] > offset}
            if wanted:
                self.records_expired += await self._mover.move(
                    topic, group, wanted, starts, spares_members=True
                )

    async def _behind(self, topic: Topic) -> dict[str, dict[int, int]]:
        """Returns, for each group without members, its offsets in the partitions where it has a backlog."""
        behind: dict[str, dict[int, int]] = {}
        spans = [self._span(topic, index) for index in range(topic.partition_count)]
        for group in self._mover.waited_for(topic):
            position = await position_of(self._groups, group, (topic,))
            if isinstance(position, ErrorCode) or position.has_members:
                continue
            offsets = {
                index: max(position.offset(topic, index), start) for index, (start, _) in enumerate(spans)
            }
            behind[group] = {index: offset for index, offset in offsets.items() if offset < spans[index][1]}
        return {group: offsets for group, offsets in behind.items() if offsets}

    def _span(self, topic: Topic, index: int) -> tuple[int, int]:
        """Returns the start offset and the end offset of the partition."""
        partition = self._partitions.opened(topic.id, index)
        if partition is not None:
            return partition.log_start_offset, partition.high_watermark
        stream = self._metadata.image.streams.get(topic.metadata.partitions[index].data_stream_id)
        return (0, 0) if stream is None else (stream.start_offset, stream.end_offset)

    async def _first_not_older(self, topic: Topic, index: int, partition: Partition, oldest_ms: int) -> int:
        """Returns the first offset whose record is not older. If all records are older: the high watermark before the
        lookup, as records that are appended during it are younger. What is not decided, and all behind it, is not
        passed: it may be committed later. Raises DamagedRange unless the topic skips damage."""
        end_offset = partition.high_watermark
        report = partial(self._partitions.damage.skipping, f"{topic.name}-{index}")
        on_damage = report if topic.config.skips_damage else None
        found = await offset_for_time(partition, oldest_ms, self._record_calls, on_damage)
        return min(end_offset if found is None else found.offset, partition.last_stable_offset)
