"""A driver that dies at every step of a run, before and after what the step does: the old objects stay served, another
driver ends the work, and nothing is left over."""

from collections.abc import Callable
from typing import TypeVar

import pytest

from siltstone.maintenance.context import MaintenanceContext
from siltstone.maintenance.sweep import sweep
from siltstone.metadata.commands import Command
from siltstone.model.limits import COMPACTION_TIME_LIMIT_MS, GRACE_PERIOD_MS
from siltstone.model.objects import ObjectState, object_key
from siltstone.object_store.buckets import Buckets
from siltstone.object_store.memory import MemoryStore
from support.compaction_world import CompactionWorld
from support.faulty_store import FaultyStore
from support.stream_object_world import SMALL, add_stream_object, joined_up, stores_opened

T = TypeVar("T")


class Killed(BaseException):
    """Stands for SIGKILL."""


class Life:
    """Ends at step ``last``, before its effect or after it; from then on nothing has any."""

    def __init__(self, last: int, *, is_done: bool) -> None:
        self._last = last
        self._is_done = is_done
        self.steps: list[str] = []

    def step(self, name: str, effect: Callable[[], T]) -> T:
        self.steps.append(name)
        if len(self.steps) < self._last:
            return effect()
        if len(self.steps) == self._last and self._is_done:
            effect()
        raise Killed


class MortalStore(FaultyStore):
    life: Life

    def _call(self, name: str, effect: Callable[[], T], partial: Callable[[], object] = lambda: None) -> T:
        return self.life.step(name, effect)


def filled() -> CompactionWorld:
    world = CompactionWorld()
    for stream, sizes in enumerate([(1_500, 300, 1_200), (100, 100, 100)]):
        for at, size in enumerate(sizes):
            add_stream_object(world, stream, (10 * at, 10 * at + 10, size))
    world.upload({2: [(0, 5, 100)]})
    return world


def run_until_killed(world: CompactionWorld, life: Life, patch: pytest.MonkeyPatch) -> bool:
    """Whether it was; the driver and its tasks share one life."""
    assert isinstance(world.store.store, MemoryStore)
    store = MortalStore(world.store.store)
    store.life = life
    other = world.another_context()
    execute = other.metadata.execute

    def mortal(command: Command[T]) -> T:
        return life.step(type(command).__name__, lambda: execute(command))

    patch.setattr(other.metadata, "execute", mortal)
    context = MaintenanceContext(other.metadata, Buckets({0: store}), world.clock, other.rng)
    victim = CompactionWorld.__new__(CompactionWorld)
    victim.__dict__ |= {**world.__dict__, "context": context, "metadata": other.metadata}
    with stores_opened(store):
        try:
            joined_up(victim)
        except Killed:
            return True
    return False


@pytest.mark.parametrize("is_done", [False, True], ids=["before", "after"])
def test_killed_at_every_step(monkeypatch: pytest.MonkeyPatch, is_done: bool) -> None:
    killed_in: list[str] = []
    while True:
        world = filled()
        before = world.records()
        life = Life(len(killed_in) + 1, is_done=is_done)
        if not run_until_killed(world, life, monkeypatch):
            break
        killed_in.append(life.steps[len(killed_in)])
        assert world.records() == before, life.steps
        world.assert_sound()
        finish(world)
        assert world.records() == before, life.steps
    assert {
        "CommitCompaction", "FinishJob", "PrepareObjects", "StartJob",
        "complete_multipart", "copy_part", "get_range", "put", "start_multipart", "upload_part",
    } <= set(killed_in)  # fmt: skip
    assert killed_in.count("CommitCompaction") == 2


def finish(world: CompactionWorld) -> None:
    """Others go on: the work is done, and when all time limits have passed the bucket holds what is committed."""
    world.clock.advance_ms(SMALL.lease_ms + 1)
    with stores_opened(world.store):
        joined_up(world)
    image = world.metadata.refresh()
    assert [len(image.streams[each].ranges) for each in (0, 1, 2)] == [1, 1, 1]
    world.clock.advance_ms(COMPACTION_TIME_LIMIT_MS)
    sweep(world.context)
    world.clock.advance_ms(GRACE_PERIOD_MS)
    sweep(world.context)
    objects = world.metadata.refresh().objects
    assert {each.state for each in objects.values()} == {ObjectState.COMMITTED}
    assert world.bucket_keys() == {object_key(each) for each in objects}
    assert list(world.store.store.list_multipart()) == []
    world.assert_sound()
