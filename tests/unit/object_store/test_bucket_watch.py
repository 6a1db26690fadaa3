"""A bucket that is silent is said within five seconds, once, and again when it answers."""

import logging
from collections.abc import Callable
from random import Random
from threading import Event, Thread
from threading import enumerate as enumerate_threads

import pytest

from siltstone.object_store.bucket_watch import (
    ASK_INTERVAL_MS,
    BUCKET_LOOK_INTERVAL_MS,
    SILENT_MS_MAX,
    BucketWatch,
)
from siltstone.object_store.buckets import Buckets
from siltstone.object_store.memory import MemoryStore
from siltstone.object_store.port import StoreDenied, StoreTransient
from siltstone.object_store.retrying import RetryingStore, RetrySettings
from siltstone.runtime.clock import ManualClock
from siltstone.runtime.log_limit import LOG_INTERVAL_MS
from support.engine.faulty_store import Fault, FaultyStore


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def watch(clock: ManualClock) -> BucketWatch:
    return BucketWatch("s3://bucket", clock)


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    caplog.set_level(logging.INFO)
    return lambda: [each.message for each in caplog.records]


def test_the_promise_of_five_seconds_is_kept() -> None:
    assert SILENT_MS_MAX + BUCKET_LOOK_INTERVAL_MS < 5_000


def test_a_call_that_hangs_is_said_once_and_its_answer_too(
    watch: BucketWatch, clock: ManualClock, said: Callable[[], list[str]]
) -> None:
    with watch.watched("put a/1"):
        clock.advance_ms(SILENT_MS_MAX - 1)
        watch.look()
        assert said() == [] and not watch.is_silent
        clock.advance_ms(1)
        for _ in range(3):
            watch.look()
            clock.advance_ms(1000)
        assert watch.is_silent
        (line,) = said()
        assert line.startswith(
            "bucket s3://bucket has not answered for 4.0 s: put a/1 (no answer to the first attempt)."
        )
    assert said()[1:] == ["bucket s3://bucket answers again, after 7.0 s"]
    assert not watch.is_silent
    watch.look()
    assert len(said()) == 2


def test_a_call_that_is_refused_again_and_again_is_said_with_the_reason(
    watch: BucketWatch, clock: ManualClock, said: Callable[[], list[str]]
) -> None:
    with pytest.raises(StoreTransient), watch.watched("put a/1") as call:
        call.failure = "connection refused"
        clock.advance_ms(SILENT_MS_MAX)
        watch.look()
        raise StoreTransient("connection refused", uncertain=False)
    assert len(said()) == 1 and "put a/1 (connection refused)" in said()[0]
    assert watch.is_silent, "until something is answered"
    with pytest.raises(StoreDenied), watch.watched("put a/1"):
        raise StoreDenied("the token has expired")
    assert not watch.is_silent and "answers again" in said()[1]


def test_a_bucket_that_answers_others_is_slow_and_not_silent(
    watch: BucketWatch, clock: ManualClock, said: Callable[[], list[str]]
) -> None:
    with watch.watched("get_range a/1"):
        for _ in range(10):
            clock.advance_ms(1000)
            with watch.watched("head a/2"):
                pass
            watch.look()
        assert said() == []
        clock.advance_ms(SILENT_MS_MAX)
        watch.look()
    assert len(said()) == 2


def test_an_idle_bucket_is_not_silent(
    watch: BucketWatch, clock: ManualClock, said: Callable[[], list[str]]
) -> None:
    clock.advance_ms(60_000)
    watch.look()
    with watch.watched("head a"):
        watch.look()
    assert said() == []


def fallen_silent(watch: BucketWatch, clock: ManualClock) -> None:
    """Nobody asks it any more."""
    with pytest.raises(StoreTransient), watch.watched("put a/1"):
        clock.advance_ms(SILENT_MS_MAX)
        watch.look()
        raise StoreTransient("connection refused", uncertain=False)
    assert watch.is_silent


