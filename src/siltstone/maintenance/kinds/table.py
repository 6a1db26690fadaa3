"""All kinds of maintenance, in the order that frees space first.

The sweep deletes at once what is due. Retention makes bytes dead and reads little, so it comes before the deletion of
dead objects, which reads nothing. Then what copies: few live bytes first, all stream set objects, keys, small stream
objects, and last what is worth a rewrite only once a day.
"""

from collections.abc import Iterable, Sequence

from siltstone.maintenance.collecting.dead_objects import DeadObjects
from siltstone.maintenance.key_compaction.kind import KeyCompaction
from siltstone.maintenance.kinds.settings import KindSettings
from siltstone.maintenance.kinds.stream_set_objects import StreamSetObjectCompaction
from siltstone.maintenance.kinds.sweeping import Sweep
from siltstone.maintenance.pipeline.kind import Kind
from siltstone.maintenance.stream_object_compaction.kind import StreamObjectCompaction
from siltstone.model.errors import InvalidRequest


def all_kinds(settings: KindSettings) -> tuple[Kind, ...]:
    maintenance = settings.maintenance
    return (
        Sweep(settings.grace_period_ms),
        DeadObjects(maintenance.gc.lease_ms),
        StreamSetObjectCompaction(settings.compaction),
        KeyCompaction(maintenance.key_compaction),
        StreamObjectCompaction(maintenance.so_compaction),
    )


KIND_NAMES: tuple[str, ...] = tuple(kind.name for kind in all_kinds(KindSettings()))

FREEING = frozenset({"sweep", "retention", "dead-objects"})
"""Kinds that copy nothing. In a service they have a thread of their own: no long run keeps space from being freed
(GC14)."""


def chosen_kinds(settings: KindSettings, names: Iterable[str] = ()) -> Sequence[Kind]:
    """Those named, or all, in their order. Raises InvalidRequest."""
    wanted = frozenset(names) or frozenset(KIND_NAMES)
    if unknown := sorted(wanted - frozenset(KIND_NAMES)):
        raise InvalidRequest(f"there is no kind {unknown[0]}; there are {', '.join(KIND_NAMES)}")
    return [kind for kind in all_kinds(settings) if kind.name in wanted]
