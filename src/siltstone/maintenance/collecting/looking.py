"""Finding the candidates: the image says whose index is worth reading, the indexes say who is one."""

import msgspec

from siltstone.maintenance.collecting.choosing import (
    Candidate,
    expected_ratio,
    is_worth_a_look,
    judged,
    ordered,
)
from siltstone.maintenance.collecting.live_bytes import estimated, live_bytes
from siltstone.maintenance.collecting.scoped import in_scope, names_of_topics
from siltstone.maintenance.context import MaintenanceContext
from siltstone.maintenance.indexes import read_indexes
from siltstone.maintenance.pipeline.kind import Unplanned
from siltstone.maintenance.pipeline.scope import Scope
from siltstone.maintenance.pipeline.watch import Watch
from siltstone.maintenance.planning.sources import SourceUnusable
from siltstone.metadata.entities import ObjectMetadata
from siltstone.metadata.image import MetadataImage
from siltstone.model.objects import ObjectState


class Looked(msgspec.Struct, frozen=True):
    """``candidates``: the smallest ratio first. ``has_remaining``: there are more than were looked into."""

    candidates: list[Candidate]
    unplanned: list[Unplanned]
    has_remaining: bool


class Look(msgspec.Struct, frozen=True):
    threshold: float
    target_size_bytes: int
    objects_max: int

    def at(self, context: MaintenanceContext, image: MetadataImage, scope: Scope, watch: Watch) -> Looked:
        found, unplanned = self._worth_a_look(image, scope)
        few = found[: self.objects_max]
        sources, left_out = read_indexes(context.buckets, few, watch.steps("read indexes"))
        unplanned += (Unplanned(object_name(each.object_id), each.reason) for each in left_out)
        candidates: list[Candidate] = []
        for source in sources:
            try:
                live = live_bytes(source, image.streams)
            except SourceUnusable as contradiction:
                unplanned.append(Unplanned(object_name(source.metadata.object_id), str(contradiction)))
                continue
            if candidate := judged(source, live, self.threshold, self.target_size_bytes):
                candidates.append(candidate)
        return Looked(ordered(candidates), unplanned, len(found) > len(few))

    def _worth_a_look(
        self, image: MetadataImage, scope: Scope
    ) -> tuple[list[ObjectMetadata], list[Unplanned]]:
        """The smallest expected ratio first. What is dead altogether is left to ``dead-objects``."""
        topics = names_of_topics(image, scope)
        found: list[tuple[float, ObjectMetadata]] = []
        unplanned: list[Unplanned] = []
        for metadata in image.objects.values():
            if metadata.state is not ObjectState.COMMITTED or not in_scope(metadata, topics, scope):
                continue
            try:
                estimate = estimated(metadata, image.streams)
            except SourceUnusable as contradiction:
                unplanned.append(Unplanned(object_name(metadata.object_id), str(contradiction)))
                continue
            is_alive = estimate.live_bytes > 0
            if is_alive and is_worth_a_look(metadata.kind, estimate, self.threshold, self.target_size_bytes):
                found.append((expected_ratio(metadata, estimate, self.target_size_bytes), metadata))
        found.sort(key=lambda each: (each[0], each[1].data_time_ms, each[1].object_id))
        return [metadata for _, metadata in found], unplanned


def object_name(object_id: int) -> str:
    return f"object {object_id}"
