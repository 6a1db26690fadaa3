"""Makes a store in memory with three buckets, under replication with two copies."""

from collections.abc import Iterator
from contextlib import contextmanager

from siltstone.carrying.pipeline.kind import Budget, Scope
from siltstone.carrying.pipeline.running import RunReport, run
from siltstone.carrying.pipeline.watch import Watch
from siltstone.maintenance.copies.kind import CopyRepair
from siltstone.metadata.buckets import SetWriteStrategy
from siltstone.metadata.entities import ObjectMetadata
from siltstone.model.buckets import StrategyType, WriteStrategy
from siltstone.model.objects import object_key
from siltstone.offline.settings import StreamObjectCompactionSettings
from siltstone.offline.tasks.runner import InProcessRunner, Runner
from support.engine.replacing import replace_object
from support.maintenance.compaction_world import CompactionWorld
from support.maintenance.opened_stores import stores_opened
from support.maintenance.spread import Spread

SETTINGS = StreamObjectCompactionSettings()


class CopiedWorld(CompactionWorld):
    """Objects are uploaded into bucket 0 alone, as if the others had been out."""

    def __init__(self) -> None:
        super().__init__(spread=Spread(3))
        self.set_strategy(2)

    def set_strategy(self, copies: int, copies_min: int = 0) -> None:
        strategy = WriteStrategy(StrategyType.REPLICATION, (), copies, copies_min)
        self.metadata.execute(SetWriteStrategy(strategy))

    def any_bucket(self) -> int:
        return 0

    def found(self, object_id: int) -> ObjectMetadata:
        return self.metadata.refresh().objects[object_id]

    def places(self, object_id: int) -> tuple[int, ...]:
        return self.found(object_id).bucket_ids

    def copy(self, object_id: int, bucket_id: int) -> bytes:
        """Returns the bytes of an object in a bucket."""
        store, key = self.stores[bucket_id].store, object_key(object_id)
        return store.get_range(key, 0, store.head(key).size_bytes)

    def keys_of(self, bucket_id: int) -> set[str]:
        return {each.key for each in self.stores[bucket_id].store.list()}

    def lose(self, object_id: int, bucket_id: int) -> None:
        self.stores[bucket_id].store.delete([object_key(object_id)])

    def flip(self, object_id: int, bucket_id: int, position: int) -> None:
        raw = bytearray(self.copy(object_id, bucket_id))
        raw[position] ^= 0xFF
        replace_object(self.stores[bucket_id].store, object_key(object_id), [raw])

    def repaired(self, *, runner: Runner | None = None, is_forced: bool = False, **limits: int) -> RunReport:
        """Runs the kind once."""
        kind = CopyRepair(SETTINGS, **limits)
        used = runner or InProcessRunner()
        scope = Scope(is_forced=is_forced)
        return run(self.context, kind, lambda: used, scope, Budget(), Watch(kind.name, self.clock))


@contextmanager
def copied_world() -> Iterator[CopiedWorld]:
    """Makes the world. Tasks open its buckets by their URLs."""
    world = CopiedWorld()
    with stores_opened(*world.stores.values()):
        yield world
