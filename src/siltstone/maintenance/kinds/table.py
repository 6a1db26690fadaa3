"""All kinds of maintenance, in the order that frees space first.

The sweep deletes at once what is due. Retention makes bytes dead and reads little, so it comes before the deletion of
dead objects, which reads nothing. Then what copies: few live bytes first, all stream set objects, keys, small stream
objects, and last what is worth a rewrite only once a day.
"""

from collections.abc import Iterable, Sequence

from siltstone.maintenance.collecting.collection import Collection
from siltstone.maintenance.collecting.dead_objects import DeadObjects
from siltstone.maintenance.collecting.settings import Level
from siltstone.maintenance.group_bound import bound_of
from siltstone.maintenance.key_compaction.kind import KeyCompaction
from siltstone.maintenance.kinds.settings import KindSettings
from siltstone.maintenance.kinds.stream_set_objects import StreamSetObjectCompaction
from siltstone.maintenance.kinds.sweeping import Sweep
from siltstone.maintenance.kinds.under_pressure import UnderPressure, measuring
from siltstone.maintenance.pipeline.kind import Kind
from siltstone.maintenance.pressure import COPYING
from siltstone.maintenance.retention.kind import Retention
from siltstone.maintenance.stream_object_compaction.kind import StreamObjectCompaction
from siltstone.model.errors import InvalidRequest
from siltstone.runtime.disks import SystemDisks


def all_kinds(settings: KindSettings) -> tuple[Kind, ...]:
    maintenance = settings.maintenance
    return (
        Sweep(settings.grace_period_ms),
        Retention(bound_of),
        DeadObjects(maintenance.gc.lease_ms),
        *_waiting_for_room(
            settings,
            _collection(Level.MINOR, settings),
            StreamSetObjectCompaction(settings.compaction),
            KeyCompaction(maintenance.key_compaction),
            StreamObjectCompaction(maintenance.so_compaction),
            _collection(Level.MAJOR, settings),
        ),
    )


def _collection(level: Level, settings: KindSettings) -> Collection:
    maintenance = settings.maintenance
    measured = measuring(SystemDisks(), maintenance.gc.quota_bytes)
    return Collection(
        level,
        maintenance.gc,
        settings.compaction,
        maintenance.so_compaction,
        room_bytes=lambda context: measured(context).room_bytes,
    )


def _waiting_for_room(settings: KindSettings, *kinds: Kind) -> tuple[Kind, ...]:
    """What copies."""
    measured = measuring(SystemDisks(), settings.maintenance.gc.quota_bytes)
    return tuple(UnderPressure(kind, measured) for kind in kinds)


KIND_NAMES: tuple[str, ...] = tuple(kind.name for kind in all_kinds(KindSettings()))

FREEING = frozenset(KIND_NAMES) - COPYING
"""Kinds that copy nothing. In a service they have a thread of their own: no long run keeps space from being freed
(GC14)."""


def chosen_kinds(settings: KindSettings, names: Iterable[str] = ()) -> Sequence[Kind]:
    """Those named, or all, in their order. Raises InvalidRequest."""
    wanted = frozenset(names) or frozenset(KIND_NAMES)
    if unknown := sorted(wanted - frozenset(KIND_NAMES)):
        raise InvalidRequest(f"there is no kind {unknown[0]}; there are {', '.join(KIND_NAMES)}")
    return [kind for kind in all_kinds(settings) if kind.name in wanted]
