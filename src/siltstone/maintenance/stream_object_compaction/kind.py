"""Stream object compaction as a kind of maintenance: a unit is a merge group, neighbours that become one object."""

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from siltstone.carrying.engine import Engine
from siltstone.carrying.pipeline.kind import Attempt, Plan, PlannedUnit, Scope, UnitReport, Unplanned
from siltstone.carrying.pipeline.watch import Watch
from siltstone.foundation.portions import portions
from siltstone.foundation.quantity_words import counted, size_words
from siltstone.maintenance.stream_object_compaction.carrying_out import merges
from siltstone.maintenance.stream_object_compaction.planning import MergeGroup, choose_groups
from siltstone.metadata.buckets import bucket_list_of
from siltstone.offline.context import MaintenanceContext
from siltstone.offline.settings import Level, StreamObjectCompactionSettings
from siltstone.offline.topic_streams import TopicStream, topic_streams

JOB_KIND = "so-compaction"

GROUPS_PER_WAVE = 100
"""A wave has at most this many merge groups. Most groups are small, and starting a Spark job for each would cost a
tenth of a second."""

_REASONS = {
    Level.MINOR: "{objects} are contiguous and small: {size} together",
    Level.MAJOR: "{objects} are contiguous, and the largest holds {share:.0%} of their {size}",
}


class StreamObjectCompaction:
    """The kind of maintenance."""

    name = JOB_KIND

    def __init__(
        self, settings: StreamObjectCompactionSettings, *, groups_per_wave: int = GROUPS_PER_WAVE
    ) -> None:
        self._settings = settings
        self._groups_per_wave = groups_per_wave

    @property
    def lease_ms(self) -> int:
        return self._settings.lease_ms

    def plan(self, context: MaintenanceContext, scope: Scope, watch: Watch) -> Plan:
        """Makes the plan from the image alone. The indexes of a merge group are read when it is carried out."""
        watch.check()
        image = context.metadata.refresh()
        settings = self._settings.forced if scope.is_forced else self._settings
        topics = topic_streams(image)
        streams = (
            (stream, _is_compacted(topics, stream.stream_id))
            for stream in image.streams.values()
            if scope.includes(_topic_name(topics, stream.stream_id))
        )
        choice = choose_groups(streams, image.objects, settings, context.now_ms())
        states = {each.id: each.state for each in bucket_list_of(image).buckets if not each.is_writable}
        groups = [group for group in choice.groups if group.bucket_id not in states]
        stay = [group for group in choice.groups if group.bucket_id in states]
        return Plan(
            kind=JOB_KIND,
            units=[_unit(group, topics.get(group.stream_id), settings) for group in groups],
            unplanned=[
                *(Unplanned(f"stream-{each.stream_id}", each.reason) for each in choice.left),
                *(
                    Unplanned(group.name, f"bucket {group.bucket_id} is {states[group.bucket_id].value}")
                    for group in stay
                ),
            ],
            has_remaining=choice.has_remaining,
            work=_Work({group.name: group for group in groups}, settings),
        )

    def carry_out(self, plan: Plan, names: Sequence[str], attempt: Attempt) -> Iterator[UnitReport]:
        """Carries the merge groups out wave by wave. No further wave is started after the time limit of the watch."""
        work: _Work = plan.work
        engine = Engine(attempt, merges(attempt, work.settings))
        wanted = [work.groups[name] for name in names]
        for groups in waves(wanted, work.settings, self._groups_per_wave):
            if not attempt.watch.may_begin():
                return
            yield from engine.carry_out(groups)


class _Work(msgspec.Struct, frozen=True):
    """What a plan needs to be carried out: the merge groups by the names of their units, and the settings it was made
    with."""

    groups: dict[str, MergeGroup]
    settings: StreamObjectCompactionSettings


def waves(
    groups: Sequence[MergeGroup],
    settings: StreamObjectCompactionSettings,
    groups_max: int = GROUPS_PER_WAVE,
) -> Iterator[Sequence[MergeGroup]]:
    """Yields the merge groups in waves. A wave has at most the bytes and the objects of the largest group there may be,
    so that its indexes fit into memory and copies are soon committed."""
    return portions(
        groups,
        groups_max,
        lambda group: (group.size_bytes, len(group.members)),
        (settings.group_bytes_max, settings.group_objects_max),
    )


def _is_compacted(topics: Mapping[int, TopicStream], stream_id: int) -> bool:
    """Returns whether the stream's topic is compacted by key."""
    stream = topics.get(stream_id)
    return stream is not None and stream.is_compacted


def _topic_name(topics: Mapping[int, TopicStream], stream_id: int) -> str | None:
    stream = topics.get(stream_id)
    return None if stream is None else stream.topic.name


def _unit(
    group: MergeGroup, stream: TopicStream | None, settings: StreamObjectCompactionSettings
) -> PlannedUnit:
    """Returns the planned unit of a merge group. Bytes that are copied inside the store count as neither read nor
    written."""
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
