"""A store in memory with two buckets, the first of which is drained."""

from collections.abc import Iterator
from contextlib import contextmanager

from siltstone.carrying.pipeline.kind import Budget, Scope
from siltstone.carrying.pipeline.running import RunReport, run
from siltstone.carrying.pipeline.watch import Watch
from siltstone.maintenance.relocation.kind import Relocation
from siltstone.metadata.buckets import AddBucket, RegisterBuckets, SetBucketState
from siltstone.model.buckets import BucketState
from siltstone.model.objects import ObjectState, object_key
from siltstone.object_store.buckets import Buckets
from siltstone.object_store.memory import MemoryStore
from siltstone.offline.context import MaintenanceContext
from siltstone.offline.settings import StreamObjectCompactionSettings
from siltstone.offline.tasks.runner import InProcessRunner, Runner
from support.engine.faulty_store import FaultyStore
from support.maintenance.compaction_world import CompactionWorld
from support.maintenance.opened_stores import stores_opened

SETTINGS = StreamObjectCompactionSettings()


class DrainedWorld(CompactionWorld):
    """``store``: bucket 0, in which all objects lie. ``second``: bucket 1."""

    def __init__(self) -> None:
        super().__init__()
        self.second = FaultyStore(MemoryStore(self.clock, f"{self.store.url.partition(':')[2]}-second"))
        self.context = MaintenanceContext(
            self.metadata, Buckets({0: self.store, 1: self.second}), self.clock, self.context.rng
        )
        self.metadata.execute(RegisterBuckets({0: self.store.url}, 0))
        self.metadata.execute(AddBucket(self.second.url))
        self.set_state(1, BucketState.WRITABLE)

    def set_state(self, bucket_id: int, state: BucketState) -> None:
        self.metadata.execute(SetBucketState(bucket_id, state))

    def drain(self) -> None:
        self.set_state(0, BucketState.DRAINING)

    def of_bucket(self, bucket_id: int) -> set[int]:
        """The ids of the committed objects there."""
        found = self.metadata.refresh().objects.values()
        return {
            each.object_id
            for each in found
            if each.bucket_id == bucket_id and each.state is ObjectState.COMMITTED
        }

    def bytes_of(self, object_id: int) -> bytes:
        bucket_id = self.metadata.image.objects[object_id].bucket_id
        store, key = (self.store, self.second)[bucket_id].store, object_key(object_id)
        return store.get_range(key, 0, store.head(key).size_bytes)

    def relocated(
        self, *, runner: Runner | None = None, watch: Watch | None = None, **limits: int
    ) -> RunReport:
        """Runs the kind once."""
        kind = Relocation(SETTINGS, **limits)
        used = runner or InProcessRunner()
        told = watch or Watch(kind.name, self.clock)
        return run(self.context, kind, lambda: used, Scope(), Budget(), told)


@contextmanager
def drained_world() -> Iterator[DrainedWorld]:
    world = DrainedWorld()
    with stores_opened(world.store, world.second):
        yield world
