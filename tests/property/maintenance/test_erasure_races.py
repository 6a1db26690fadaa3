"""Erasure beside other maintenance, which replaces objects between its looks and its commits, from seeds.

The plain model is the list of records: what is erased is taken out of it, and nothing else may be missing.
"""

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from siltstone.carrying.pipeline.kind import Budget, Kind, Scope
from siltstone.carrying.pipeline.running import run
from siltstone.carrying.pipeline.watch import Watch
from siltstone.maintenance.erasure.kind import ErasureKind
from siltstone.maintenance.stream_object_compaction.kind import StreamObjectCompaction
from siltstone.maintenance.stream_set_compaction.kind import StreamSetObjectCompaction
from siltstone.metadata.commands import CommitCompaction, PrepareObjects, PutKey
from siltstone.model.limits import HOUR_MS
from siltstone.offline.settings import CompactionSettings, Level
from siltstone.offline.tasks.runner import InProcessRunner
from support.maintenance.collecting_world import collection
from support.maintenance.erased_world import ErasedWorld, erased_world
from support.maintenance.keyed_world import SETTINGS, Found
from support.maintenance.stream_object_world import SMALL

ROUNDS_MAX = 30


class Beside:
    """Runs another kind, or appends, each time that it is asked."""

    def __init__(self, world: ErasedWorld, streams: list[int], rng: Random) -> None:
        self._world, self._streams, self._rng = world, streams, rng
        self._kinds: list[Callable[[], Kind]] = [
            lambda: StreamObjectCompaction(SMALL),
            lambda: StreamSetObjectCompaction(CompactionSettings()),
            lambda: collection(Level.MAJOR),
        ]
        self.appended: dict[int, list[Found]] = {stream: [] for stream in streams}
        self.left = 25

    def append(self) -> None:
        stream = self._rng.choice(self._streams)
        first = self._world.stream(stream).end_offset
        pairs = [
            (f"k{self._rng.randrange(5)}", f"{self._rng.random()}") for _ in range(self._rng.randint(1, 6))
        ]
        self.appended[stream] += [(first + at, key, value) for at, (key, value) in enumerate(pairs)]
        self._world.append_pairs(stream, pairs, in_set=self._rng.random() < 0.5)

    def act(self) -> None:
        if self.left <= 0 or self._rng.random() < 0.3:
            return
        self.left -= 1
        self._world.clock.advance_ms(HOUR_MS)
        if self._rng.random() < 0.3:
            self.append()
            return
        self.run(self._rng.choice(self._kinds)())

    def run(self, kind: Kind) -> None:
        watch = Watch(kind.name, self._world.clock)
        run(self._world.context, kind, InProcessRunner, Scope(is_forced=True), Budget(), watch)


@pytest.mark.parametrize("seed", range(25))
def test_only_the_records_of_the_keys_are_gone(seed: int) -> None:
    rng = Random(seed)
    with erased_world() as world:
        streams = world.topic(partitions=2, cleanup_policy="delete")
        beside = Beside(world, streams, rng)
        for _ in range(rng.randint(4, 12)):
            beside.append()
        erasure = world.ask("k1", "k3")
        bounds = dict(zip(streams, erasure.bounds, strict=True))
        execute = world.context.metadata.execute
        is_inside = False

        def with_others(command: Any) -> Any:
            nonlocal is_inside
            if isinstance(command, CommitCompaction | PrepareObjects | PutKey) and not is_inside:
                is_inside = True
                beside.act()
                is_inside = False
            return execute(command)

        world.context.metadata.execute = with_others  # type: ignore[method-assign]
        for _ in range(ROUNDS_MAX):
            if not world.erasure().is_pending:
                break
            is_inside = False
            beside.run(ErasureKind(SETTINGS))
            is_inside = True
            beside.run(StreamSetObjectCompaction(CompactionSettings()))
        assert not world.erasure().is_pending, f"not ended after {ROUNDS_MAX} rounds"
        for stream in streams:
            wanted = [
                (offset, key, value)
                for offset, key, value in beside.appended[stream]
                if key not in ("k1", "k3") or offset >= bounds[stream]
            ]
            assert world.records(stream) == wanted
        world.assert_sound()
