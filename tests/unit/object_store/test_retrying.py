"""Each kind of failure on command; property/object_store has them by chance."""

from threading import Barrier, BrokenBarrierError, Thread

import pytest

from siltstone.object_store.memory import MemoryStore
from siltstone.object_store.port import ObjectAlreadyExists, ObjectNotFound, StoreDenied, StoreTransient
from siltstone.object_store.retrying import (
    Attempts,
    RequestCounter,
    RetryingStore,
    RetrySettings,
    StoreStatistics,
)
from siltstone.runtime.clock import ManualClock
from siltstone.runtime.randomness import seeded_randomness
from support.engine.faulty_store import Fault, FaultyStore

KEY = "a5/objects/1"


class World:
    """A memory store, faults around it, retries around those, and virtual time."""

    def __init__(self, settings: RetrySettings | None = None) -> None:
        self.clock = ManualClock()
        self.memory = MemoryStore(self.clock)
        self.faulty = FaultyStore(self.memory)
        self.store = RetryingStore(self.faulty, self.clock, seeded_randomness(3), settings or RetrySettings())

    def calls(self) -> list[str]:
        return [name for name, _ in self.faulty.history]

    def content(self, key: str = KEY) -> bytes:
        return self.memory.get_range(key, 0, self.memory.head(key).size_bytes)


@pytest.fixture
def world() -> World:
    return World()


def test_a_refused_request_is_made_again_after_a_pause(world: World) -> None:
    began_ms = world.clock.monotonic_ms()
    world.faulty.fail_next(Fault.REFUSED, Fault.REFUSED)

    world.store.put(KEY, [b"content"])

    assert world.calls() == ["put"] * 3
    assert world.content() == b"content"
    assert world.clock.monotonic_ms() > began_ms


def test_a_put_whose_answer_was_lost_is_found_and_not_made_again(world: World) -> None:
    world.faulty.fail_next(Fault.AFTER)

    world.store.put(KEY, [b"con", b"tent"])

    assert world.calls() == ["put", "head", "get_range"]
    assert world.content() == b"content"


def test_a_put_that_did_not_happen_is_made_again(world: World) -> None:
    world.faulty.fail_next(Fault.BEFORE)

    world.store.put(KEY, [b"content"])

    assert world.calls() == ["put", "head", "put"]
    assert world.content() == b"content"


@pytest.mark.parametrize("others", [b"another size", b"CONTENT"])
def test_rule_11_a_put_whose_answer_was_lost_replaces_no_other_object(world: World, others: bytes) -> None:
    world.memory.put(KEY, [others])
    world.faulty.fail_next(Fault.BEFORE)

    with pytest.raises(ObjectAlreadyExists, match="an older copy"):
        world.store.put(KEY, [b"content"])

    assert world.content() == others


def test_rule_11_a_completed_upload_replaces_no_object(world: World) -> None:
    upload = world.store.start_multipart(KEY)
    parts = [world.store.upload_part(upload, 1, 0, [b"content"])]
    world.memory.put(KEY, [b"another"])

    with pytest.raises(ObjectAlreadyExists, match="an older copy"):
        world.store.complete_multipart(upload, parts)

    assert world.content() == b"another"


def test_a_look_that_fails_leads_to_another_put(world: World) -> None:
    world.faulty.fail_next(Fault.BEFORE, Fault.BEFORE)

    world.store.put(KEY, [b"content"])

    assert world.calls() == ["put", "head", "put"]


def test_the_last_attempt_is_looked_for_too() -> None:
    world = World(RetrySettings(attempts_max=1))
    world.faulty.fail_next(Fault.AFTER)

    world.store.put(KEY, [b"content"])

    assert world.content() == b"content"


def test_a_put_if_absent_whose_answer_was_lost_recognises_its_own(world: World) -> None:
    world.faulty.fail_next(Fault.AFTER, call="put_if_absent")
    world.faulty.fail_next(Fault.BEFORE, call="head")

    world.store.put_if_absent(KEY, [b"mi", b"", b"ne"])

    assert world.calls() == ["put_if_absent", "head", "put_if_absent", "head", "get_range"]
    assert world.content() == b"mine"


