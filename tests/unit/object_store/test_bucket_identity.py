import pytest

from siltstone.object_formats.identity import DamagedIdentity, StoreIdentity
from siltstone.object_store.bucket_identity import (
    MARKER_KEY,
    BucketMissing,
    BucketOfAnotherStore,
    is_marked,
    mark,
    marked_identity,
    refuse_if_marked_by_another,
    refuse_unmarked,
)
from siltstone.object_store.memory import MemoryStore
from siltstone.runtime.clock import ManualClock

ONE, OTHER = "1" * 32, "2" * 32


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore(ManualClock())


def test_a_bucket_is_marked_once(store: MemoryStore) -> None:
    assert marked_identity(store) is None and not is_marked(store)
    assert not refuse_if_marked_by_another(store, ONE, 0)
    mark(store, ONE)
    mark(store, ONE)
    assert marked_identity(store) == StoreIdentity(ONE) and is_marked(store)
    assert refuse_if_marked_by_another(store, ONE, 0)


def test_of_two_that_mark_at_once_the_second_is_turned_away(store: MemoryStore) -> None:
    assert not refuse_if_marked_by_another(store, ONE, 0) and not refuse_if_marked_by_another(store, OTHER, 0)
    mark(store, ONE)
    with pytest.raises(BucketOfAnotherStore, match=f"belongs to store {ONE}, this is store {OTHER}"):
        mark(store, OTHER)
    with pytest.raises(BucketOfAnotherStore, match="a bucket or a prefix of its own"):
        refuse_if_marked_by_another(store, OTHER, 0)
    assert marked_identity(store) == StoreIdentity(ONE)


@pytest.mark.parametrize("content", [b"", b"{}", b"x" * 10_000])
def test_a_marker_that_cannot_be_read_is_not_taken_for_ones_own(store: MemoryStore, content: bytes) -> None:
    store.put(MARKER_KEY, [content])
    with pytest.raises(
        DamagedIdentity, match=f"{MARKER_KEY} in .*delete that object if the bucket belongs to this store"
    ):
        refuse_if_marked_by_another(store, ONE, 0)


def test_a_bucket_that_was_claimed_and_has_no_marker_is_refused(store: MemoryStore) -> None:
    refuse_unmarked(store, None)
    with pytest.raises(
        BucketMissing, match=r"was emptied or exchanged\. Restore the bucket\. Nothing was written"
    ):
        refuse_unmarked(store, store.url)
    with pytest.raises(
        BucketMissing, match=r"is in s3://other, which the store used last\. Name that bucket"
    ):
        refuse_unmarked(store, "s3://other")
