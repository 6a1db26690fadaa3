"""The four write strategies choose the bucket of a new object. Pure.

================  =======================================  ===================================================
strategy          a stream set object                      a stream object
================  =======================================  ===================================================
failover          the first bucket in order                the same
round robin       the bucket with the fewest bytes given   the stream's *home*: the bucket with the highest
                                                           hash of stream and bucket
dynamic sharding  the same, bytes divided by weight        the same, hashes weighted
replication       the first ``copies`` buckets in order    the same
================  =======================================  ===================================================

Stream objects are spread by stream, not by object: only neighbours in one bucket are joined by copies inside the store.
With weighted rendezvous hashing a bucket that is added or left out changes the home of its own share of streams only.
A bucket that cannot be written to is left out; a stream's home is then the next one in the order of its hashes, until
the bucket is back.
"""

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from math import log

import msgspec

from siltstone.model.buckets import BucketDefinition, StrategyType, WriteStrategy

EVENED_OUT_BYTES_MAX = 2**30
"""A bucket that joins a large store is counted as if it had at most this much less than the fullest one. Else it would
get every new object until it is as full as the others, which may take days, and spread nothing meanwhile."""

_HASHES = 2**64


class BucketCandidate(msgspec.Struct, frozen=True):
    """A bucket that may get new objects. ``bytes_given``: what has been put there so far. ``is_avoided``: writes fail
    there, or did until just now."""

    bucket_id: int
    weight: int = 1
    bytes_given: int = 0
    is_avoided: bool = False


def bucket_of_set(strategy: WriteStrategy, candidates: Sequence[BucketCandidate]) -> int | None:
    """Returns the bucket of a new stream set object; None when every candidate is avoided."""
    usable = _usable(candidates)
    if not usable or _by_order(strategy):
        return _first_in_order(strategy, usable)
    return min(
        usable, key=lambda each: (each.bytes_given / _weight(strategy, each), each.bucket_id)
    ).bucket_id


def home_of_stream(
    strategy: WriteStrategy, candidates: Sequence[BucketCandidate], stream_id: int
) -> int | None:
    """Returns the bucket of a new stream object of this stream; None when every candidate is avoided."""
    usable = _usable(candidates)
    if not usable or _by_order(strategy):
        return _first_in_order(strategy, usable)
    return max(usable, key=lambda each: (_score(strategy, each, stream_id), -each.bucket_id)).bucket_id


def buckets_of_copies(strategy: WriteStrategy, candidates: Sequence[BucketCandidate]) -> list[int]:
    """Returns the buckets of all copies of an object under replication, at most ``copies``."""
    usable = [each.bucket_id for each in _usable(candidates)]
    return strategy.in_order(usable)[: strategy.copies]


def bytes_given_at_start(buckets: Sequence[BucketDefinition], held: Mapping[int, int]) -> dict[int, int]:
    """Returns the bytes with which each bucket is counted when a process begins. ``held``: the bytes of all objects by
    bucket id, as the metadata has them, so that restarts and other nodes even out."""
    shares = {each.id: held.get(each.id, 0) / each.weight for each in buckets}
    fullest = max(shares.values(), default=0.0)
    return {
        each.id: int(max(shares[each.id] * each.weight, fullest * each.weight - EVENED_OUT_BYTES_MAX))
        for each in buckets
    }


def _usable(candidates: Sequence[BucketCandidate]) -> list[BucketCandidate]:
    return [each for each in candidates if not each.is_avoided]


def _by_order(strategy: WriteStrategy) -> bool:
    return strategy.name in (StrategyType.FAILOVER, StrategyType.REPLICATION)


def _first_in_order(strategy: WriteStrategy, usable: Sequence[BucketCandidate]) -> int | None:
    return next(iter(strategy.in_order(each.bucket_id for each in usable)), None)


def _weight(strategy: WriteStrategy, candidate: BucketCandidate) -> int:
    return candidate.weight if strategy.name is StrategyType.DYNAMIC_SHARDING else 1


def _score(strategy: WriteStrategy, candidate: BucketCandidate, stream_id: int) -> float:
    """Weighted rendezvous hashing: of scores −w / ln(h), each bucket has the highest for w of all weights."""
    named = b"%d/%d" % (stream_id, candidate.bucket_id)
    digest = int.from_bytes(blake2b(named, digest_size=8).digest(), "big")
    return -_weight(strategy, candidate) / log((digest + 0.5) / _HASHES)
