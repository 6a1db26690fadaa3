"""Checks every topic with ``siltstone.backlog.quota.bytes``: periodically, not at every append, so a backlog may exceed
its quota by what producers send between two checks."""

import logging

import msgspec

from siltstone.broker.backlog.moving import GroupMover
from siltstone.broker.backlog.positions import GroupPosition, Registrations, position_of
from siltstone.broker.backlog.quota_rules import Backlog, BacklogMeasure, backlog_of, evictions, verdict_on
from siltstone.broker.backlog.verdicts import PartitionKey, QuotaVerdicts, Sentence
from siltstone.broker.groups.groups import Groups
from siltstone.broker.partitions.partitions import Partitions
from siltstone.broker.topics.registry import Topic
from siltstone.foundation.quantity_words import size_words
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.metadata.service import MetadataService
from siltstone.offline.topic_streams import transactional_from
from siltstone.runtime.turns import let_others_run

log = logging.getLogger(__name__)


class PartitionBacklog(msgspec.Struct, frozen=True):
    """``state`` is hold, refuse or evict; empty if the backlog is within its quota."""

    topic: str
    partition: int
    group: str
    backlog_bytes: int
    quota_bytes: int
    state: str


class QuotaCheck:
    def __init__(
        self,
        registrations: Registrations,
        mover: GroupMover,
        groups: Groups,
        partitions: Partitions,
        metadata: MetadataService,
        verdicts: QuotaVerdicts,
    ) -> None:
        self._registrations = registrations
        self._mover = mover
        self._groups = groups
        self._partitions = partitions
        self._metadata = metadata
        self._verdicts = verdicts
        self.backlogs: tuple[PartitionBacklog, ...] = ()

    async def look(self) -> None:
        """Checks every partition. If the offsets of a topic's groups are not available, its last verdicts stay."""
        found: list[PartitionBacklog] = []
        sentences: dict[PartitionKey, Sentence] = {}
        for topic in self._registrations.topics():
            if topic.config.backlog_quota_bytes >= 0:
                positions = await self._positions(topic)
                for index in range(topic.partition_count):
                    await self._judge(topic, index, positions, found, sentences)
        self._log_changes(sentences)
        self._verdicts.pronounce(sentences)
        self.backlogs = tuple(found)

    async def _positions(self, topic: Topic) -> dict[str, GroupPosition] | None:
        positions: dict[str, GroupPosition] = {}
        for group in self._mover.waited_for(topic):
            position = await position_of(self._groups, group, (topic,))
            if isinstance(position, ErrorCode):
                return None
            positions[group] = position
        return positions

    async def _judge(
        self,
        topic: Topic,
        index: int,
        positions: dict[str, GroupPosition] | None,
        found: list[PartitionBacklog],
        sentences: dict[PartitionKey, Sentence],
    ) -> None:
        key = (topic.id, index)
        if positions is None:
            if (last := self._verdicts.on(*key)) is not None:
                sentences[key] = last
            return
        if not positions:
            return
        measured = self._measure(topic, index)
        if measured is None:
            return
        start, measure = measured
        offsets = {group: max(position.offset(topic, index), start) for group, position in positions.items()}
        backlog = backlog_of(measure, offsets, topic.config.backlog_quota_bytes)
        policy = topic.config.backlog_quota_policy
        verdict = verdict_on(backlog, policy)
        moves = evictions(measure, offsets, backlog, policy)
        if verdict is not None:
            sentences[key] = Sentence(verdict, backlog)
        for group, target in moves.items():
            decided = min(target, self._decided_end(topic, index, target))
            await self._mover.move(topic, group, {index: decided}, {index: start}, spares_members=False)
        state = verdict.value if verdict is not None else "evict" if moves else ""
        found.append(_row(topic, index, backlog, state))
        await let_others_run()

    def _decided_end(self, topic: Topic, index: int, end_offset: int) -> int:
        """Returns the offset before which all transactions are decided: a group is moved past no record that may be
        committed later."""
        partition = self._partitions.opened(topic.id, index)
        if partition is not None:
            return partition.last_stable_offset
        first = transactional_from(self._metadata.image, topic.id, index)
        return end_offset if first is None else first

    def _measure(self, topic: Topic, index: int) -> tuple[int, BacklogMeasure] | None:
        """Measures the backlogs of the partition; returns its start offset, too. None if its topic was deleted."""
        stream = self._metadata.image.streams.get(topic.metadata.partitions[index].data_stream_id)
        if stream is None:
            return None
        partition = self._partitions.opened(topic.id, index)
        if (
            partition is None
        ):  # a partition that is not open has no appends under way: all of it is in objects
            return stream.start_offset, BacklogMeasure(stream, stream.end_offset, lambda _: None)
        measure = BacklogMeasure(stream, partition.high_watermark, partition.cached_bytes)
        return max(stream.start_offset, partition.log_start_offset), measure

    def _log_changes(self, sentences: dict[PartitionKey, Sentence]) -> None:
        for topic in self._registrations.topics():
            for index in range(topic.partition_count):
                before, after = self._verdicts.on(topic.id, index), sentences.get((topic.id, index))
                name = f"{topic.name}-{index}"
                if before is None and after is not None:
                    backlog = after.backlog
                    log.warning(
                        "%s takes no records (%s): %s wait for group %s, the quota is %s",
                        name, after.verdict.value, size_words(backlog.size_bytes), backlog.group,
                        size_words(backlog.quota_bytes),
                    )  # fmt: skip
                elif before is not None and after is None:
                    log.info("%s takes records again: group %s has caught up", name, before.backlog.group)


def _row(topic: Topic, index: int, backlog: Backlog, state: str) -> PartitionBacklog:
    return PartitionBacklog(topic.name, index, backlog.group, backlog.size_bytes, backlog.quota_bytes, state)
