"""Relocation as a kind of maintenance: a unit is one object of a bucket that is drained."""

from collections.abc import Iterator, Sequence

from siltstone.carrying.engine import Engine
from siltstone.carrying.pipeline.kind import Attempt, Plan, PlannedUnit, Scope, UnitReport
from siltstone.carrying.pipeline.watch import Watch
from siltstone.foundation.portions import portions
from siltstone.maintenance.garbage_collection.planning import in_scope, names_of_topics
from siltstone.maintenance.relocation.carrying_out import moves
from siltstone.maintenance.relocation.planning import MovedObject, objects_to_move
from siltstone.metadata.entities import ObjectMetadata
from siltstone.model.limits import GIB
from siltstone.offline.context import MaintenanceContext
from siltstone.offline.settings import StreamObjectCompactionSettings

JOB_KIND = "relocation"

OBJECTS_MAX = 10_000
"""A plan has at most this many objects; the next plan has the others."""

WAVE_OBJECTS_MAX = 100
WAVE_BYTES_MAX = 4 * GIB
"""Waves are this small so that the indexes fit into memory and copies are committed soon."""


class Relocation:
    """Plans and carries out relocation, with the time limit and the lease of stream object compaction."""

    name = JOB_KIND

    def __init__(
        self,
        settings: StreamObjectCompactionSettings,
        *,
        objects_max: int = OBJECTS_MAX,
        wave_objects_max: int = WAVE_OBJECTS_MAX,
    ) -> None:
        """``objects_max``: of a plan; the next plan has the others. ``wave_objects_max``: of a wave."""
        self._settings = settings
        self._objects_max = objects_max
        self._wave_objects_max = wave_objects_max

    @property
    def lease_ms(self) -> int:
        return self._settings.lease_ms

    def plan(self, context: MaintenanceContext, scope: Scope, watch: Watch) -> Plan:
        watch.check()
        image = context.metadata.refresh()
        topics = names_of_topics(image, scope)
        found = [each for each in objects_to_move(image) if in_scope(each.metadata, topics, scope)]
        moved = {each.name: each for each in found[: self._objects_max]}
        return Plan(
            kind=JOB_KIND,
            units=[_unit(each) for each in moved.values()],
            has_remaining=len(found) > self._objects_max,
            work=moved,
        )

    def carry_out(self, plan: Plan, names: Sequence[str], attempt: Attempt) -> Iterator[UnitReport]:
        """Carries the copies out wave by wave. No further wave is started after the time limit of the watch."""
        engine = Engine(attempt, moves(attempt, self._settings))
        wanted: list[MovedObject] = [plan.work[name] for name in names]
        for wave in portions(
            wanted,
            self._wave_objects_max,
            lambda each: (each.metadata.size_bytes,),
            (WAVE_BYTES_MAX,),
        ):
            if not attempt.watch.may_begin():
                return
            yield from engine.carry_out(wave)


def _unit(moved: MovedObject) -> PlannedUnit:
    metadata: ObjectMetadata = moved.metadata
    streams = {held.stream_id for held in metadata.ranges}
    return PlannedUnit(
        name=moved.name,
        reason=f"bucket {moved.bucket_id} is being drained",
        stream_id=streams.pop() if len(streams) == 1 else None,
        bytes_read=metadata.size_bytes,
        bytes_written=metadata.size_bytes,
        objects_before=1,
        objects_after=1,
    )
