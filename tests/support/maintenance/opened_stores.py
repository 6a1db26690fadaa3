"""Tasks open buckets by their URLs. In ``stores_opened`` they get a test's own stores, whose requests pass the pace of
the task as those of a real bucket do, and are tried once."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from random import Random

from siltstone.object_store.port import ObjectStore
from siltstone.object_store.retrying import RetryingStore, RetrySettings
from siltstone.offline.tasks import source_bytes
from siltstone.runtime.clock import ManualClock
from support.engine.faulty_store import Fault

ONE_ATTEMPT = RetrySettings(attempts_max=1)


@contextmanager
def stores_opened(*stores: ObjectStore) -> Iterator[None]:
    opened = {each.url: RetryingStore(each, ManualClock(), Random(0), ONE_ATTEMPT) for each in stores}
    source_bytes._opened.update(opened)
    try:
        yield
    finally:
        for url in opened:
            del source_bytes._opened[url]


def failing(*calls: str) -> Sequence[tuple[str, Fault]]:
    """Returns the calls, each with every fault that fails it for good. A put whose answer is lost is no failure: the
    store looks, and finds the object."""
    faults = (Fault.DENIED, Fault.BEFORE, Fault.AFTER)
    return [(call, fault) for call in calls for fault in faults if (call, fault) != ("put", Fault.AFTER)]
