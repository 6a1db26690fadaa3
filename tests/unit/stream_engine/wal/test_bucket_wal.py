"""The log in a bucket while it is written: bulks, the order of answers, deletions, failures, the fence."""

import asyncio

import pytest
from msgspec.structs import replace

from siltstone.object_formats.identity import LogIdentity
from siltstone.object_store.memory import MemoryStore
from siltstone.stream_engine.wal.port import ConditionalPutIgnored, WalInUse, WalWriteFailed
from support.engine.bucket_wal_tests import in_bulks, offsets, recovered, run
from support.engine.faulty_store import Fault, FaultyStore
from support.engine.wal_lives import NODE, STORE_ID, BucketLives, HeldPutCalls
from support.engine.wal_node import SETTINGS
from support.scenarios import in_loop_of


@in_loop_of(run)
async def test_w16_appends_during_a_put_share_an_object() -> None:
    calls = HeldPutCalls(1, 2)
    lives = BucketLives(settings=replace(SETTINGS, group_bytes_max=2**20, capacity_bytes=2**22))
    life = lives.open(calls=calls)
    await life.begin(1)
    for offset in range(1000):
        if offset % 10 == 0:
            await life.pass_ms(1, step_ms=1)
        position = life.append(offset)
    assert calls.asked == [0, 0, 1, 2], "the claim twice, a bulk at once, one after 50 ms"
    calls.release(1)
    calls.release(2)
    await life.until_durable(position)
    assert lives.seqs(1) == [0, 1, 2, 3]
    assert await recovered(lives, 2) == [*range(1000)]


@in_loop_of(run)
async def test_an_append_leaves_at_once_while_no_put_is_under_way_and_the_ceiling_allows_it() -> None:
    lives = BucketLives()
    life = lives.open()
    await life.begin(1)
    waited = []
    for offset in range(23):
        before_ms = life.clock.monotonic_ms()
        await life.append_durably(offset)
        waited.append(life.clock.monotonic_ms() - before_ms)
    assert waited == [*[0] * 21, 50, 50], "a second's worth, and then one for each interval"
    await life.pass_ms(100)
    before_ms = life.clock.monotonic_ms()
    await life.append_durably(23)
    assert life.clock.monotonic_ms() == before_ms
    await life.close()


@in_loop_of(run)
async def test_what_gathered_during_a_put_leaves_with_its_answer() -> None:
    calls = HeldPutCalls(1)
    life = BucketLives().open(calls=calls)
    await life.begin(1)
    life.append(0)
    await life.pass_ms(10, step_ms=1)
    position = life.append(1)
    await life.pass_ms(10, step_ms=1)
    assert calls.asked == [0, 0, 1]
    calls.release(1)
    before_ms = life.clock.monotonic_ms()
    await life.until_durable(position)
    assert life.clock.monotonic_ms() - before_ms <= 1, "30 ms before its interval"
    await life.close()


@in_loop_of(run)
async def test_a_bulk_is_cut_when_it_is_large_and_at_most_so_many_are_under_way() -> None:
    calls = HeldPutCalls(*range(1, 100))
    lives = BucketLives(settings=replace(SETTINGS, bulks_in_flight_max=3))
    life = lives.open(calls=calls)
    await life.begin(1)
    for offset in range(200):
        life.append(offset)
    await life.pass_ms(50, step_ms=1)
    assert calls.asked == [0, 0, 1, 2, 3], "the claim twice, and three bulks that no interval held up"
    await life.pass_ms(1_000)
    assert calls.asked == [0, 0, 1, 2, 3]
    for seq in range(1, 100):
        calls.release(seq)
    await life.until_durable(life.wal.statistics().bytes_untrimmed)
    await life.close()
    assert await recovered(lives, 2) == [*range(200)]


@in_loop_of(run)
async def test_w02_bulks_are_answered_in_order_whichever_lands_first() -> None:
    calls = HeldPutCalls(2)
    lives = BucketLives()
    life = lives.open(calls=calls)
    await life.begin(1)
    ends = await in_bulks(life, 1, 1, 1)
    assert lives.seqs(1) == [0, 1, 3]
    assert life.heard.durable == ends[:1]
    calls.release(2)
    await life.until_durable(ends[2])
    assert life.heard.durable == [ends[0], ends[2]]
    await life.close()


@in_loop_of(run)
async def test_w03_what_follows_a_bulk_that_never_landed_is_neither_answered_nor_recovered() -> None:
    calls = HeldPutCalls(2)
    lives = BucketLives()
    life = lives.open(calls=calls)
    await life.begin(1)
    ends = await in_bulks(life, 2, 3, 4)
    assert life.heard.durable == ends[:1]
    assert await recovered(lives, 2) == [0, 1]
    calls.release(2)
    await life.pass_ms(200)
    assert life.heard.durable == ends[:1], "its seal was there first"
    assert isinstance(life.heard.failures[0], WalWriteFailed)
    assert "taken over" in str(life.heard.failures[0])
    assert await recovered(lives, 3) == []


