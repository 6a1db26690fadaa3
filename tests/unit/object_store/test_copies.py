"""B11 for readers of copies: the first right answer counts, and copies that were passed over are reported."""

import logging
from collections.abc import Callable

import pytest

from siltstone.model.buckets import BucketDefinition, BucketList, BucketState
from siltstone.model.errors import CorruptData, SiltstoneError
from siltstone.object_store.buckets import Buckets, UnknownBucket
from siltstone.object_store.copies import Copies
from siltstone.object_store.memory import MemoryStore
from siltstone.object_store.port import ObjectNotFound, ObjectStore, StoreDenied, StoreTransient
from siltstone.object_store.retrying import RetryingStore, RetrySettings
from siltstone.runtime.clock import ManualClock
from siltstone.runtime.randomness import seeded_randomness

KEY = "ab/objects/1"


class Ailing(MemoryStore):
    """``trouble`` is raised by each read; ``reads`` counts them."""

    trouble: Exception | None = None
    reads = 0

    def get_range(self, key: str, start: int, end: int) -> bytes:
        self.reads += 1
        if self.trouble is not None:
            raise self.trouble
        return super().get_range(key, start, end)


def two() -> list[Ailing]:
    made = [Ailing(ManualClock(), f"copies-{number}") for number in range(2)]
    for store in made:
        store.put(KEY, [b"silt"])
    return made


def whole(store: ObjectStore) -> bytes:
    return store.get_range(KEY, 0, 4)


@pytest.mark.parametrize(
    "trouble",
    [ObjectNotFound("gone"), CorruptData("flipped"), StoreTransient("out"), StoreDenied("denied")],
    ids=lambda each: type(each).__name__,
)
def test_b11_a_copy_that_fails_is_passed_over_and_told(trouble: SiltstoneError) -> None:
    first, second = two()
    first.trouble = trouble
    told: list[tuple[int, SiltstoneError]] = []
    copies = Copies([(3, first), (5, second)], lambda *each: told.append(each))
    assert copies.read(whole) == b"silt"
    assert told == [(3, trouble)]


def test_what_the_first_copy_raised_is_raised_when_all_have_failed() -> None:
    first, second = two()
    first.trouble, second.trouble = CorruptData("flipped"), ObjectNotFound("gone")
    with pytest.raises(CorruptData, match="flipped"):
        Copies([(0, first), (1, second)]).read(whole)
    assert (first.reads, second.reads) == (1, 1)


def test_a_bug_is_not_passed_over() -> None:
    def broken(store: ObjectStore) -> bytes:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        Copies([(0, two()[0]), (1, two()[1])]).read(broken)


def retrying(store: ObjectStore, attempts: int) -> RetryingStore:
    return RetryingStore(store, ManualClock(), seeded_randomness(1), RetrySettings(attempts_max=attempts))


def test_requests_are_repeated_only_when_no_copy_has_answered() -> None:
    first, second = two()
    first.trouble = StoreTransient("out")
    copies = Copies([(0, retrying(first, 3)), (1, retrying(second, 3))])
    assert copies.read(whole) == b"silt" and first.reads == 1
    second.trouble = ObjectNotFound("gone")
    with pytest.raises(StoreTransient):
        copies.read(whole)
    assert (first.reads, second.reads) == (1 + 1 + 3, 1 + 1), "who has answered is not asked again"


def buckets_of(stores: list[Ailing]) -> Buckets:
    return Buckets({number: retrying(store, 1) for number, store in enumerate(stores)})


def first_asked(buckets: Buckets) -> Callable[[], ObjectStore]:
    return lambda: buckets.copies((1, 0), "it").first


def test_a_bucket_that_takes_no_writes_is_asked_last_and_the_order_is_by_id() -> None:
    buckets = buckets_of(two())
    asked = first_asked(buckets)
    assert asked() is buckets.store(0)
    buckets.breaker(0).trip(0, "out")
    assert asked() is buckets.store(1)


def test_passed_over_copies_are_counted_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    stores = two()
    stores[0].trouble = ObjectNotFound("gone")
    buckets = buckets_of(stores)
    with caplog.at_level(logging.WARNING):
        assert buckets.copies((0, 1), "object 7").read(whole) == b"silt"
    assert buckets.passed_over() == {0: 1}
    (line,) = [each.message for each in caplog.records]
    assert "object 7 could not be read from bucket 0" in line and "siltstone check" in line


def test_a_bucket_that_is_not_known_is_left_out_unless_all_are() -> None:
    buckets = buckets_of(two())
    buckets.follow(lambda: BucketList((BucketDefinition(0, "memory:0", 1, BucketState.WRITABLE),)))
    assert buckets.copies((9, 1), "it").read(whole) == b"silt"
    with pytest.raises(UnknownBucket):
        buckets.copies((8, 9), "it")