@pytest.mark.parametrize("others", [b"else", b"longer than mine", b""])
def test_an_uncertain_put_if_absent_recognises_what_is_not_its_own(world: World, others: bytes) -> None:
    world.memory.put(KEY, [others])
    world.faulty.fail_next(Fault.BEFORE, call="put_if_absent")

    with pytest.raises(ObjectAlreadyExists):
        world.store.put_if_absent(KEY, [b"mine"])

    assert world.content() == others


def test_a_certain_refusal_is_not_taken_for_ones_own_even_with_equal_bytes(world: World) -> None:
    world.memory.put(KEY, [b"same"])
    world.faulty.fail_next(Fault.REFUSED)

    with pytest.raises(ObjectAlreadyExists):
        world.store.put_if_absent(KEY, [b"same"])

    assert world.calls() == ["put_if_absent", "put_if_absent"]


def test_failures_that_will_not_pass_are_reported_at_once(world: World) -> None:
    world.faulty.fail_next(Fault.DENIED)

    with pytest.raises(StoreDenied):
        world.store.put(KEY, [b"content"])
    with pytest.raises(ObjectNotFound):
        world.store.get_range(KEY, 0, 1)

    assert world.calls() == ["put", "get_range"]


def test_when_attempts_end_the_error_says_whether_the_put_may_have_happened() -> None:
    world = World(RetrySettings(attempts_max=2))

    world.faulty.fail_next(Fault.REFUSED, Fault.REFUSED)
    with pytest.raises(StoreTransient) as refused:
        world.store.put(KEY, [b"content"])
    world.faulty.fail_next(Fault.BEFORE, Fault.BEFORE, Fault.REFUSED)
    with pytest.raises(StoreTransient) as lost:
        world.store.put(KEY, [b"content"])

    assert not refused.value.uncertain
    assert lost.value.uncertain


def test_completing_whose_answer_was_lost_is_asked_again(world: World) -> None:
    upload = world.store.start_multipart(KEY)
    parts = [world.store.upload_part(upload, 1, 0, [b"content"])]
    world.faulty.fail_next(Fault.AFTER)

    world.store.complete_multipart(upload, parts)

    assert world.calls()[-2:] == ["complete_multipart"] * 2
    assert world.content() == b"content"


def test_a_listing_that_breaks_goes_on_behind_the_last_key(world: World) -> None:
    keys = [f"k/{index:03d}" for index in range(50)]
    for key in keys:
        world.memory.put(key, [b"1"])
    world.faulty.fail_next(Fault.PARTIAL, Fault.BEFORE, Fault.PARTIAL, Fault.REFUSED)

    assert [summary.key for summary in world.store.list()] == keys
    assert world.calls() == ["list"] * 5


def test_a_delete_done_in_part_is_finished(world: World) -> None:
    keys = [f"k/{index:03d}" for index in range(50)]
    for key in keys:
        world.memory.put(key, [b"1"])
    world.faulty.fail_next(Fault.PARTIAL, Fault.BEFORE)

    world.store.delete(keys)

    assert [*world.memory.list()] == []


def test_statistics_count_requests_as_made(world: World) -> None:
    world.faulty.fail_next(Fault.AFTER, Fault.REFUSED)
    world.store.put(KEY, [b"0123456789"])  # lost, and the look refused: put again
    world.store.get_range(KEY, 0, 4)
    world.faulty.fail_next(Fault.BEFORE)
    world.store.get_range(KEY, 4, 10)
    upload = world.store.start_multipart("a5/objects/2")
    world.store.upload_part(upload, 1, 0, [b"12345"])
    world.store.copy_part(upload, 2, 5, KEY, 0, 10)

    statistics = world.store.statistics()

    assert statistics.requests == {
        "put": 2,
        "head": 1,
        "get_range": 3,
        "start_multipart": 1,
        "upload_part": 1,
        "copy_part": 1,
    }
    assert statistics.retries == 2
    assert (statistics.bytes_read, statistics.bytes_written) == (10, 15)


