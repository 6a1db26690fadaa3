"""Moves the offsets of registered groups past records that they shall skip: forward only, and as durably as a
commit."""

import logging
from collections.abc import Mapping

from siltstone.broker.backlog.progress_mirror import ProgressMirror
from siltstone.broker.groups.groups import Groups
from siltstone.broker.groups.known_groups import KnownGroup
from siltstone.broker.groups.rules.requests import MoveOffsets, OffsetsMoved
from siltstone.broker.topics.registry import Topic
from siltstone.kafka_protocol.error_code import ErrorCode

log = logging.getLogger(__name__)


class GroupMover:
    """``records_skipped``: how many offsets each group was moved past since the broker started."""

    def __init__(self, groups: Groups, mirror: ProgressMirror) -> None:
        self._groups = groups
        self._mirror = mirror
        self.records_skipped: dict[str, int] = {}

    def waited_for(self, topic: Topic) -> list[str]:
        """Returns the groups that are registered with the topic and for which retention waits."""
        return [group for group in topic.config.retention_groups if self._mirror.is_waited_for(group, topic)]

    async def move(
        self,
        topic: Topic,
        group: str,
        targets: Mapping[int, int],
        starts: Mapping[int, int],
        *,
        spares_members: bool,
    ) -> int:
        """Moves the group to ``targets`` in the partitions where it is before them; with ``spares_members``, only if
        the group has no members. ``starts`` are the partitions' start offsets. Returns how many offsets the group was
        moved past, which is nothing where a transaction may still change the offset: 0 if its coordinator cannot answer
        now; the next check then moves it."""
        before: dict[int, int] = {}

        def made(known: KnownGroup | None) -> MoveOffsets:
            offsets = {} if known is None else known.offsets
            for partition in targets:
                committed = offsets.get((topic.name, partition))
                before[partition] = starts[partition] if committed is None else committed.offset
            unsettled = () if known is None else known.pending.partitions
            return MoveOffsets(
                {
                    (topic.name, partition): target
                    for partition, target in targets.items()
                    if (topic.name, partition) not in unsettled
                },
                {(topic.name, partition): offset for partition, offset in before.items()},
                spares_members,
            )

        answer = await self._groups.ask(group, made)
        if not isinstance(answer, OffsetsMoved):
            assert isinstance(answer, ErrorCode)
            log.info("group %s was not moved forward in topic %s: %s", group, topic.name, answer.name)
            return 0
        return self._recorded(
            topic, group, before, {at: target for (_, at), target in answer.moved.items()}, starts
        )

    def _recorded(
        self,
        topic: Topic,
        group: str,
        before: Mapping[int, int],
        moved: Mapping[int, int],
        starts: Mapping[int, int],
    ) -> int:
        skipped = 0
        for partition, target in moved.items():
            passed = target - max(before[partition], starts[partition])
            log.warning(
                "group %s was moved past %d offsets of %s-%d, to %d",
                group,
                passed,
                topic.name,
                partition,
                target,
            )
            skipped += passed
        self.records_skipped[group] = self.records_skipped.get(group, 0) + skipped
        return skipped
