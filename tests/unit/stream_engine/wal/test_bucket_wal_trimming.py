"""The log in a bucket is trimmed, and what happens when the bucket denies or hangs."""

import asyncio
import logging

from siltstone.object_formats.identity import LogIdentity
from siltstone.object_store.memory import MemoryStore
from siltstone.object_store.port import StoreDenied
from siltstone.stream_engine.wal.bucket_wal import DELETE_KEYS
from support.engine.bucket_wal_tests import in_bulks, offsets, recovered, run
from support.engine.faulty_store import Fault, FaultyStore
from support.engine.wal_lives import NODE, STORE_ID, BucketLives, HeldPutCalls
from support.engine.wal_node import SETTINGS
from support.scenarios import in_loop_of

HOUR_MS = 3_600_000


class CountingStore(MemoryStore):
    """``done``: the requests that were made, by name."""

    def __init__(self, clock) -> None:
        super().__init__(clock)
        self.done: list[str] = []

    def put_if_absent(self, key, buffers):
        self.done.append("put")
        super().put_if_absent(key, buffers)

    def delete(self, keys):
        self.done.append("delete")
        super().delete(keys)

    def get_range(self, key, start, end):
        self.done.append("get")
        return super().get_range(key, start, end)

    def list(self, prefix="", after=""):
        self.done.append("list")
        return super().list(prefix, after)


@in_loop_of(run)
async def test_a_full_log_has_room_for_what_was_trimmed() -> None:
    lives = BucketLives()
    life = lives.open()
    await life.begin(1)
    while life.wal.has_room_for(1000):
        position = life.append(len(life.sent), 1000)
    await life.until_durable(position)
    record_bytes = position // len(life.sent)
    await life.wal.trim(record_bytes)
    assert life.wal.has_room_for(1000) and not life.wal.has_room_for(2000)
    await life.wal.trim(position)
    capacity_bytes = SETTINGS.capacity_bytes - (record_bytes - 1000)
    assert life.wal.has_room_for(capacity_bytes) and not life.wal.has_room_for(capacity_bytes + 1)
    await life.close()


@in_loop_of(run)
async def test_w16_an_idle_log_makes_one_put_and_one_delete_and_then_no_request() -> None:
    lives = BucketLives()
    lives.store = store = CountingStore(lives.clock)
    life = lives.open()
    await life.begin(1)
    ends = await in_bulks(life, 1, 1, 1)
    await life.wal.trim(ends[-1])
    store.done.clear()
    await life.pass_ms(HOUR_MS, step_ms=10_000)
    assert store.done == ["put", "delete"]
    await life.pass_ms(HOUR_MS, step_ms=10_000)
    assert store.done == ["put", "delete"]
    assert lives.seqs(1) == [0, 4], "the claim, and the object that says that nothing is kept"
    assert await recovered(lives, 2) == []


@in_loop_of(run)
async def test_a_log_that_never_took_an_append_makes_no_request() -> None:
    lives = BucketLives()
    lives.store = store = CountingStore(lives.clock)
    life = lives.open()
    await life.begin(1)
    store.done.clear()
    await life.pass_ms(HOUR_MS, step_ms=10_000)
    assert store.done == []


@in_loop_of(run)
async def test_nothing_is_deleted_before_an_acknowledged_object_says_that_it_is_not_kept() -> None:
    lives = BucketLives()
    calls = HeldPutCalls(4)
    life = lives.open(calls=calls)
    await life.begin(1)
    ends = await in_bulks(life, 1, 1, 1)
    await life.wal.trim(ends[1])
    await in_bulks(life, 1)
    await life.pass_ms(60_000, step_ms=1_000)
    assert lives.seqs(1) == [0, 1, 2, 3], "4 says it, and has not landed"
    calls.release(4)
    await life.pass_ms(30_000, step_ms=1_000)
    assert lives.seqs(1) == [0, 3, 4]
    await life.close()
    assert await recovered(lives, 2) == [2, 3]


@in_loop_of(run)
async def test_what_earlier_lives_left_is_deleted_soon_after_a_start_without_appends() -> None:
    lives = BucketLives()
    killed = lives.open()
    await killed.begin(1)
    await in_bulks(killed, 1, 1)
    life = lives.open()
    assert offsets(await life.begin(2)) == [0, 1]
    await life.pass_ms(30_000, step_ms=1_000)
    assert (lives.seqs(1), lives.seqs(2)) == ([3], [0]), "the seal, and the claim"
    await life.close()


