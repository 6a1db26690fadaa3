"""Caches the indexes of objects, limited in bytes. Concurrent reads of one index share one load.

``LoadsUnderWay``, which ``block_fetcher`` uses as well, has a future (*promise*) for each key that is being loaded.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

import msgspec

from siltstone.metadata.entities import ObjectMetadata
from siltstone.model.errors import SiltstoneError
from siltstone.model.objects import object_key
from siltstone.object_formats.block_index import BlockIndex
from siltstone.object_store.buckets import Buckets, read_index
from siltstone.runtime.blocking import BlockingCalls
from siltstone.runtime.clock import Clock
from siltstone.runtime.tasks import TaskGroup
from siltstone.stream_engine.reading.copies import read_any

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


INDEX_OVERHEAD_BYTES = 512
"""Bytes that a cached index is charged besides its own."""


class LoadsUnderWay(Generic[K, V]):
    """The caller that begins a load must end it for every key, with ``succeed`` or ``fail``. A reader waits for a
    promise through ``asyncio.shield``, so that its cancellation does not cancel the load for the other readers."""

    def __init__(self) -> None:
        self._promises: dict[K, asyncio.Future[V]] = {}

    def __len__(self) -> int:
        return len(self._promises)

    def get(self, key: K) -> asyncio.Future[V] | None:
        return self._promises.get(key)

    def begin(self, key: K) -> asyncio.Future[V]:
        assert key not in self._promises, f"{key} is being loaded"
        promise: asyncio.Future[V] = asyncio.get_running_loop().create_future()
        self._promises[key] = promise
        return promise

    def succeed(self, key: K, value: V) -> None:
        promise = self._promises.pop(key, None)
        if promise is not None:  # ``fail_all`` has not ended it
            promise.set_result(value)

    def fail(self, keys: Iterable[K], failure: Exception) -> None:
        for key in keys:
            promise = self._promises.pop(key, None)
            if promise is not None:
                promise.set_exception(failure)
                promise.exception()  # the exception is marked as seen, since perhaps no reader waits for it any more

    def fail_all(self, failure: Exception) -> None:
        self.fail(list(self._promises), failure)


class IndexCacheStatistics(msgspec.Struct, frozen=True):
    indexes: int
    bytes_used: int
    hits: int
    loads: int


class IndexCache:
    """The least recently used index is evicted first. An index is cached by its object's id, since objects never
    change."""

    def __init__(
        self, buckets: Buckets, calls: BlockingCalls, tasks: TaskGroup, bytes_max: int, clock: Clock
    ) -> None:
        self._buckets = buckets
        self._calls = calls
        self._clock = clock
        self._tasks = tasks
        self._bytes_max = bytes_max
        self._bytes_used = 0
        self._indexes: OrderedDict[int, BlockIndex] = OrderedDict()
        self._under_way: LoadsUnderWay[int, BlockIndex] = LoadsUnderWay()
        self._hits = 0
        self._loads = 0

    async def get_leading(self, objects: Iterable[ObjectMetadata]) -> dict[int, BlockIndex]:
        """Returns object id → index for the first objects, up to the first index that cannot be loaded; so an object
        that is missing does not make the objects before it unreadable. Indexes that are not cached are loaded
        concurrently. Raises the errors of ``read_index`` if the index of the first object cannot be loaded."""
        promised = {
            wanted.object_id: self._kept(wanted.object_id) or self._promised(wanted) for wanted in objects
        }
        found: dict[int, BlockIndex] = {}
        for object_id, index in promised.items():
            try:
                found[object_id] = index if isinstance(index, BlockIndex) else await asyncio.shield(index)
            except SiltstoneError:
                if not found:
                    raise
                break
        return found

    def forget(self, object_id: int) -> None:
        """Drops a cached index. The next read loads it again, in case another file was put in the object's place."""
        index = self._indexes.pop(object_id, None)
        if index is not None:
            self._bytes_used -= _charge_bytes(index)

    def close(self, reason: Exception) -> None:
        self._under_way.fail_all(reason)

    def statistics(self) -> IndexCacheStatistics:
        return IndexCacheStatistics(len(self._indexes), self._bytes_used, self._hits, self._loads)

    def _kept(self, object_id: int) -> BlockIndex | None:
        index = self._indexes.get(object_id)
        if index is not None:
            self._indexes.move_to_end(object_id)
            self._hits += 1
        return index

    def _promised(self, wanted: ObjectMetadata) -> asyncio.Future[BlockIndex]:
        promise = self._under_way.get(wanted.object_id)
        if promise is None:
            promise = self._under_way.begin(wanted.object_id)
            self._tasks.start(f"index-{wanted.object_id}", self._load(wanted))
        return promise

    async def _load(self, wanted: ObjectMetadata) -> None:
        self._loads += 1
        try:
            copies = self._buckets.copies(wanted.bucket_ids, f"the index of object {wanted.object_id}")
            key = object_key(wanted.object_id)
            index = await read_any(
                copies, self._calls, self._clock, lambda store: read_index(store, key, wanted.size_bytes)
            )
        except Exception as failure:  # the readers that wait for the index get the exception
            self._under_way.fail([wanted.object_id], failure)
            return
        self._keep(wanted.object_id, index)
        self._under_way.succeed(wanted.object_id, index)

    def _keep(self, object_id: int, index: BlockIndex) -> None:
        self._indexes[object_id] = index
        self._bytes_used += _charge_bytes(index)
        while self._bytes_used > self._bytes_max:
            _, evicted = self._indexes.popitem(last=False)
            self._bytes_used -= _charge_bytes(evicted)


def _charge_bytes(index: BlockIndex) -> int:
    return len(index.raw) + INDEX_OVERHEAD_BYTES
