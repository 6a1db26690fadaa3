"""Lists all kinds of maintenance, in the order that frees space first.

The sweep deletes what is due. Retention makes bytes dead, so it comes before ``dead-objects``; neither reads an object.
Then come the kinds that copy: table export, before key compaction removes records that the export has not read; minor
collections (few live bytes), stream set object compaction, key compaction, stream object compaction, relocation of
objects that are left in a bucket that is drained, copies that objects lack, and last major collections, which are worth
doing once a day.
"""

from collections.abc import Iterable, Sequence

from siltstone.carrying.pipeline.kind import Kind
from siltstone.maintenance.copies.kind import CopyRepair
from siltstone.maintenance.garbage_collection.dead_objects import DeadObjects
from siltstone.maintenance.garbage_collection.kind import Collection
from siltstone.maintenance.key_compaction.kind import KeyCompaction
from siltstone.maintenance.relocation.kind import Relocation
from siltstone.maintenance.retention.groups import bound_of
from siltstone.maintenance.retention.kind import Retention
from siltstone.maintenance.retention.planning import BoundOf
from siltstone.maintenance.stream_object_compaction.kind import StreamObjectCompaction
from siltstone.maintenance.stream_set_compaction.kind import StreamSetObjectCompaction
from siltstone.maintenance.sweep.kind import Sweep
from siltstone.metadata.image import ImageView
from siltstone.model.errors import InvalidRequest
from siltstone.offline.pressure import COPYING
from siltstone.offline.settings import KindSettings, Level
from siltstone.offline.topic_streams import TopicStream
from siltstone.tables.kind import TableExport
from siltstone.tables.progress import bound_of as exported_bound


def all_kinds(settings: KindSettings) -> tuple[Kind, ...]:
    maintenance = settings.maintenance
    return (
        Sweep(settings.grace_period_ms),
        Retention(_bounds),
        DeadObjects(maintenance.gc.lease_ms),
        TableExport(settings.tables),
        _collection(Level.MINOR, settings),
        StreamSetObjectCompaction(settings.compaction),
        KeyCompaction(maintenance.key_compaction),
        StreamObjectCompaction(maintenance.so_compaction),
        Relocation(maintenance.so_compaction),
        CopyRepair(maintenance.so_compaction),
        _collection(Level.MAJOR, settings),
    )


def _bounds(image: ImageView) -> BoundOf:
    """Returns what limits retention besides time and size: the groups that have not read the records, and the tables
    that do not have them yet."""
    of_groups, of_tables = bound_of(image), exported_bound(image)

    def bound(stream: TopicStream) -> tuple[int, str] | None:
        found = (of_groups(stream), of_tables(stream))
        return min((each for each in found if each is not None), default=None)

    return bound


def _collection(level: Level, settings: KindSettings) -> Collection:
    maintenance = settings.maintenance
    return Collection(level, maintenance.gc, settings.compaction, maintenance.so_compaction)


KIND_NAMES = (
    "sweep",
    "retention",
    "dead-objects",
    "table-export",
    "minor-gc",
    "sso-compaction",
    "key-compaction",
    "so-compaction",
    "relocation",
    "copies",
    "major-gc",
)

FREEING = frozenset(KIND_NAMES) - COPYING
"""Kinds that copy nothing. In a service they run in a thread of their own, so that no long copy delays the freeing of
space (GC14)."""


def chosen_kinds(settings: KindSettings, names: Iterable[str] = ()) -> Sequence[Kind]:
    """Returns the kinds of these names, or all kinds when no name is given, in the order of ``KIND_NAMES``. Raises
    InvalidRequest."""
    wanted = frozenset(names) or frozenset(KIND_NAMES)
    if unknown := sorted(wanted - frozenset(KIND_NAMES)):
        raise InvalidRequest(f"there is no kind named {unknown[0]}; the kinds are {', '.join(KIND_NAMES)}")
    # Why all kinds are made to choose one: a kind is a name and its settings, so this costs nothing, and the order of
    # the kinds stands in one place.
    return [kind for kind in all_kinds(settings) if kind.name in wanted]
