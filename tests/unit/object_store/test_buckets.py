from pathlib import Path

import pytest

from siltstone.model.buckets import BucketDefinition, BucketList, BucketState
from siltstone.object_store.buckets import Buckets, UnknownBucket
from siltstone.object_store.memory import MemoryStore
from siltstone.object_store.retrying import StoreStatistics
from siltstone.runtime.clock import ManualClock


def test_buckets_are_opened_by_url_and_say_their_urls(tmp_path: Path) -> None:
    urls = {0: (tmp_path / "a").as_uri(), 7: "memory:test-buckets"}
    buckets = Buckets.open(urls, create=True)
    buckets.store(0).put("a/1", [b"in a"])

    assert buckets.urls == urls
    assert Buckets.open(buckets.urls).store(0).get_range("a/1", 0, 4) == b"in a"
    assert [*buckets.store(7).list()] == []
    buckets.close()


def test_an_unknown_bucket_is_never_guessed() -> None:
    with pytest.raises(
        UnknownBucket, match=r"bucket 3, which is not in the settings; add buckets\.3"
    ) as caught:
        Buckets({0: MemoryStore(ManualClock())}).store(3)

    assert caught.value.bucket_id == 3


@pytest.mark.parametrize(("ids", "default"), [([0], 0), ([0, 5], 0), ([5, 3], 3)])
def test_new_objects_go_to_bucket_0_or_the_lowest(ids: list[int], default: int) -> None:
    assert Buckets({each: MemoryStore(ManualClock()) for each in ids}).default_bucket_id == default


def test_statistics_of_all_buckets_together() -> None:
    buckets = Buckets.open({0: "memory:test-sum-0", 1: "memory:test-sum-1"})
    buckets.store(0).put("a/1", [b"12345"])
    before = buckets.statistics()
    buckets.store(1).put("a/1", [b"123"])
    buckets.store(1).get_range("a/1", 0, 2)

    assert buckets.statistics() == StoreStatistics({"put": 2, "get_range": 1}, 0, 2, 8)
    assert buckets.statistics() - before == StoreStatistics({"put": 1, "get_range": 1}, 0, 2, 3)


def test_a_bucket_that_was_removed_is_none_any_more_even_if_the_settings_name_it() -> None:
    buckets = Buckets.open({0: "memory:test-removed-0", 1: "memory:test-removed-1"})
    states = {
        0: BucketState.WRITABLE,
        1: BucketState.REMOVED,
        2: BucketState.READ_ONLY,
        3: BucketState.REMOVED,
    }
    listed = BucketList(
        tuple(
            BucketDefinition(each, f"memory:test-listed-{each}", 1, state) for each, state in states.items()
        )
    )
    buckets.follow(lambda: listed)
    assert buckets.urls == {0: "memory:test-removed-0", 2: "memory:test-listed-2"}
    assert buckets.opened == {0, 1}
    assert buckets.store(2).url == "memory:test-listed-2"
    assert buckets.opened == {0, 1, 2}


def test_b11_copies_in_buckets_that_take_no_writes_are_asked_last() -> None:
    buckets = Buckets.open({each: f"memory:test-ailing-{each}" for each in range(3)})
    assert buckets.copies((2, 0, 1), "an object").first is buckets.store(0)
    buckets.breaker(0).trip(0, "out")
    assert buckets.copies((2, 0, 1), "an object").first is buckets.store(1)
    buckets.breaker(1).trip(0, "out")
    assert buckets.copies((2, 0, 1), "an object").first is buckets.store(2)
    buckets.breaker(2).trip(0, "out")
    assert buckets.copies((2, 0, 1), "an object").first is buckets.store(0)
