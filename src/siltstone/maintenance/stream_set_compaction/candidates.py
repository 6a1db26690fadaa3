"""Chooses the candidates of a round: the stream set objects whose indexes are worth reading, judged from the image
alone.

An object is a candidate when it shares a live stream with another one (T04), holds nothing live, holds live data of a
compacted topic, or is old enough to be force split (T07). Candidates are ordered by the age of their data, the oldest
first: with the newest first, as in AutoMQ, old objects would wait for ever once there are more candidates than a round
takes.
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
    """The candidates of one round. ``has_remaining`` says that there are more than a round takes."""

    objects: tuple[ObjectMetadata, ...]
    has_remaining: bool


def choose_candidates(
    objects: Iterable[ObjectMetadata],
    streams: Mapping[int, StreamMetadata],
    settings: CompactionSettings,
    now_ms: int,
    classes: Classes | None = None,
) -> Candidates:
    """The candidates among the objects. When an id appears twice, the later metadata count."""
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
    """The streams of which the object holds something live. A stream that the image does not know counts as live, so
    that the planner reports the object."""
    return {
        each.stream_id
        for each in held.ranges
        if each.stream_id not in streams or is_live(streams[each.stream_id], each)
    }