@in_loop_of(run)
async def test_what_was_trimmed_is_deleted_when_a_later_object_has_landed() -> None:
    """The newest object with records stays, however long the log is idle, because no request is made for it alone."""
    lives = BucketLives()
    life = lives.open()
    await life.begin(1)
    (end,) = await in_bulks(life, 1)
    await life.wal.trim(end)
    await life.pass_ms(30_000, step_ms=1_000)
    assert lives.seqs(1) == [0, 1]
    await in_bulks(life, 1)
    await life.pass_ms(30_000, step_ms=1_000)
    assert lives.seqs(1) == [0, 2]
    await life.close()


@in_loop_of(run)
async def test_an_object_goes_when_the_last_of_its_records_is_committed_and_the_next_one_stays() -> None:
    lives = BucketLives()
    life = lives.open()
    await life.begin(1)
    ends = await in_bulks(life, 2, 2)
    await life.wal.trim(ends[0] - 1)
    await life.pass_ms(30_000, step_ms=1_000)
    assert lives.seqs(1) == [0, 1, 2]
    await life.wal.trim(ends[0])
    await life.pass_ms(30_000, step_ms=1_000)
    assert lives.seqs(1) == [0, 2, 3], "3 says that 1 is not kept"
    await life.close()
    assert await recovered(lives, 2) == [2, 3]


@in_loop_of(run)
async def test_a_life_that_carries_the_log_keeps_the_objects_of_the_one_before() -> None:
    lives = BucketLives()
    killed = lives.open()
    await killed.begin(1)
    await in_bulks(killed, 1, 1, 1)
    carrying = lives.open()
    assert offsets(await carrying.begin(2, carry=True)) == [0, 1, 2]
    assert await carrying.wal.identity() == LogIdentity(STORE_ID, NODE, 2)
    await carrying.pass_ms(60_000, step_ms=1_000)
    assert await recovered(lives, 3) == [0, 1, 2], "its claim says that all are kept"


@in_loop_of(run)
async def test_a_busy_log_deletes_when_there_is_much_and_otherwise_from_time_to_time() -> None:
    lives = BucketLives()
    lives.store = store = CountingStore(lives.clock)
    life = lives.open()
    await life.begin(1)
    store.done.clear()
    for number in range(3 * DELETE_KEYS):
        (end,) = await in_bulks(life, 1)
        if number % 10 == 9:
            await life.wal.trim(end)
    seconds = 3 * DELETE_KEYS / 5
    assert 3 <= store.done.count("delete") <= seconds / 10 + 3
    assert store.done.count("put") == 3 * DELETE_KEYS
    assert len(lives.seqs(1)) < DELETE_KEYS
    await life.close()


@in_loop_of(run)
async def test_a_bucket_that_refuses_to_delete_costs_space_only(caplog) -> None:
    lives = BucketLives()
    store = FaultyStore(lives.store)
    life = lives.open(store=store)
    await life.begin(1)
    ends = await in_bulks(life, 1, 1, 1)
    store.fail_next(*[Fault.DENIED] * 3, call="delete")
    await life.wal.trim(ends[-1])
    await life.pass_ms(25_000, step_ms=1_000)
    assert "could not be deleted" in caplog.text
    assert lives.seqs(1) == [0, 1, 2, 3, 4]
    await life.pass_ms(60_000, step_ms=1_000)
    assert lives.seqs(1) == [0, 4]
    await life.close()


@in_loop_of(run)
async def test_deletions_that_fail_are_tried_again_once_each_interval() -> None:
    lives = BucketLives()
    store = FaultyStore(lives.store)
    life = lives.open(store=store)
    await life.begin(1)
    ends = await in_bulks(life, 1, 1, 1)
    store.fail_next(*[Fault.DENIED] * 100, call="delete")
    await life.wal.trim(ends[-1])
    before = len(store.history)
    await life.pass_ms(100_000, step_ms=1_000)
    tries = [call for call, _ in store.history[before:] if call == "delete"]
    assert 8 <= len(tries) <= 11
    await life.close()


