"""Finds the candidates of a collection in two steps, and describes the units made of them.

First live bytes are estimated from the image. Then the indexes of the objects with the smallest expected ratios are
read, and their exact live bytes computed. ``round_unit`` and ``group_unit`` give each unit its name, reason and cost.
"""

from collections.abc import Sequence

import msgspec

from siltstone.carrying.pipeline.kind import PlannedUnit, Scope, Unplanned, object_name
from siltstone.carrying.pipeline.watch import Watch
from siltstone.foundation.quantity_words import counted, size_words
from siltstone.maintenance.garbage_collection.planning import (
    CollectionCandidate,
    Round,
    estimated,
    expected_ratio,
    in_scope,
    is_worth_a_look,
    judged,
    live_bytes,
    names_of_topics,
    ordered,
)
from siltstone.maintenance.stream_object_compaction.planning import MergeGroup
from siltstone.metadata.entities import ObjectMetadata
from siltstone.metadata.image import MetadataImage
from siltstone.model.objects import ObjectState
from siltstone.offline.blocks.columns import SourceUnusable
from siltstone.offline.blocks.indexes import read_indexes
from siltstone.offline.context import MaintenanceContext
from siltstone.offline.topic_streams import TopicStream


class Looked(msgspec.Struct, frozen=True):
    """``candidates`` are in order of their ratio, the smallest first. ``has_remaining`` says that more objects are
    likely candidates than were read."""

    candidates: list[CollectionCandidate]
    unplanned: list[Unplanned]
    has_remaining: bool


class Look(msgspec.Struct, frozen=True):
    """How candidates are looked for: at most ``objects_max`` indexes are read."""

    threshold: float
    target_size_bytes: int
    objects_max: int

    def at(self, context: MaintenanceContext, image: MetadataImage, scope: Scope, watch: Watch) -> Looked:
        found, unplanned = self._worth_a_look(image, scope)
        few = found[: self.objects_max]
        sources, left_out = read_indexes(context.buckets, few, watch.steps("read indexes"))
        unplanned += (Unplanned(object_name(each.object_id), each.reason, True) for each in left_out)
        candidates: list[CollectionCandidate] = []
        for source in sources:
            try:
                live = live_bytes(source, image.streams)
            except SourceUnusable as contradiction:
                unplanned.append(Unplanned(object_name(source.metadata.object_id), str(contradiction), True))
                continue
            if candidate := judged(source, live, self.threshold, self.target_size_bytes):
                candidates.append(candidate)
        return Looked(ordered(candidates), unplanned, len(found) > len(few))

    def _worth_a_look(
        self, image: MetadataImage, scope: Scope
    ) -> tuple[list[ObjectMetadata], list[Unplanned]]:
        """Returns the objects whose index is worth reading, the smallest expected ratio first. Objects that are dead
        altogether are left to the kind ``dead-objects``."""
        topics = names_of_topics(image, scope)
        found: list[tuple[float, ObjectMetadata]] = []
        unplanned: list[Unplanned] = []
        for metadata in image.objects.values():
            if metadata.state is not ObjectState.COMMITTED or not in_scope(metadata, topics, scope):
                continue
            try:
                estimate = estimated(metadata, image.streams)
            except SourceUnusable as contradiction:
                unplanned.append(Unplanned(object_name(metadata.object_id), str(contradiction), True))
                continue
            is_alive = estimate.live_bytes > 0
            if is_alive and is_worth_a_look(metadata.kind, estimate, self.threshold, self.target_size_bytes):
                found.append((expected_ratio(metadata, estimate, self.target_size_bytes), metadata))
        found.sort(key=lambda each: (each[0], each[1].data_time_ms, each[1].object_id))
        return [metadata for _, metadata in found], unplanned


def round_unit(members: Round, object_count: int, *, is_alone: bool) -> PlannedUnit:
    """Returns the planned unit of a round. ``is_alone`` says that it is one object that failed before; the unit then
    has the object's name, under which it was set aside."""
    first = members[0].object_id
    live = _live(members)
    return PlannedUnit(
        name=object_name(first) if is_alone else f"objects from {first}",
        reason=_reason(members, "stream set object"),
        bytes_read=live,
        bytes_written=live,
        objects_before=len(members),
        objects_after=object_count,
        detail=_detail(members),
    )


def group_unit(group: MergeGroup, candidate: CollectionCandidate, stream: TopicStream | None) -> PlannedUnit:
    """Returns the planned unit of a stream object; ``stream`` is None when its stream belongs to no topic."""
    return PlannedUnit(
        name=group.name,
        reason=_reason((candidate,), "stream object"),
        topic=None if stream is None else stream.topic.name,
        partition=None if stream is None else stream.partition,
        stream_id=group.stream_id,
        bytes_read=candidate.live.live_bytes,
        bytes_written=candidate.live.live_bytes,
        objects_before=1,
        objects_after=1,
        detail=_detail((candidate,)),
    )


def _reason(members: Sequence[CollectionCandidate], noun: str) -> str:
    live, dead = _live(members), _dead(members)
    if not dead:
        return f"{counted(len(members), f'small {noun}')}, all live, become one: nothing will be freed"
    share = live / max(1, live + dead)
    return f"{counted(len(members), noun)}, {share:.0%} live: {size_words(dead)} will be freed"


def _detail(members: Sequence[CollectionCandidate]) -> dict[str, str]:
    live, dead = _live(members), _dead(members)
    return {
        "live ratio": f"{members[0].ratio:.4f}" + ("" if members[0].is_sparse else " of the target size"),
        "written for each byte freed": f"{live / dead:.2f}" if dead else "nothing is freed",
    }


def _live(members: Sequence[CollectionCandidate]) -> int:
    return sum(each.live.live_bytes for each in members)


def _dead(members: Sequence[CollectionCandidate]) -> int:
    return sum(each.live.dead_bytes for each in members)
