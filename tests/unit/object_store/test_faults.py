import pytest

from siltstone.object_store.faults import BucketFaults, FaultBucket
from siltstone.object_store.memory import MemoryStore
from siltstone.object_store.port import ObjectNotFound, ObjectStore, StoreDenied, StoreTransient
from siltstone.runtime.clock import ManualClock


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def faults() -> BucketFaults:
    return BucketFaults()


@pytest.fixture
def bucket(faults: BucketFaults, clock: ManualClock) -> ObjectStore:
    return FaultBucket(MemoryStore(clock), faults, clock)


def test_without_faults_it_is_the_bucket(bucket: ObjectStore) -> None:
    bucket.put("a", [b"one"])
    upload = bucket.start_multipart("b")
    parts = [
        bucket.upload_part(upload, 1, 0, [b"x" * 5_242_880]),
        bucket.copy_part(upload, 2, 5_242_880, "a", 0, 3),
    ]
    assert list(bucket.list_multipart()) == [upload]
    bucket.complete_multipart(upload, parts)
    bucket.abort_multipart(upload)
    assert bucket.get_range("b", 5_242_880, 5_242_883) == b"one"
    assert [each.key for each in bucket.list()] == ["a", "b"] and bucket.head("a").size_bytes == 3
    bucket.put_if_absent("c", [b""])
    bucket.delete(["a", "c"])
    with pytest.raises(ObjectNotFound):
        bucket.head("a")
    assert bucket.url.startswith("memory:")
    bucket.close()


def writes(bucket: ObjectStore) -> list:
    upload = bucket.start_multipart("m")
    return [
        lambda: bucket.put("a", [b""]), lambda: bucket.put_if_absent("a", [b""]), lambda: bucket.delete(["a"]),
        lambda: bucket.start_multipart("n"), lambda: bucket.upload_part(upload, 1, 0, [b""]),
        lambda: bucket.copy_part(upload, 1, 0, "a", 0, 0), lambda: bucket.complete_multipart(upload, []),
        lambda: bucket.abort_multipart(upload),
    ]  # fmt: skip


def test_writes_are_refused_and_reads_are_served(bucket: ObjectStore, faults: BucketFaults) -> None:
    every = writes(bucket)
    bucket.put("kept", [b"one"])
    faults.refuses_writes = True
    for write in every:
        with pytest.raises(StoreDenied, match="refuses writes"):
            write()
    assert bucket.get_range("kept", 0, 3) == b"one"
    faults.end()
    assert [each.key for each in bucket.list()] == ["kept"]


def test_out_of_reach_nothing_is_served_and_nothing_changes(
    bucket: ObjectStore, faults: BucketFaults
) -> None:
    every = [*writes(bucket), lambda: bucket.head("a"), lambda: bucket.get_range("a", 0, 0), bucket.list]
    faults.is_unreachable = True
    for request in [*every, bucket.list_multipart]:
        with pytest.raises(StoreTransient) as failure:
            request()
        assert not failure.value.uncertain
    faults.end()
    assert list(bucket.list()) == []


def test_every_request_is_delayed_by_the_same_time(
    bucket: ObjectStore, faults: BucketFaults, clock: ManualClock
) -> None:
    faults.delay_ms = 200
    began_ms = clock.monotonic_ms()
    bucket.put("a", [b""])
    bucket.head("a")
    assert clock.monotonic_ms() - began_ms == 400


def test_a_pause_ends_with_its_block(bucket: ObjectStore, faults: BucketFaults) -> None:
    faults.refuses_writes = True
    with faults.paused():
        bucket.put("a", [b""])
    with pytest.raises(StoreDenied):
        bucket.put("b", [b""])