@in_loop_of(run)
async def test_a_clean_end_leaves_the_claims_and_the_seals() -> None:
    lives = BucketLives()
    for epoch in (1, 2, 3):
        life = lives.open()
        await life.begin(epoch)
        (end,) = await in_bulks(life, 3)
        await life.wal.trim(end)
        await life.passing(life.wal.claim(LogIdentity(STORE_ID, NODE, epoch, 9)))
        await life.close()
    assert {epoch: lives.seqs(epoch) for epoch in (1, 2, 3)} == {1: [3], 2: [3], 3: [0, 2]}


@in_loop_of(run)
async def test_w15_a_bucket_that_denies_or_hangs_lets_appends_wait_and_says_so(caplog) -> None:
    caplog.set_level(logging.WARNING)
    lives = BucketLives()
    store = FaultyStore(lives.store)
    life = lives.open(store=store)
    await life.begin(1)
    store.fault_rate, store._faults = 1.0, (Fault.REFUSED,)
    while life.wal.has_room_for(1000):
        life.append(len(life.sent), 1000)
    await life.pass_ms(60_000, step_ms=500)
    trouble = life.wal.statistics().trouble
    assert "takes no objects" in trouble and "Check that the bucket can be reached" in trouble
    assert 1 <= caplog.text.count("appends wait") <= 4
    assert not life.heard.durable and not life.heard.failures
    store.calm()
    await life.pass_ms(10_000)
    assert life.durable == life.wal.statistics().bytes_untrimmed
    assert life.wal.statistics().trouble == ""
    assert "is written again" in caplog.text
    await life.close()
    assert await recovered(lives, 2) == [*range(len(life.sent))]


def test_a_bucket_that_withdraws_the_permission_and_gives_it_back():
    class Denying(MemoryStore):
        denies = False

        def put_if_absent(self, key, buffers):
            if self.denies:
                raise StoreDenied("the token has expired")
            super().put_if_absent(key, buffers)

    async def main():
        lives = BucketLives()
        lives.store = store = Denying(lives.clock)
        life = lives.open()
        await life.begin(1)
        store.denies = True
        ends = await in_bulks(life, 1, 1)
        trouble = life.wal.statistics().trouble
        assert "the token has expired" in trouble and "permission to write" in trouble
        store.denies = False
        await life.until_durable(ends[-1])
        assert life.wal.statistics().trouble == ""
        await life.close()

    run(main())


@in_loop_of(run)
async def test_a_put_that_hangs_is_said_and_a_process_that_ends_does_not_wait_for_it(caplog) -> None:
    calls = HeldPutCalls(1)
    lives = BucketLives()
    life = lives.open(calls=calls)
    await life.begin(1)
    life.append(0)
    await life.pass_ms(4_000)
    assert life.wal.statistics().trouble == ""
    await life.pass_ms(40_000)
    assert "has not answered for" in life.wal.statistics().trouble
    assert caplog.text.count("appends wait") == 2
    before_ms = life.clock.monotonic_ms()
    await life.close()
    assert life.clock.monotonic_ms() - before_ms < 5_000


@in_loop_of(run)
async def test_a_bucket_that_still_hangs_is_told_although_another_put_has_landed() -> None:
    calls = HeldPutCalls(1, 2)
    lives = BucketLives()
    life = lives.open(calls=calls)
    await life.begin(1)
    ends = await in_bulks(life, 1, 1)
    await life.pass_ms(20_000)
    calls.release(1)
    await life.until_durable(ends[0])
    assert "has not answered for" in life.wal.statistics().trouble
    calls.release(2)
    await life.until_durable(ends[1])
    assert life.wal.statistics().trouble == ""
    await life.close()


@in_loop_of(run)
async def test_a_log_that_is_closed_leaves_no_task_and_has_counted_its_bulks() -> None:
    lives = BucketLives()
    life = lives.open()
    others = asyncio.all_tasks()
    await life.begin(1)
    (*_, end) = await in_bulks(life, 2, 3)
    before_ms = life.clock.monotonic_ms()
    await life.close()
    assert life.clock.monotonic_ms() - before_ms < 100, "there is nothing to wait for"
    counted = life.wal.statistics()
    assert (counted.appends, counted.groups, counted.bytes_written) == (5, 2, end)
    assert asyncio.all_tasks() == others
