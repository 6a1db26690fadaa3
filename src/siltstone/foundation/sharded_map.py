"""An immutable mapping that is cheap to change in batches.

The entries lie in many plain dicts (shards). A draft copies a shard the first time it changes an entry of it and
shares all others, so a batch that touches k entries of n costs about min(k, shards) copies of n / shards entries,
never n. A map and all maps made from it may be read by any thread; a draft belongs to one.

Iteration follows the shards: its order depends on the keys and the order they came in, and on nothing else (the hash
of a str changes from process to process, so it is not used).
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Generic, TypeVar
from zlib import crc32

K = TypeVar("K", bound=int | str)
V = TypeVar("V")

SHARD_COUNT = 1024
"""400,000 entries make 400 to a shard: 3 µs to copy one; an empty map costs 8 KiB."""


def _shard_of(key: int | str) -> int:
    number = key if isinstance(key, int) else crc32(key.encode("utf-8", "surrogatepass"))
    return number & (SHARD_COUNT - 1)


class _Shards(Mapping[K, V], Generic[K, V]):
    """Reading, for the map and its draft alike."""

    __slots__ = ("_length", "_shards")

    def __init__(self, shards: list[dict[K, V]], length: int) -> None:
        self._shards = shards
        self._length = length

    def __getitem__(self, key: K) -> V:
        return self._shards[_shard_of(key)][key]

    def __iter__(self) -> Iterator[K]:
        return chain.from_iterable(self._shards)

    def __len__(self) -> int:
        return self._length


class ShardedMap(_Shards[K, V], Generic[K, V]):
    """Made from items or by ``ShardedMapDraft.frozen``; never changes."""

    __slots__ = ()

    def __init__(self, items: Iterable[tuple[K, V]] = ()) -> None:
        shards: list[dict[K, V]] = [{} for _ in range(SHARD_COUNT)]
        for key, value in items:
            shards[_shard_of(key)][key] = value
        super().__init__(shards, sum(map(len, shards)))

    def is_unchanged_from(self, other: "ShardedMap[K, V]") -> bool:
        """Whether one was made from the other without a change. False says nothing: equal maps may have been made
        apart."""
        return self._shards is other._shards

    def changed_from(self, other: "ShardedMap[K, V]") -> Iterator[tuple[K, V]]:
        """The entries that are other objects here than there, or new. Costs the shards that changed, where one was made
        from the other."""
        if self._shards is other._shards:
            return
        for shard, before in zip(self._shards, other._shards, strict=True):
            if shard is not before:
                yield from ((key, value) for key, value in shard.items() if before.get(key) is not value)

    def draft(self) -> "ShardedMapDraft[K, V]":
        return ShardedMapDraft(self._shards, self._length)


class ShardedMapDraft(_Shards[K, V], Generic[K, V]):
    """A map being changed; reads see the changes."""

    __slots__ = ("_own",)

    def __init__(self, shards: list[dict[K, V]], length: int) -> None:
        super().__init__(shards, length)
        self._own: set[int] = set()
        """Numbers of the shards copied since the last freezing; while it is empty, the list is not ours either."""

    def frozen(self) -> ShardedMap[K, V]:
        """The map as it is now. Later changes to the draft copy again."""
        self._own = set()
        made: ShardedMap[K, V] = ShardedMap.__new__(ShardedMap)
        _Shards.__init__(made, self._shards, self._length)
        return made

    def __setitem__(self, key: K, value: V) -> None:
        shard = self._own_shard(_shard_of(key))
        self._length += key not in shard
        shard[key] = value

    def __delitem__(self, key: K) -> None:
        if key not in self:
            raise KeyError(key)
        del self._own_shard(_shard_of(key))[key]
        self._length -= 1

    def _own_shard(self, number: int) -> dict[K, V]:
        if number not in self._own:
            if not self._own:
                self._shards = self._shards.copy()
            self._shards[number] = self._shards[number].copy()
            self._own.add(number)
        return self._shards[number]
