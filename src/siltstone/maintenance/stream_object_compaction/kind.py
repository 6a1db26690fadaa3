"""Stream object compaction as a kind of maintenance: a unit is a group of neighbours that becomes one object."""

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from siltstone.foundation.portions import portions
from siltstone.foundation.quantity_words import counted, size_words
from siltstone.maintenance.context import MaintenanceContext
from siltstone.maintenance.pipeline.kind import PlannedUnit, StartRunner, UnitReport, Unplanned
from siltstone.maintenance.pipeline.scope import Scope
from siltstone.maintenance.pipeline.watch import Watch
from siltstone.maintenance.planning.stream_objects.choice import choose_groups
from siltstone.maintenance.planning.stream_objects.groups import Group, Level
from siltstone.maintenance.planning.stream_objects.settings import StreamObjectCompactionSettings
from siltstone.maintenance.stream_object_compaction.wave import Wave
from siltstone.maintenance.topic_streams import TopicStream, topic_streams

JOB_KIND = "so-compaction"

GROUPS_PER_WAVE = 100
"""Groups that share one run of tasks: most are small, and a run of Spark's costs a tenth of a second by itself."""

_REASONS = {
    Level.MINOR: "{objects} touch and are small: {size} together",
    Level.MAJOR: "{objects} touch, and the largest holds {share:.0%} of their {size}",
}


class StreamObjectCompaction:
    def __init__(self, settings: StreamObjectCompactionSettings) -> None:
        self._settings = settings

    @property
    def name(self) -> str:
        return JOB_KIND

    @property
    def lease_ms(self) -> int:
        return self._settings.lease_ms

    def plan(self, context: MaintenanceContext, scope: Scope, watch: Watch) -> "StreamObjectPlan":
        """From the image alone: indexes are read when a group's turn comes."""
        watch.check()
        image = context.metadata.refresh()
        settings = self._settings.forced if scope.is_forced else self._settings
        topics = topic_streams(image)
        streams = (
            (stream, _is_compacted(topics, stream.stream_id))
            for stream in image.streams.values()
            if scope.includes(_topic_name(topics, stream.stream_id))
        )
        choice = choose_groups(streams, image.objects, settings, context.clock.now_ms())
        return StreamObjectPlan(
            groups=choice.groups,
            units=tuple(_unit(group, topics.get(group.stream_id), settings) for group in choice.groups),
            unplanned=tuple(Unplanned(f"stream-{each.stream_id}", each.reason) for each in choice.left),
            has_remaining=choice.has_remaining,
            settings=settings,
        )


class StreamObjectPlan(msgspec.Struct, frozen=True, kw_only=True):
    groups: tuple[Group, ...]
    units: Sequence[PlannedUnit]
    unplanned: Sequence[Unplanned]
    has_remaining: bool
    settings: StreamObjectCompactionSettings

    @property
    def kind(self) -> str:
        return JOB_KIND

    def carry_out(
        self,
        context: MaintenanceContext,
        start_runner: StartRunner,
        job_id: int,
        names: Sequence[str],
        watch: Watch,
    ) -> Iterator[UnitReport]:
        """Wave by wave. When the watch's time is over no further one is begun."""
        by_name = {group.name: group for group in self.groups}
        wave = Wave(context, start_runner, self.settings, job_id, watch)
        for number, groups in enumerate(self._waves([by_name[name] for name in names])):
            watch.check()
            if number and watch.is_over:
                return
            yield from wave.carry_out(groups)

    def _waves(self, groups: Sequence[Group]) -> Iterator[Sequence[Group]]:
        """Few enough that what was copied is soon committed, and that their indexes fit into memory: together no more
        than the largest group may have."""
        return portions(
            groups,
            GROUPS_PER_WAVE,
            lambda group: (group.size_bytes, len(group.members)),
            (self.settings.group_bytes_max, self.settings.group_objects_max),
        )


def _is_compacted(topics: Mapping[int, TopicStream], stream_id: int) -> bool:
    """Whether the stream's topic is compacted by key."""
    stream = topics.get(stream_id)
    return stream is not None and stream.is_compacted


def _topic_name(topics: Mapping[int, TopicStream], stream_id: int) -> str | None:
    stream = topics.get(stream_id)
    return None if stream is None else stream.topic.name


def _unit(group: Group, stream: TopicStream | None, settings: StreamObjectCompactionSettings) -> PlannedUnit:
    """Bytes read and written are those that pass through a process; the others stay inside the store."""
    small_bytes = group.small_bytes(settings.part_bytes_min)
    reason = _REASONS[group.level].format(
        objects=counted(len(group.members), "stream object"),
        size=size_words(group.size_bytes),
        share=group.largest_bytes / group.size_bytes,
    )
    return PlannedUnit(
        name=group.name,
        reason=reason,
        topic=None if stream is None else stream.topic.name,
        partition=None if stream is None else stream.partition,
        stream_id=group.stream_id,
        bytes_read=small_bytes,
        bytes_written=small_bytes,
        objects_before=len(group.members),
        objects_after=1,
        detail={"level": group.level.value, "copied": size_words(group.size_bytes - small_bytes)},
    )
