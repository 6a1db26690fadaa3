"""Which stream set objects a round looks at, judged from the image alone, before any index is read.

An object is worth it when it shares a live stream with another one (T04), holds nothing live, holds live data of a
compacted topic, or is old enough to be force split (T07). Oldest data first: newest first, as AutoMQ has it, lets old
objects wait for ever once there are more than one round takes.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

import msgspec

from siltstone.maintenance.settings import CompactionSettings
from siltstone.maintenance.stream_set_compaction.retention_class import Classes, RetentionClass
from siltstone.metadata.entities import ObjectMetadata, StreamMetadata
from siltstone.metadata.streams import is_live
from siltstone.model.objects import ObjectKind, ObjectState


class Candidates(msgspec.Struct, frozen=True):
    """``has_remaining``: more are worth it than one round takes."""

    objects: tuple[ObjectMetadata, ...]
    has_remaining: bool


def choose_candidates(
    objects: Iterable[ObjectMetadata],
    streams: Mapping[int, StreamMetadata],
    settings: CompactionSettings,
    now_ms: int,
    classes: Classes | None = None,
) -> Candidates:
    """Of an object named twice the last metadata counts."""
    sets = {held.object_id: held for held in objects if _is_committed_set(held)}
    live = {object_id: _live_streams(held, streams) for object_id, held in sets.items()}
    compacted = {each for each, held in (classes or {}).items() if held is RetentionClass.COMPACTED}
    holders = Counter(stream_id for stream_ids in live.values() for stream_id in stream_ids)

    def is_worth_it(held: ObjectMetadata) -> bool:
        mine = live[held.object_id]
        return (
            is_old(held, settings, now_ms)
            or not mine
            or not mine.isdisjoint(compacted)
            or any(holders[stream_id] > 1 for stream_id in mine)
        )

    worth = sorted(filter(is_worth_it, sets.values()), key=lambda held: (held.data_time_ms, held.object_id))
    return Candidates(tuple(worth[: settings.sources_max]), len(worth) > settings.sources_max)


def is_old(held: ObjectMetadata, settings: CompactionSettings, now_ms: int) -> bool:
    return now_ms - held.data_time_ms >= settings.force_split_age_ms


def _is_committed_set(held: ObjectMetadata) -> bool:
    return held.state is ObjectState.COMMITTED and held.kind is ObjectKind.STREAM_SET_OBJECT


def _live_streams(held: ObjectMetadata, streams: Mapping[int, StreamMetadata]) -> set[int]:
    """A stream the image does not know counts as live: the planner will say what is wrong with the object."""
    return {
        each.stream_id
        for each in held.ranges
        if each.stream_id not in streams or is_live(streams[each.stream_id], each)
    }
