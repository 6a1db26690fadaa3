"""Makes the kinds of maintenance whose rows are in ``offline.kind_rows``, each when it is chosen."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from siltstone.carrying.pipeline.kind import Kind
from siltstone.maintenance.copies.kind import CopyRepair
from siltstone.maintenance.erasure.kind import ErasureKind
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
from siltstone.offline.kind_rows import KIND_NAMES
from siltstone.offline.settings import KindSettings, Level
from siltstone.offline.topic_streams import TopicStream
from siltstone.tables.kind import TableExport
from siltstone.tables.progress import bound_of as exported_bound


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


MAKERS: Mapping[str, Callable[[KindSettings], Kind]] = {
    "sweep": lambda settings: Sweep(settings.grace_period_ms),
    "retention": lambda _: Retention(_bounds),
    "dead-objects": lambda settings: DeadObjects(settings.maintenance.gc.lease_ms),
    "erasure": lambda settings: ErasureKind(settings.maintenance.key_compaction),
    "table-export": lambda settings: TableExport(settings.tables, grace_period_ms=settings.grace_period_ms),
    "minor-gc": lambda settings: _collection(Level.MINOR, settings),
    "sso-compaction": lambda settings: StreamSetObjectCompaction(settings.compaction),
    "key-compaction": lambda settings: KeyCompaction(settings.maintenance.key_compaction),
    "so-compaction": lambda settings: StreamObjectCompaction(settings.maintenance.so_compaction),
    "relocation": lambda settings: Relocation(settings.maintenance.so_compaction),
    "copies": lambda settings: CopyRepair(settings.maintenance.so_compaction),
    "major-gc": lambda settings: _collection(Level.MAJOR, settings),
}


def chosen_kinds(
    settings: KindSettings,
    names: Iterable[str] = (),
    makers: Mapping[str, Callable[[KindSettings], Kind]] = MAKERS,
) -> Sequence[Kind]:
    """Returns the kinds of these names, or all kinds when no name is given, in the order of ``KIND_NAMES``. Raises
    InvalidRequest."""
    wanted = frozenset(names) or frozenset(KIND_NAMES)
    if unknown := sorted(wanted - frozenset(KIND_NAMES)):
        raise InvalidRequest(f"there is no kind named {unknown[0]}; the kinds are {', '.join(KIND_NAMES)}")
    return [makers[name](settings) for name in KIND_NAMES if name in wanted]