@pytest.mark.parametrize(("limit", "meet"), [(2, False), (3, True)])
def test_requests_in_flight_are_limited(limit: int, meet: bool) -> None:
    three = Barrier(3, timeout=60 if meet else 0.3)
    met: list[bool] = []

    class Meeting(MemoryStore):
        def get_range(self, key: str, start: int, end: int) -> bytes:
            try:
                three.wait()
                met.append(True)
            except BrokenBarrierError:
                met.append(False)
            return super().get_range(key, start, end)

    memory = Meeting(ManualClock())
    memory.put(KEY, [b"0123456789"])
    settings = RetrySettings(requests_in_flight_max=limit)
    store = RetryingStore(memory, ManualClock(), seeded_randomness(1), settings)
    threads = [Thread(target=store.get_range, args=(KEY, 0, 1)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert met == [meet] * 3


def test_waiting_holds_no_request_slot() -> None:
    world = World(RetrySettings(requests_in_flight_max=1))
    world.memory.put(KEY, [b"0"])
    world.faulty.fail_next(Fault.REFUSED, call="head")
    read: list[bytes] = []
    world.clock.block_ms = lambda _: read.append(world.store.get_range(KEY, 0, 1))  # type: ignore[method-assign]

    world.store.head(KEY)

    assert read == [b"0"]


def test_a_store_that_is_closed_makes_no_further_attempt(world: World) -> None:
    """A thread that retries would keep the process that ends."""
    world.faulty.fail_next(Fault.BEFORE, Fault.BEFORE, call="put")
    world.store.close()
    with pytest.raises(StoreTransient):
        world.store.put(KEY, [b"x"])
    assert [name for name, _ in world.faulty.history].count("put") == 1


def test_a_listing_that_always_fails_ends_as_other_requests_do() -> None:
    world = World(RetrySettings(attempts_max=3))
    world.memory.put(KEY, [b"1"])
    world.faulty.fail_next(*[Fault.REFUSED] * 4)
    began_ms = world.clock.monotonic_ms()

    with pytest.raises(StoreTransient, match=r"list .* failed 3 times"):
        list(world.store.list())

    assert world.calls() == ["list"] * 3
    assert world.clock.monotonic_ms() > began_ms


def test_each_key_of_a_listing_has_all_attempts() -> None:
    """What failed before a key that came does not count for the next."""
    world = World(RetrySettings(attempts_max=2))
    keys = [f"k/{index}" for index in range(4)]
    for key in keys:
        world.memory.put(key, [b"1"])
    world.faulty.fail_next(Fault.REFUSED, Fault.PARTIAL, Fault.PARTIAL)
    assert [summary.key for summary in world.store.list()] == keys
    statistics = world.store.statistics()
    assert statistics.requests == {"list": len(world.calls())}
    assert statistics.retries < statistics.requests["list"]


@pytest.mark.parametrize("found", [b"another size", b"0123456789"])
def test_looking_whether_a_put_happened_is_counted(found: bytes) -> None:
    world = World()
    world.memory.put(KEY, [found])
    world.faulty.fail_next(Fault.BEFORE)
    if len(found) == 10:
        world.store.put(KEY, [b"0123456789"])
    else:
        with pytest.raises(ObjectAlreadyExists):
            world.store.put(KEY, [b"0123456789"])
    counted = {"put": 1, "head": 1, "get_range": 1} if len(found) == 10 else {"put": 2, "head": 1}
    assert world.store.statistics().requests == counted


def test_an_upload_whose_answer_was_lost_is_completed_if_the_object_has_its_size() -> None:
    for size_bytes, stands in ((5, True), (4, False)):
        world = World()
        upload = world.store.start_multipart(KEY)
        part = world.store.upload_part(upload, 1, 0, [b"12345"])
        world.memory.abort_multipart(upload)
        world.memory.put(KEY, [b"x" * size_bytes])
        world.faulty.fail_next(Fault.BEFORE)
        if stands:
            world.store.complete_multipart(upload, [part])
        else:
            with pytest.raises(Exception, match=KEY):
                world.store.complete_multipart(upload, [part])


CERTAIN = StoreTransient("SlowDown", uncertain=False)
UNCERTAIN = StoreTransient("time-out")


def test_the_wait_is_random_up_to_a_maximum_that_doubles_to_a_limit() -> None:
    settings = RetrySettings(backoff_ms_min=50, backoff_ms_max=1_000)
    rng = seeded_randomness(1)
    longest = {
        failures: max(settings.backoff_ms(failures, rng) for _ in range(2_000))
        for failures in (1, 2, 4, 9, 5_000)
    }

    for failures, limit_ms in {1: 100, 2: 200, 4: 800, 9: 1_000, 5_000: 1_000}.items():
        assert 0.98 * limit_ms < longest[failures] <= limit_ms
    shortest = min(settings.backoff_ms(4, rng) for _ in range(2_000))
    assert 0 <= shortest < 16


def test_attempts_end_at_their_number() -> None:
    attempts = Attempts("put k", RetrySettings(attempts_max=3), ManualClock(), seeded_randomness(1))
    attempts.wait_after(CERTAIN)
    attempts.wait_after(CERTAIN)

    with pytest.raises(
        StoreTransient, match=r"put k failed 3 times in \d+ ms; the last failure: SlowDown"
    ) as caught:
        attempts.wait_after(CERTAIN)

    assert not caught.value.uncertain
    assert caught.value.__cause__ is CERTAIN


def test_no_attempt_begins_after_the_deadline() -> None:
    clock = ManualClock()
    began_ms = clock.now_ms()
    settings = RetrySettings(attempts_max=10_000, backoff_ms_max=1_000, deadline_ms=30_000)
    attempts = Attempts("put k", settings, clock, seeded_randomness(1))

    with pytest.raises(StoreTransient):
        while True:
            attempts.wait_after(CERTAIN)
            assert clock.now_ms() - began_ms <= 30_000

    assert attempts.failures > 30
    assert clock.now_ms() - began_ms > 29_000, "the next wait, of at most a second, would have been too long"


def test_one_uncertain_attempt_makes_the_outcome_uncertain() -> None:
    attempts = Attempts("put k", RetrySettings(attempts_max=3), ManualClock(), seeded_randomness(1))
    attempts.wait_after(CERTAIN)
    attempts.wait_after(UNCERTAIN)

    with pytest.raises(StoreTransient) as caught:
        attempts.wait_after(CERTAIN)

    assert caught.value.uncertain


def test_progress_starts_the_count_anew() -> None:
    clock = ManualClock()
    attempts = Attempts("list", RetrySettings(attempts_max=2, deadline_ms=1_000), clock, seeded_randomness(1))
    for _ in range(5):
        attempts.wait_after(CERTAIN)
        clock.advance_ms(900)
        attempts.restart()

    assert attempts.failures == 0


def test_requests_retries_and_bytes_are_counted() -> None:
    counter = RequestCounter()
    assert counter.statistics() == StoreStatistics({}, 0, 0, 0) and counter.seconds() == {}
    counter.count_request("put")
    counter.count_request("put", is_retry=True)
    counter.count_request("head")
    counter.count_bytes(written=7)
    counter.count_bytes(read=3, written=1)
    before = counter.statistics()
    assert before == StoreStatistics({"put": 2, "head": 1}, 1, 3, 8)
    assert (before.requests_of("put"), before.requests_of("delete")) == (2, 0)
    counter.count_request("put")
    assert before.requests_of("put") == 2, "what was read does not change"


def test_seconds_are_kept_by_request() -> None:
    counter = RequestCounter()
    for kind, seconds in (("put", 0.5), ("put", 1.5), ("head", 0.25)):
        counter.observe(kind, seconds)
    assert {kind: (counts.count, counts.total) for kind, counts in counter.seconds().items()} == {
        "put": (2, 2.0),
        "head": (1, 0.25),
    }


def test_statistics_add_up_and_give_what_came_since() -> None:
    early, later = StoreStatistics({"put": 2}, 1, 3, 8), StoreStatistics({"put": 5, "head": 1}, 4, 10, 20)
    assert early + later == StoreStatistics({"put": 7, "head": 1}, 5, 13, 28)
    assert later - early == StoreStatistics({"put": 3, "head": 1}, 3, 7, 12)
