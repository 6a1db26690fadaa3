"""A driver of maintenance step by step: something may happen before and after each thing it does to bucket or metadata.

What happens may be its death: a ``Killed`` that comes again at every further step, so that nothing is cleaned up on the
way out, as after SIGKILL.
"""

from collections.abc import Callable
from contextlib import contextmanager
from random import Random
from threading import Lock

from siltstone.metadata.client import MetadataClient
from siltstone.object_store.buckets import Buckets
from siltstone.offline.context import MaintenanceContext
from siltstone.offline.tasks import source_bytes as stores
from support.maintenance.compaction_world import CompactionWorld

EFFECTS = frozenset({
    "put", "delete", "start_multipart", "upload_part", "copy_part", "complete_multipart", "abort_multipart"
})  # fmt: skip


class Killed(BaseException):
    pass


class Steps:
    """``names`` of the steps passed so far."""

    def __init__(self, happens: Callable[[int, str], object] = lambda number, name: None) -> None:
        self.names: list[str] = []
        self._happens = happens
        self._lock = Lock()

    def passed(self, name: str) -> None:
        with self._lock:
            number = len(self.names)
            self.names.append(name)
        self._happens(number, name)


def dying_at(step: int) -> Steps:
    def happens(number: int, name: str) -> None:
        if number >= step:
            raise Killed(f"{name}, step {number}")

    return Steps(happens)


def acting_at(step: int, act: Callable[[], object]) -> Steps:
    return Steps(lambda number, name: act() if number == step else None)


class _Stepped:
    def __init__(self, inner: object, effects: frozenset[str], steps: Steps) -> None:
        self._inner = inner
        self._effects = effects
        self._steps = steps

    def __getattr__(self, name: str):
        found = getattr(self._inner, name)
        if name not in self._effects:
            return found

        def call(*arguments: object, **named: object):
            self._steps.passed(f"before {name}")
            result = found(*arguments, **named)
            self._steps.passed(f"after {name}")
            return result

        return call


@contextmanager
def stepped(world: CompactionWorld, steps: Steps):
    """A driver's context, as another process would have it. Its tasks take the same steps."""
    store = _Stepped(world.store, EFFECTS, steps)
    client = MetadataClient(_Stepped(world.log, frozenset({"append"}), steps), world.clock, Random(7))
    url = world.store.url
    stores._opened[url] = store
    try:
        yield MaintenanceContext(client, Buckets({0: store}), world.clock, Random(8))
    finally:
        stores._opened[url] = world.store
