"""Garbage collections in a ``CompactionWorld``."""

import msgspec

from siltstone.carrying.pipeline.kind import Budget, Kind, Scope
from siltstone.carrying.pipeline.running import RunReport, run
from siltstone.carrying.pipeline.watch import Watch
from siltstone.maintenance.garbage_collection.dead_objects import DeadObjects
from siltstone.maintenance.garbage_collection.kind import Collection
from siltstone.offline.context import MaintenanceContext
from siltstone.offline.settings import (
    CompactionSettings,
    GcSettings,
    Level,
    StreamObjectCompactionSettings,
)
from siltstone.offline.tasks.runner import InProcessRunner, Runner

YOUNG = CompactionSettings(
    split_size_bytes=100_000, memory_bytes=1_000_000, part_bytes_min=1, small_object_bytes=0,
    force_split_age_ms=10**15,
)  # fmt: skip
COPYING = StreamObjectCompactionSettings(
    part_bytes_min=100, copy_bytes_max=10_000, group_bytes_max=10**6, group_objects_max=100
)
ANY_SIZE = GcSettings(target_size_bytes=1)
"""No object is small."""


def collection(
    level: Level = Level.MAJOR, settings: GcSettings = ANY_SIZE, compaction: CompactionSettings = YOUNG
) -> Collection:
    return Collection(level, settings, compaction, COPYING)


def collected(
    context: MaintenanceContext,
    kind: Kind | None = None,
    runner: Runner | None = None,
    budget: Budget | None = None,
    watch: Watch | None = None,
    **scope: object,
) -> RunReport:
    kind = kind or collection()
    return run(
        context,
        kind,
        lambda: runner or InProcessRunner(),
        Scope(**scope),  # type: ignore[arg-type]
        budget or Budget(),
        watch or Watch(kind.name, context.clock),
    )


def all_dead_destroyed(context: MaintenanceContext, **scope: object) -> RunReport:
    return collected(context, DeadObjects(), **scope)  # type: ignore[arg-type]


def settings(**changes: float) -> GcSettings:
    return msgspec.structs.replace(ANY_SIZE, **changes)
