"""Defines the buckets of a store, and the strategy by which new objects are spread over them.

A bucket has a number, its id, which is never assigned to another bucket. The metadata of each object names its bucket,
so a strategy only decides where new objects are put: after a change of the strategy every object is still read from its
bucket.
"""

from collections.abc import Iterable
from enum import StrEnum

import msgspec


class BucketState(StrEnum):
    """READ_ONLY → WRITABLE ⇄ DRAINING → REMOVED. Objects are read and deleted in all states but the last; only a
    WRITABLE bucket gets new objects, and the objects of a DRAINING bucket are relocated. REMOVED is final: the number
    is not assigned to another bucket."""

    READ_ONLY = "read-only"
    WRITABLE = "writable"
    DRAINING = "draining"
    REMOVED = "removed"


class BucketDefinition(msgspec.Struct, frozen=True):
    """``weight``: the share of a bucket under dynamic sharding, relative to the other weights."""

    id: int
    url: str
    weight: int
    state: BucketState

    @property
    def is_removed(self) -> bool:
        return self.state is BucketState.REMOVED

    @property
    def is_writable(self) -> bool:
        return self.state is BucketState.WRITABLE


class StrategyType(StrEnum):
    FAILOVER = "failover"
    ROUND_ROBIN = "round-robin"
    DYNAMIC_SHARDING = "dynamic-sharding"
    REPLICATION = "replication"


class WriteStrategy(msgspec.Struct, frozen=True):
    """``order``: the ids of the buckets that come first under failover and replication; the others follow by id.
    ``copies``: the number of buckets into which replication puts each object; while fewer take writes, ``copies_min``
    are enough for a commit. Both are 1 under the other strategies. ``copies_min`` 0 stands for all ``copies``."""

    name: StrategyType = StrategyType.FAILOVER
    order: tuple[int, ...] = ()
    copies: int = 1
    copies_min: int = 0

    @property
    def copies_needed(self) -> int:
        """The number of buckets in which an object has to be before it may be committed."""
        return self.copies_min or self.copies

    @property
    def is_replication(self) -> bool:
        return self.name is StrategyType.REPLICATION

    def in_order(self, bucket_ids: Iterable[int]) -> list[int]:
        """Returns the ids in the order in which failover prefers them."""
        places = {bucket_id: place for place, bucket_id in enumerate(self.order)}
        return sorted(bucket_ids, key=lambda each: (places.get(each, len(places)), each))


class BucketList(msgspec.Struct, frozen=True):
    """The buckets of a store, by id, and its strategy. A store from before buckets were listed has an empty list; its
    buckets are those of the settings."""

    buckets: tuple[BucketDefinition, ...] = ()
    strategy: WriteStrategy = WriteStrategy()
    has_copies: bool = False
    """Whether objects may have copies. It stays true once the strategy was replication."""

    def bucket(self, bucket_id: int) -> BucketDefinition | None:
        return next((each for each in self.buckets if each.id == bucket_id), None)

    @property
    def writable(self) -> tuple[BucketDefinition, ...]:
        return tuple(each for each in self.buckets if each.is_writable)

    @property
    def draining(self) -> frozenset[int]:
        """The ids of the buckets whose objects are to be relocated."""
        return frozenset(each.id for each in self.buckets if each.state is BucketState.DRAINING)

    @property
    def are_several(self) -> bool:
        """Whether the store has several buckets, so that texts should name the bucket of an object."""
        return len(self.urls) > 1

    @property
    def removed(self) -> frozenset[int]:
        return frozenset(each.id for each in self.buckets if each.is_removed)

    @property
    def urls(self) -> dict[int, str]:
        """The URLs of all buckets that were not removed."""
        return {each.id: each.url for each in self.buckets if each.state is not BucketState.REMOVED}
