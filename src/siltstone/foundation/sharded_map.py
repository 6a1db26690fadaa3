"""An immutable mapping that is cheap to change in batches.

The entries lie in many plain dicts, the shards. A *draft* of a map copies a shard when it first changes an entry of
that shard, and shares all other shards with the map. A batch that changes k of n entries therefore costs about
min(k, shards) copies of n / shards entries, never n. A map and all maps made from it may be read by any thread; a
draft belongs to one thread.

Iteration goes through the shards in turn. Its order depends only on the keys and the order of their insertion: the
hash of a str differs between processes and is not used.
"""

from collections.abc import ItemsView, Iterable, Iterator, Mapping, Sequence, ValuesView
from itertools import chain
from typing import Any, Generic, TypeVar
from zlib import crc32

K = TypeVar("K", bound=int | str)
V = TypeVar("V")

SHARD_COUNT = 1024
"""With 400,000 entries a shard holds 400, which are copied in 3 µs. An empty map costs 8 KiB."""


def _shard_of(key: int | str) -> int:
    number = key if isinstance(key, int) else crc32(key.encode("utf-8", "surrogatepass"))
    return number & (SHARD_COUNT - 1)


def by_shard(keys: Iterable[K]) -> list[K]:
    """Returns the keys in an order in which those of one shard are neighbours. A caller that changes many entries in
    several batches gives them out in this order, so that each shard is copied for one batch or two, and not for every
    one."""
    return sorted(keys, key=_shard_of)


class _Shards(Mapping[K, V], Generic[K, V]):
    """The read methods of a map and of its draft."""

    __slots__ = ("_length", "_shards")

    def __init__(self, shards: list[dict[K, V]], length: int) -> None:
        self._shards = shards
        self._length = length

    def __getitem__(self, key: K) -> V:
        return self._shards[_shard_of(key)][key]

    def values_of(self, keys: Sequence[K]) -> list[V]:
        """Returns the values of many keys, which exist and are of one type, in their order. For numbers the shard is
        computed here: a million calls would take a fifth of a second."""
        shards, mask = self._shards, SHARD_COUNT - 1
        if keys and isinstance(keys[0], int):
            return [shards[key & mask][key] for key in keys]  # type: ignore[operator]
        return [shards[_shard_of(key)][key] for key in keys]

    def __iter__(self) -> Iterator[K]:
        return chain.from_iterable(self._shards)

    def values(self) -> ValuesView[V]:
        """The view of a Mapping would look each key up again: a hundred thousand values would take a tenth of a
        second."""
        return _Values(self)

    def items(self) -> ItemsView[K, V]:
        return _Items(self)

    def __len__(self) -> int:
        return self._length


class _Values(ValuesView[V], Generic[V]):
    _mapping: _Shards[Any, V]

    def __iter__(self) -> Iterator[V]:
        return chain.from_iterable(map(dict.values, self._mapping._shards))


class _Items(ItemsView[K, V], Generic[K, V]):
    _mapping: _Shards[K, V]

    def __iter__(self) -> Iterator[tuple[K, V]]:
        return chain.from_iterable(map(dict.items, self._mapping._shards))


class ShardedMap(_Shards[K, V], Generic[K, V]):
    """An immutable mapping, made from items or by ``ShardedMapDraft.frozen``."""

    __slots__ = ()

    def __init__(self, items: Iterable[tuple[K, V]] = ()) -> None:
        shards: list[dict[K, V]] = [{} for _ in range(SHARD_COUNT)]
        for key, value in items:
            shards[_shard_of(key)][key] = value
        super().__init__(shards, sum(map(len, shards)))

    def is_unchanged_from(self, other: "ShardedMap[K, V]") -> bool:
        """True when one map was made from the other without a change. False does not mean that the maps differ: equal
        maps may have been built independently."""
        return self._shards is other._shards

    def shards(self) -> Sequence[Mapping[K, V]]:
        """Returns the shards. Two maps share the object of a shard if neither has changed it since one was made from
        the other, so what a caller has computed of a shard counts for both."""
        return self._shards

    def changed_from(self, other: "ShardedMap[K, V]") -> Iterator[tuple[K, V]]:
        """Yields the entries of this map that ``other`` lacks or holds with another value object. When one map was made
        from the other, only the shards that changed are compared. Deleted entries are not reported."""
        if self._shards is other._shards:
            return
        for shard, before in zip(self._shards, other._shards, strict=True):
            if shard is not before:
                yield from ((key, value) for key, value in shard.items() if before.get(key) is not value)

    def draft(self) -> "ShardedMapDraft[K, V]":
        return ShardedMapDraft(self._shards, self._length)


class ShardedMapDraft(_Shards[K, V], Generic[K, V]):
    """A copy of a map that is being changed. Its read methods see the changes."""

    __slots__ = ("_own",)

    def __init__(self, shards: list[dict[K, V]], length: int) -> None:
        super().__init__(shards, length)
        self._own: set[int] = set()
        """Numbers of the shards copied since the last ``frozen``. While it is empty, the list of shards is shared as
        well."""

    def frozen(self) -> ShardedMap[K, V]:
        """Returns an immutable map of the current entries. Later changes to the draft copy shards again."""
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
