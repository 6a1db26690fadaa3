"""The list of buckets is written by commands that may be repeated, and never without a writable bucket."""

import pytest

from siltstone.metadata.buckets import (
    BUCKETS_MAX,
    WEIGHT_MAX,
    AddBucket,
    RegisterBuckets,
    RemoveBucket,
    SetBucketState,
    SetWriteStrategy,
    bucket_list_of,
)
from siltstone.metadata.client import MetadataClient
from siltstone.metadata.commands import PrepareObjects, RegisterNode
from siltstone.metadata.refusals import (
    BucketInUse,
    BucketNotListed,
    BucketNotWritable,
    CommandMalformed,
    LastWritableBucket,
    StrategyNotAvailable,
    TooManyBuckets,
)
from siltstone.metadata.store.memory import MemoryLog
from siltstone.model.buckets import BucketList, BucketState, StrategyType, WriteStrategy
from siltstone.runtime.clock import ManualClock
from siltstone.runtime.randomness import seeded_randomness

WRITABLE, READ_ONLY = BucketState.WRITABLE, BucketState.READ_ONLY


@pytest.fixture
def client() -> MetadataClient:
    return MetadataClient(MemoryLog(), ManualClock(), seeded_randomness(1))


@pytest.fixture
def listing(client: MetadataClient) -> MetadataClient:
    client.execute(RegisterBuckets({0: "memory:0", 1: "memory:1"}, 0))
    return client


def states(client: MetadataClient) -> dict[int, BucketState]:
    return {each.id: each.state for each in bucket_list_of(client.image).buckets}


def test_b20_a_store_from_before_the_list_prepares_in_any_bucket(client: MetadataClient) -> None:
    epoch = client.execute(RegisterNode(0, "a", "here")).node_epoch
    assert bucket_list_of(client.image) == BucketList()
    client.execute(PrepareObjects(1, 1_000, 5, node_id=0, node_epoch=epoch))


def test_the_settings_are_listed_once_and_only_the_default_is_writable(listing: MetadataClient) -> None:
    assert states(listing) == {0: WRITABLE, 1: READ_ONLY}
    version = listing.image.version
    listing.execute(RegisterBuckets({0: "memory:0", 1: "memory:elsewhere"}, 1))
    assert listing.image.version == version and bucket_list_of(listing.image).urls[1] == "memory:1"
    listing.execute(RegisterBuckets({4: "memory:4"}, 4))
    assert states(listing) == {0: WRITABLE, 1: READ_ONLY, 4: READ_ONLY}


def test_a_bucket_is_added_under_the_next_id_and_again_under_the_same(listing: MetadataClient) -> None:
    added = listing.execute(AddBucket("memory:new", 3))
    assert (added.id, added.weight, added.state) == (2, 3, READ_ONLY)
    assert listing.execute(AddBucket("memory:new", 4)).id == 2
    assert bucket_list_of(listing.image).bucket(2).weight == 4  # type: ignore[union-attr]


def test_what_cannot_be_added(listing: MetadataClient) -> None:
    for weight in (0, -1, WEIGHT_MAX + 1):
        with pytest.raises(CommandMalformed):
            listing.execute(AddBucket("memory:new", weight))
    for number in range(2, BUCKETS_MAX):
        listing.execute(AddBucket(f"memory:{number}"))
    with pytest.raises(TooManyBuckets):
        listing.execute(AddBucket("memory:one more"))


def test_nothing_is_added_before_the_first_is_listed(client: MetadataClient) -> None:
    with pytest.raises(BucketNotListed, match="siltstone serve"):
        client.execute(AddBucket("memory:new"))


def test_the_last_writable_bucket_stays_writable(listing: MetadataClient) -> None:
    with pytest.raises(LastWritableBucket):
        listing.execute(SetBucketState(0, READ_ONLY))
    with pytest.raises(BucketNotListed, match="the store has 0, 1"):
        listing.execute(SetBucketState(7, WRITABLE))
    listing.execute(SetBucketState(1, WRITABLE))
    listing.execute(SetBucketState(0, READ_ONLY))
    assert states(listing) == {0: READ_ONLY, 1: WRITABLE}


def test_a_strategy_names_buckets_that_are_listed_each_once(listing: MetadataClient) -> None:
    strategy = WriteStrategy(StrategyType.FAILOVER, (1, 0))
    listing.execute(SetWriteStrategy(strategy))
    assert bucket_list_of(listing.image).strategy == strategy
    with pytest.raises(CommandMalformed):
        listing.execute(SetWriteStrategy(WriteStrategy(StrategyType.FAILOVER, (1, 1))))
    with pytest.raises(BucketNotListed):
        listing.execute(SetWriteStrategy(WriteStrategy(StrategyType.FAILOVER, (9,))))
    with pytest.raises(StrategyNotAvailable):
        listing.execute(SetWriteStrategy(WriteStrategy(StrategyType.REPLICATION, copies=9)))


