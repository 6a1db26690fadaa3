"""A store in memory from whose topics records are erased by key: the worlds of key compaction, with requests."""

from collections.abc import Iterator
from contextlib import contextmanager

from siltstone.carrying.pipeline.kind import Budget, Scope
from siltstone.carrying.pipeline.running import RunReport, run
from siltstone.carrying.pipeline.watch import Watch
from siltstone.maintenance.erasure.kind import ErasureKind
from siltstone.offline.erased_keys import hashes_of_keys
from siltstone.offline.erasures import (
    ErasedKey,
    ErasedObject,
    Erasure,
    erased_objects,
    erasure_of,
    put_erasure,
)
from siltstone.offline.tasks.runner import InProcessRunner, Runner
from siltstone.record_columns.kernels import plain
from support.maintenance.keyed_world import SETTINGS, KeyedWorld
from support.maintenance.opened_stores import stores_opened

HASH_KEY = bytes(range(16))
ID = "0123456789ab"


class ErasedWorld(KeyedWorld):
    def ask(self, *keys: str, topic: str = "t", erasure_id: str = ID, hash_key: bytes = HASH_KEY) -> Erasure:
        """Keeps the request to erase the keys' records that are committed now."""
        found = self.topic_named(topic)
        hashes = hashes_of_keys([each.encode() for each in keys], hash_key, plain)
        erasure = Erasure(
            erasure_id=erasure_id,
            topic_id=found.topic_id,
            topic=topic,
            hash_key=hash_key,
            salt=bytes(16),
            keys=tuple(ErasedKey(each, bytes(32)) for each in hashes),
            bounds=tuple(self.stream(each.data_stream_id).end_offset for each in found.partitions),
            requested_ms=self.clock.now_ms(),
            flushed_ms=self.clock.now_ms(),
        )
        self.metadata.execute(put_erasure(self.image, erasure))
        return erasure

    def erase(self, runner: Runner | None = None, **scope: object) -> RunReport:
        """Does one run of the kind, as the pipeline does."""
        kind = ErasureKind(SETTINGS)
        return run(
            self.context,
            kind,
            lambda: runner or InProcessRunner(),
            Scope(**scope),  # type: ignore[arg-type]
            Budget(),
            Watch(kind.name, self.clock),
        )

    def erasure(self, erasure_id: str = ID) -> Erasure:
        found = erasure_of(self.context.metadata.refresh(), erasure_id)
        assert found is not None
        return found

    def holders(self, erasure_id: str = ID) -> list[ErasedObject]:
        return erased_objects(self.context.metadata.refresh(), erasure_id)


@contextmanager
def erased_world() -> Iterator[ErasedWorld]:
    world = ErasedWorld()
    with stores_opened(*world.stores.values()):
        yield world
