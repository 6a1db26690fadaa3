"""Each kind of maintenance that makes objects, in a store with one unit of work for it."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import msgspec

from siltstone.carrying.pipeline.kind import Budget, Kind, Scope
from siltstone.carrying.pipeline.running import RunReport, run
from siltstone.carrying.pipeline.watch import Watch
from siltstone.maintenance.copies.kind import CopyRepair
from siltstone.maintenance.erasure.kind import ErasureKind
from siltstone.maintenance.key_compaction.kind import KeyCompaction
from siltstone.maintenance.relocation.kind import Relocation
from siltstone.maintenance.stream_object_compaction.kind import StreamObjectCompaction
from siltstone.maintenance.stream_set_compaction.kind import StreamSetObjectCompaction
from siltstone.metadata.commands import CommitCompaction, CommitKeyCompaction
from siltstone.metadata.copies import AddCopies
from siltstone.offline.context import MaintenanceContext
from siltstone.offline.settings import CompactionSettings, Level, StreamObjectCompactionSettings
from siltstone.offline.tasks.runner import InProcessRunner, Runner
from support.engine.faulty_store import FaultyStore
from support.maintenance.collecting_world import collection
from support.maintenance.compaction_world import compaction_world
from support.maintenance.copied_world import copied_world
from support.maintenance.drained_world import drained_world
from support.maintenance.erased_world import erased_world
from support.maintenance.keyed_world import SETTINGS as KEYED
from support.maintenance.keyed_world import keyed_world
from support.maintenance.maintained_store import WatchedStore
from support.maintenance.stream_object_world import SMALL, add_stream_object

COMMITS = (CommitCompaction, CommitKeyCompaction, AddCopies)


class KindWorld(msgspec.Struct):
    """``stores``: every bucket."""

    context: MaintenanceContext
    kind: Kind
    stores: list[FaultyStore | WatchedStore]

    def run(self, runner: Runner | None = None, watch: Watch | None = None) -> RunReport:
        used = runner or InProcessRunner()
        told = watch or Watch(self.kind.name, self.context.clock)
        scope = Scope(is_forced=True)
        return run(self.context, self.kind, lambda: used, scope, Budget(), told)

    def keys(self) -> set[tuple[str, str]]:
        """Pairs of bucket and key of every object in a bucket."""
        return {(store.url, each.key) for store in self.stores for each in store.list()}

    def changes(self) -> list[str]:
        """The requests so far that would change a bucket."""
        logs = (store.history if isinstance(store, FaultyStore) else store.calls for store in self.stores)
        reading = {"head", "get_range", "list", "list_multipart"}
        return [name for log in logs for name, _ in log if name not in reading]

    def answer_commits(self, answer: Callable[[Any, Callable[[Any], Any]], Any]) -> None:
        """From now on ``answer`` is given each command that puts objects into use, and the function that executes
        it."""
        execute = self.context.metadata.execute
        self.context.metadata.execute = lambda command: (  # type: ignore[method-assign]
            answer(command, execute) if isinstance(command, COMMITS) else execute(command)
        )


@contextmanager
def _stream_sets() -> Iterator[KindWorld]:
    with compaction_world() as world:
        world.upload(*({0: [(at, at + 5, 600)], 1: [(at, at + 5, 600)]} for at in (0, 5, 10)))
        kind = StreamSetObjectCompaction(CompactionSettings())
        yield KindWorld(world.context, kind, list(world.stores.values()))


@contextmanager
def _stream_objects() -> Iterator[KindWorld]:
    with compaction_world() as world:
        for at, size in enumerate([1_200, 300, 1_500]):
            add_stream_object(world, 0, (10 * at, 10 * at + 10, size))
        yield KindWorld(world.context, StreamObjectCompaction(SMALL), list(world.stores.values()))


@contextmanager
def _collection(level: Level) -> Iterator[KindWorld]:
    with compaction_world() as world:
        world.upload({0: [(0, 5, 900), (5, 10, 900)], 1: [(0, 5, 100)]})
        world.trim(0, 10)
        yield KindWorld(world.context, collection(level), list(world.stores.values()))


@contextmanager
def _keys() -> Iterator[KindWorld]:
    with keyed_world() as world:
        (stream_id,) = world.topic()
        world.fill(stream_id, seed=1)
        kind = KeyCompaction(KEYED)
        yield KindWorld(world.context, kind, list(world.stores.values()))


@contextmanager
def _erased() -> Iterator[KindWorld]:
    with erased_world() as world:
        (stream_id,) = world.topic()
        world.append_pairs(stream_id, [("a", "1"), ("b", "2")], [("a", "3")])
        world.ask("a")
        yield KindWorld(world.context, ErasureKind(KEYED), list(world.stores.values()))


@contextmanager
def _copies() -> Iterator[KindWorld]:
    with copied_world() as world:
        world.upload({0: [(0, 5, 300)]})
        kind = CopyRepair(StreamObjectCompactionSettings())
        yield KindWorld(world.context, kind, list(world.stores.values()))


@contextmanager
def _relocation() -> Iterator[KindWorld]:
    with drained_world() as world:
        world.upload({0: [(0, 5, 300), (5, 10, 500)]})
        world.drain()
        kind = Relocation(StreamObjectCompactionSettings())
        yield KindWorld(world.context, kind, [world.store, world.second])


KIND_WORLDS: dict[str, Callable[[], AbstractContextManager[KindWorld]]] = {
    "sso-compaction": _stream_sets,
    "so-compaction": _stream_objects,
    "minor-gc": lambda: _collection(Level.MINOR),
    "major-gc": lambda: _collection(Level.MAJOR),
    "key-compaction": _keys,
    "erasure": _erased,
    "copies": _copies,
    "relocation": _relocation,
}
