"""B01, B02, B03 as far as the choice alone decides them."""

from collections import Counter
from random import Random

from msgspec.structs import replace

from siltstone.model.buckets import BucketDefinition, BucketState, StrategyType, WriteStrategy
from siltstone.object_store.bucket_choice import (
    EVENED_OUT_BYTES_MAX,
    BucketCandidate,
    bucket_of_set,
    buckets_of_copies,
    bytes_given_at_start,
    home_of_stream,
)

THREE = [BucketCandidate(0), BucketCandidate(1), BucketCandidate(2)]
WEIGHTED = [BucketCandidate(0, 1), BucketCandidate(1, 2), BucketCandidate(2, 1)]
ROUND_ROBIN = WriteStrategy(StrategyType.ROUND_ROBIN)
SHARDING = WriteStrategy(StrategyType.DYNAMIC_SHARDING)


def sets_given(strategy: WriteStrategy, candidates: list[BucketCandidate], sizes: list[int]) -> Counter[int]:
    given: Counter[int] = Counter()
    for size in sizes:
        counted = [replace(each, bytes_given=given[each.bucket_id]) for each in candidates]
        chosen = bucket_of_set(strategy, counted)
        assert chosen is not None
        given[chosen] += size
    return given


def homes(strategy: WriteStrategy, candidates: list[BucketCandidate]) -> list[int | None]:
    return [home_of_stream(strategy, candidates, stream_id) for stream_id in range(4_000)]


def test_b01_blocks_of_mixed_sizes_spread_evenly_by_bytes() -> None:
    rng = Random(1)
    given = sets_given(ROUND_ROBIN, THREE, [rng.choice([1, 100]) for _ in range(300)])
    assert max(given.values()) - min(given.values()) <= 100
    assert max(given.values()) < 1.1 * min(given.values())


def test_b02_weights_are_the_shares_of_sets_and_of_streams() -> None:
    given = sets_given(SHARDING, WEIGHTED, [1] * 1_000)
    counts = Counter(homes(SHARDING, WEIGHTED))
    for bucket_id, share in ((0, 0.25), (1, 0.5), (2, 0.25)):
        assert abs(given[bucket_id] / 1_000 - share) < 0.05
        assert abs(counts[bucket_id] / 4_000 - share) < 0.05


def test_round_robin_knows_no_weights() -> None:
    assert homes(ROUND_ROBIN, WEIGHTED) == homes(ROUND_ROBIN, THREE)


def test_b03_a_stream_stays_at_home_whatever_the_buckets_were_given() -> None:
    fuller = [replace(each, bytes_given=10**9 * each.bucket_id) for each in THREE]
    assert homes(ROUND_ROBIN, fuller) == homes(ROUND_ROBIN, THREE)


def test_a_bucket_that_is_avoided_or_added_moves_only_its_own_streams() -> None:
    before = homes(ROUND_ROBIN, THREE)
    avoided = homes(ROUND_ROBIN, [*THREE[:2], BucketCandidate(2, is_avoided=True)])
    added = homes(ROUND_ROBIN, [*THREE, BucketCandidate(3)])
    assert all(old == new or old == 2 for old, new in zip(before, avoided, strict=True)) and 2 not in avoided
    assert all(new in (old, 3) for old, new in zip(before, added, strict=True)) and 3 in added


def test_failover_takes_the_first_in_order_that_is_not_avoided() -> None:
    strategy = WriteStrategy(StrategyType.FAILOVER, (2,))
    assert bucket_of_set(strategy, THREE) == home_of_stream(strategy, THREE, 7) == 2
    assert bucket_of_set(strategy, [*THREE[:2], BucketCandidate(2, is_avoided=True)]) == 0


def test_replication_names_as_many_buckets_as_copies() -> None:
    strategy = WriteStrategy(StrategyType.REPLICATION, (2, 0), 2)
    assert buckets_of_copies(strategy, THREE) == [2, 0]


def test_nothing_is_chosen_when_all_are_avoided() -> None:
    all_avoided = [replace(each, is_avoided=True) for each in THREE]
    for name in StrategyType:
        assert bucket_of_set(WriteStrategy(name), all_avoided) is None
        assert home_of_stream(WriteStrategy(name), all_avoided, 1) is None


def test_a_bucket_that_joins_late_is_not_given_everything() -> None:
    buckets = [BucketDefinition(each, f"memory:{each}", 1, BucketState.WRITABLE) for each in range(2)]
    held = 10 * EVENED_OUT_BYTES_MAX
    assert bytes_given_at_start(buckets, {0: held}) == {0: held, 1: held - EVENED_OUT_BYTES_MAX}
    assert bytes_given_at_start(buckets, {}) == {0: 0, 1: 0}