@in_loop_of(run)
async def test_a_log_that_is_closed_acknowledges_what_was_appended_before() -> None:
    calls = HeldPutCalls(1)
    lives = BucketLives()
    life = lives.open(calls=calls)
    await life.begin(1)
    await in_bulks(life, 1)
    end = life.append(1)
    closing = asyncio.ensure_future(life.wal.close())
    await life.pass_ms(100)
    assert not closing.done() and not life.heard.durable
    calls.release(1)
    await life.passing(closing)
    assert life.durable == end
    assert await recovered(lives, 2) == [0, 1]


@in_loop_of(run)
async def test_a_later_claim_stands_when_its_object_has_landed() -> None:
    calls = HeldPutCalls(1)
    lives = BucketLives()
    life = lives.open(calls=calls)
    await life.begin(1)
    claiming = asyncio.ensure_future(life.wal.claim(LogIdentity(STORE_ID, NODE, 1, 9)))
    await life.pass_ms(1_000)
    assert not claiming.done()
    assert await life.wal.identity() == LogIdentity(STORE_ID, NODE, 1), "the earlier one"
    calls.release(1)
    await life.passing(claiming)
    assert await lives.open().wal.identity() == LogIdentity(STORE_ID, NODE, 1, 9)
    await life.close()


@pytest.mark.parametrize("fault", [Fault.BEFORE, Fault.AFTER, Fault.LATE, Fault.REFUSED])
@in_loop_of(run)
async def test_w04_a_put_whose_answer_was_lost_is_found_by_its_content(fault: Fault) -> None:
    lives = BucketLives()
    store = FaultyStore(lives.store)
    life = lives.open(store=store)
    await life.begin(1)
    store.fail_next(fault, call="put_if_absent")
    ends = await in_bulks(life, 2, 2)
    await life.until_durable(ends[-1])
    assert not life.heard.failures
    await life.close()
    assert await recovered(lives, 2) == [0, 1, 2, 3]


@in_loop_of(run)
async def test_w05_a_put_whose_answer_was_lost_and_that_meets_the_seal_is_fenced() -> None:
    lives = BucketLives()
    store = FaultyStore(lives.store)
    life = lives.open(store=store)
    await life.begin(1)
    (end,) = await in_bulks(life, 1)
    store.fail_next(Fault.BEFORE, call="put_if_absent")
    life.append(1)
    while not any(fault for _, fault in store.history):
        await life.pass_ms(20, step_ms=10)
    assert await recovered(lives, 2) == [0]
    await life.pass_ms(10_000)
    assert life.heard.durable == [end]
    assert "taken over" in str(life.heard.failures[0])
    await life.close()


@in_loop_of(run)
async def test_t22_fo08_a_life_that_was_taken_over_acknowledges_nothing_more() -> None:
    lives = BucketLives()
    calls = HeldPutCalls(3, 4)
    old = lives.open(calls=calls)
    await old.begin(1)
    ends = await in_bulks(old, 1, 1)
    await in_bulks(old, 1, 1, 1)
    young = lives.open()
    assert offsets(await young.begin(2)) == [0, 1]
    await young.append_durably(2)
    calls.release(4)
    await old.pass_ms(200)
    calls.release(3)
    await old.pass_ms(200)
    assert old.heard.durable == ends
    assert len(old.heard.failures) == 1
    await old.close()
    await young.close()
    assert await recovered(lives, 3) == [2]


@in_loop_of(run)
async def test_fo09_a_life_that_slept_until_all_its_objects_were_deleted_meets_the_seal() -> None:
    lives = BucketLives()
    old = lives.open()
    await old.begin(1)
    await in_bulks(old, 1, 1)
    for epoch in range(2, 6):
        await recovered(lives, epoch)
    assert lives.seqs(1) == [3]
    old.append(7)
    await old.pass_ms(500)
    assert "taken over" in str(old.heard.failures[0])
    await old.close()


@in_loop_of(run)
async def test_a_second_process_with_a_copy_of_the_metadata_is_refused() -> None:
    lives = BucketLives()
    await lives.open().begin(1)
    other = lives.open()
    with pytest.raises(WalInUse, match="another copy of the metadata"):
        await other.begin(1)


def test_w12_a_bucket_that_replaces_objects_is_refused():
    class Replacing(MemoryStore):
        def put_if_absent(self, key, buffers):
            self._objects[key] = self._stored(buffers)

    async def main():
        lives = BucketLives()
        lives.store = Replacing(lives.clock)
        with pytest.raises(ConditionalPutIgnored, match=r"ignores If-None-Match.*engine\.wal\.location=file"):
            await lives.open().begin(1)

    run(main())


@in_loop_of(run)
async def test_how_long_puts_take_is_measured_from_the_cut_of_their_bulk() -> None:
    calls = HeldPutCalls(1)
    lives = BucketLives()
    life = lives.open(calls=calls)
    await life.begin(1)
    await life.pass_ms(10_000)
    (end,) = await in_bulks(life, 1)
    await life.pass_ms(1_000)
    calls.release(1)
    await life.until_durable(end)
    seconds = life.wal.statistics().write_seconds
    assert seconds.count == 1 and 1 < seconds.total < 1.3
    await life.close()
