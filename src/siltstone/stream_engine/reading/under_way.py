"""Loads under way, by key: whoever wants a key that is being loaded gets the promise of that load."""

import asyncio
from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class LoadsUnderWay(Generic[K, V]):
    """Whoever begins a load ends it, with ``succeed`` or ``fail``, for every key. Wait for a promise through
    ``asyncio.shield``: a reader that gives up must not end the load for the others."""

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
        if promise is not None:  # not ended by ``fail_all`` meanwhile
            promise.set_result(value)

    def fail(self, keys: Iterable[K], failure: Exception) -> None:
        for key in keys:
            promise = self._promises.pop(key, None)
            if promise is not None:
                promise.set_exception(failure)
                promise.exception()  # seen, even when nobody waits for it any more

    def fail_all(self, failure: Exception) -> None:
        self.fail(list(self._promises), failure)
