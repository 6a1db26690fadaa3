"""What ``siltstone buckets`` says of an image."""

import pytest

from siltstone.cli.buckets.listing import bucket_rows, listed_or_opened, strategy_words
from siltstone.metadata.buckets import RegisterBuckets, SetBucketState, bucket_list_of
from siltstone.metadata.commands import CommitUpload, PrepareObjects
from siltstone.model.buckets import BucketDefinition, BucketList, BucketState, StrategyType, WriteStrategy
from support.metadata.metadata_world import MetadataWorld, new_object

URLS = {0: "memory:a", 1: "memory:b"}


def listed(*states: BucketState, name: StrategyType, order: tuple[int, ...] = ()) -> BucketList:
    buckets = tuple(BucketDefinition(at, f"memory:{at}", 1, state) for at, state in enumerate(states))
    return BucketList(buckets, WriteStrategy(name, order, 2))


W, R = BucketState.WRITABLE, BucketState.READ_ONLY
WAIT = "Uploads wait while fewer than 2 buckets take writes."


@pytest.mark.parametrize(
    ("buckets", "words"),
    [
        (listed(name=StrategyType.FAILOVER), "No bucket takes new objects."),
        (listed(W, R, name=StrategyType.ROUND_ROBIN), "New objects are put into bucket 0."),
        (listed(W, W, W, name=StrategyType.FAILOVER, order=(2,)), "2; while it takes no writes, into 0, then 1."),
        (listed(W, R, W, name=StrategyType.ROUND_ROBIN), "spread over the buckets 0, 2, by bytes."),
        (listed(W, W, name=StrategyType.DYNAMIC_SHARDING), "over the buckets 0, 1, by bytes and weight."),
        (listed(W, W, name=StrategyType.REPLICATION), f"has 2 copies, in the buckets 0 and 1. {WAIT}"),
        (
            listed(W, W, W, W, name=StrategyType.REPLICATION, order=(2,)),
            f"in the buckets 2 and 0, or in 1 or 3 while one of these takes no writes. {WAIT}",
        ),
    ],
)  # fmt: skip
def test_where_new_objects_go(buckets: BucketList, words: str) -> None:
    assert strategy_words(buckets).endswith(words)


def test_the_objects_of_each_bucket_are_counted() -> None:
    world = MetadataWorld()
    world.do(RegisterBuckets(URLS, 0))
    world.do(SetBucketState(1, BucketState.WRITABLE))
    world.register(0)
    stream = world.open_stream()
    for bucket_id, (start, end) in [(0, (0, 10)), (1, (10, 20)), (1, (20, 25))]:
        failed = world.do(PrepareObjects(2, 60_000, bucket_id, 0, 1))
        put = new_object(failed + 1, (stream, start, end))
        world.do(CommitUpload(0, 1, None, (put,), released=(failed,)))
    rows = bucket_rows(world.image, bucket_list_of(world.image))
    assert [(row.id, row.state, row.objects, row.size_bytes, row.to_delete) for row in rows] == [
        (0, "writable", 1, 200, 1), (1, "writable", 2, 350, 2),
    ]  # fmt: skip


def test_a_store_from_before_the_list_shows_the_buckets_of_its_settings() -> None:
    shown = listed_or_opened(MetadataWorld().image, URLS, 1)
    assert [(each.id, each.url, each.state) for each in shown.buckets] == [
        (0, "memory:a", BucketState.READ_ONLY), (1, "memory:b", BucketState.WRITABLE),
    ]  # fmt: skip
