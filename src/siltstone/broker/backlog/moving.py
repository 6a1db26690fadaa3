"""Moving a registered group's offsets past what nobody will read: durable as a commit is, and only ever forward."""

import logging
from collections.abc import Mapping

from siltstone.broker.backlog.progress_mirror import ProgressMirror
from siltstone.broker.groups.groups import Groups
from siltstone.broker.groups.known_groups import KnownGroup
from siltstone.broker.groups.rules.actions import OffsetsMoved
from siltstone.broker.groups.rules.requests import MoveOffsets
from siltstone.broker.topics.registry import Topic
from siltstone.kafka_protocol.error_code import ErrorCode

log = logging.getLogger(__name__)


class GroupMover:
    """``records_skipped``: offsets that groups were moved past since the start, by group."""

    def __init__(self, groups: Groups, mirror: ProgressMirror) -> None:
        self._groups = groups
        self._mirror = mirror
        self.records_skipped: dict[str, int] = {}

    def waited_for(self, topic: Topic) -> list[str]:
        """The registered groups but those that were deleted."""
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
        """Where the group is further already it stays there, and everywhere if a member has come meanwhile. ``starts``:
        where the partitions begin. How many offsets it was moved past; a group that cannot be asked now is asked
        again the next time."""
        before: dict[int, int] = {}

        def made(cell: KnownGroup | None) -> MoveOffsets:
            committed = {} if cell is None else cell.offsets
            for partition in targets:
                standing = committed.get((topic.name, partition))
                before[partition] = starts[partition] if standing is None else standing.offset
            return MoveOffsets(
                {(topic.name, partition): target for partition, target in targets.items()},
                {(topic.name, partition): offset for partition, offset in before.items()},
                spares_members,
            )

        answer = await self._groups.ask_about(group, made)
        if not isinstance(answer, OffsetsMoved):
            assert isinstance(answer, ErrorCode)
            log.info("group %s was not moved forward in topic %s: %s", group, topic.name, answer.name)
            return 0
        return self._told(
            topic, group, before, {at: target for (_, at), target in answer.moved.items()}, starts
        )

    def _told(
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
