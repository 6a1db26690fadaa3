"""Compacted streams over which a pass takes longer than its allowance, by the clock of their world."""

from random import Random

from msgspec.structs import replace

from siltstone.maintenance.key_compaction.task import compact_keys, run_key_compaction
from siltstone.maintenance.key_compaction.task_input import CODEC
from siltstone.model.limits import HOUR_MS, MINUTE_MS
from siltstone.offline.tasks.runner import Task
from siltstone.record_columns.kernels import plain
from siltstone.runtime.clock import ManualClock
from support.maintenance.keyed_world import SETTINGS, KeyedWorld

PATIENT = replace(SETTINGS, allowance_ms=HOUR_MS)


class SlowClock(ManualClock):
    """A clock that advances the world's time by ``minutes`` at every look: the task looks once for each block and each
    chunk."""

    def __init__(self, world: KeyedWorld, minutes: int = 1) -> None:
        super().__init__()
        self._world = world
        self._minutes = minutes
        self.looks = 0

    def monotonic_ms(self) -> float:
        self.looks += 1
        self._world.clock.advance_ms(self._minutes * MINUTE_MS)
        return self._world.clock.monotonic_ms()


def slow(world: KeyedWorld, *names: str, minutes: int = 1) -> Task:
    """The task, which is slow with the streams of these names."""

    def task(data: bytes) -> bytes:
        given = CODEC.decode_input(data)
        if given.name in names:
            return CODEC.encode_result(compact_keys(given, plain, SlowClock(world, minutes)))
        return run_key_compaction(data)

    return task


def fill_slowly(keyed: KeyedWorld, stream: int, objects: int = 60) -> None:
    """Objects of one block and one batch of two records each."""
    rng = Random(stream)
    for number in range(objects):
        keyed.append_pairs(stream, [(f"k{rng.randrange(30)}", f"{number}"), (f"k{number}", None)])
    keyed.roll(stream)