def test_a_silent_bucket_is_to_be_asked_now_and_then_while_nobody_else_does(
    watch: BucketWatch, clock: ManualClock
) -> None:
    assert not watch.is_to_be_asked(), "it is not silent"
    fallen_silent(watch, clock)
    assert watch.is_to_be_asked() and not watch.is_to_be_asked()
    clock.advance_ms(ASK_INTERVAL_MS)
    with watch.watched("head a"):
        assert not watch.is_to_be_asked(), "this request tells it"
        clock.advance_ms(ASK_INTERVAL_MS)
        watch.look()
    assert not watch.is_silent and not watch.is_to_be_asked()


def test_an_idle_bucket_that_answers_again_is_no_longer_silent(
    clock: ManualClock, said: Callable[[], list[str]]
) -> None:
    faulty = FaultyStore(MemoryStore(clock, "asked"))
    store = RetryingStore(faulty, clock, Random(0), RetrySettings())
    buckets = Buckets({0: store})
    fallen_silent(store.watch, clock)

    def look_after_a_while() -> None:
        """Until the thread that asks has ended."""
        clock.advance_ms(ASK_INTERVAL_MS)
        buckets.look()
        for thread in enumerate_threads():
            if thread.name == "ask-silent-bucket":
                thread.join(60)

    faulty.fail_next(Fault.REFUSED)
    look_after_a_while()
    assert buckets.silent() == {0: True}
    look_after_a_while()
    assert buckets.silent() == {0: False} and "answers again" in said()[-1]
    asked = store.statistics().requests
    look_after_a_while()
    assert store.statistics().requests == asked == {"head": 2}, "nobody asks a bucket that answers"


def test_a_copy_inside_the_store_may_take_minutes_unless_it_fails(
    watch: BucketWatch, clock: ManualClock, said: Callable[[], list[str]]
) -> None:
    with watch.watched("copy_part", may_take_long=True) as call:
        clock.advance_ms(120_000)
        watch.look()
        assert said() == []
        call.failure = "slow down"
        watch.look()
        assert len(said()) == 1


def test_a_bucket_that_comes_and_goes_is_said_once_a_minute(
    watch: BucketWatch, clock: ManualClock, said: Callable[[], list[str]]
) -> None:
    begun_ms = clock.monotonic_ms()
    while clock.monotonic_ms() - begun_ms < LOG_INTERVAL_MS:
        with watch.watched("head a"):
            clock.advance_ms(SILENT_MS_MAX)
            watch.look()
    assert len(said()) == 2
    with watch.watched("head a"):
        clock.advance_ms(SILENT_MS_MAX)
        watch.look()
    assert len(said()) == 4


def test_a_retrying_store_has_a_watch_of_all_its_calls(
    clock: ManualClock, said: Callable[[], list[str]]
) -> None:
    faulty = FaultyStore(MemoryStore(clock, "watched"))
    store = RetryingStore(faulty, clock, Random(0), RetrySettings(backoff_ms_min=3_000, backoff_ms_max=3_000))
    clock.block_ms = lambda duration_ms: (ManualClock.block_ms(clock, duration_ms), store.watch.look())  # type: ignore[method-assign]
    store.put("ab/1", [b"x"])
    for ask in (lambda: store.head("ab/1"), lambda: list(store.list()), lambda: store.put("ab/2", [b"y"])):
        clock.advance_ms(LOG_INTERVAL_MS)
        faulty.fail_next(*[Fault.REFUSED] * 8)
        ask()
    assert [line.split(" ")[2:5] for line in said()] == [
        ["has", "not", "answered"],
        ["answers", "again,", "after"],
    ] * 3


def test_calls_of_many_threads(watch: BucketWatch, clock: ManualClock, said: Callable[[], list[str]]) -> None:
    gate = Event()

    def call() -> None:
        with watch.watched("head a"):
            gate.wait(60)

    threads = [Thread(target=call) for _ in range(20)]
    for thread in threads:
        thread.start()
    clock.advance_ms(SILENT_MS_MAX)
    watch.look()
    gate.set()
    for thread in threads:
        thread.join()
    assert len(said()) == 2