def test_objects_are_prepared_in_writable_buckets_only_each_in_its_own(listing: MetadataClient) -> None:
    epoch = listing.execute(RegisterNode(0, "a", "here")).node_epoch

    def prepare(*bucket_ids: int) -> int:
        return listing.execute(
            PrepareObjects(len(bucket_ids), 1_000, node_id=0, node_epoch=epoch, bucket_ids=bucket_ids)
        )

    for bucket_id in (1, 9):
        with pytest.raises(BucketNotWritable):
            prepare(0, bucket_id)
    listing.execute(SetBucketState(1, WRITABLE))
    first = prepare(0, 1, 1, 0)
    assert [listing.image.objects[first + number].bucket_id for number in range(4)] == [0, 1, 1, 0]
    with pytest.raises(CommandMalformed):
        listing.execute(PrepareObjects(2, 1_000, node_id=0, node_epoch=epoch, bucket_ids=(0,)))


def drained(client: MetadataClient) -> int:
    """A second bucket, which is drained."""
    bucket_id = client.execute(AddBucket("memory:drained")).id
    client.execute(SetBucketState(bucket_id, BucketState.WRITABLE))
    client.execute(SetBucketState(bucket_id, BucketState.DRAINING))
    return bucket_id


def test_b17_a_bucket_is_removed_only_when_it_is_drained_and_empty(client: MetadataClient) -> None:
    client.execute(RegisterBuckets({0: "memory:a"}, 0))
    bucket_id = drained(client)
    client.execute(SetBucketState(bucket_id, BucketState.WRITABLE))
    with pytest.raises(BucketInUse, match="drain it first"):
        client.execute(RemoveBucket(bucket_id))
    node = client.execute(RegisterNode(0, "a", f"bucket:{bucket_id}/wal/00/0"))
    client.execute(PrepareObjects(2, 60_000, bucket_id, 0, node.node_epoch))
    client.execute(SetBucketState(bucket_id, BucketState.DRAINING))
    with pytest.raises(BucketInUse, match="still has objects: 2 prepared"):
        client.execute(RemoveBucket(bucket_id))


def test_b17_a_bucket_with_a_log_is_not_removed(client: MetadataClient) -> None:
    client.execute(RegisterBuckets({0: "memory:a"}, 0))
    bucket_id = drained(client)
    client.execute(RegisterNode(3, "a", f"bucket:{bucket_id}/wal/00/3"))
    with pytest.raises(BucketInUse, match=f"node 3 has its write-ahead log in bucket {bucket_id}"):
        client.execute(RemoveBucket(bucket_id))


def test_the_number_of_a_removed_bucket_is_never_given_out_again(client: MetadataClient) -> None:
    client.execute(RegisterBuckets({0: "memory:a"}, 0))
    bucket_id = drained(client)
    client.execute(SetWriteStrategy(WriteStrategy(StrategyType.FAILOVER, (bucket_id, 0))))
    client.execute(RemoveBucket(bucket_id))
    version = client.image.version
    client.execute(RemoveBucket(bucket_id))
    assert client.image.version == version, "idempotent"
    listed = bucket_list_of(client.image)
    assert (listed.removed, listed.urls, listed.strategy.order) == ({bucket_id}, {0: "memory:a"}, (0,))
    for command in (
        SetBucketState(bucket_id, BucketState.WRITABLE),
        SetWriteStrategy(WriteStrategy(order=(bucket_id,))),
    ):
        with pytest.raises(BucketNotListed, match=f"there is no bucket {bucket_id}; the store has 0"):
            client.execute(command)
    assert client.execute(AddBucket("memory:drained")).id == bucket_id + 1


def test_b25_a_node_with_an_older_image_prepares_nothing_in_a_bucket_that_is_drained(
    client: MetadataClient,
) -> None:
    client.execute(RegisterBuckets({0: "memory:a"}, 0))
    bucket_id = drained(client)
    node = client.execute(RegisterNode(0, "a", "here"))
    with pytest.raises(BucketNotWritable, match=f"bucket {bucket_id} is draining"):
        client.execute(PrepareObjects(1, 60_000, bucket_id, 0, node.node_epoch))
