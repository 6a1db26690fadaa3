"""The log in a bucket when it is taken over: seals, what is read, what is refused."""

import asyncio

import pytest
from msgspec.structs import replace

from siltstone.object_formats.identity import LogIdentity
from siltstone.object_formats.log_file import DamagedWal
from siltstone.object_formats.wal_object import (
    WalObjectKind,
    decode_seal_body,
    decode_wal_object,
    wal_object_key,
)
from siltstone.object_store.port import StoreDenied
from siltstone.runtime.blocking import InlineCalls
from siltstone.stream_engine.wal import bucket_log
from siltstone.stream_engine.wal.port import WalOfAnotherNode, WalOfAnotherStore
from support.engine.wal_lives import NODE, STORE_ID, BucketLives, HeldPutCalls, WalLife
from support.engine.wal_node import SETTINGS
from support.scenarios import in_loop_of


def run(scenario) -> None:
    asyncio.run(asyncio.wait_for(scenario, 60))


def offsets(batches: list) -> list[int]:
    return [one.base_offset for one in batches]


async def killed_life(lives: BucketLives, bulks: int, node_epoch: int = 1, **options) -> WalLife:
    """A life that acknowledged so many bulks of one record, offsets from 0, and was killed."""
    life = lives.open(**options)
    await life.begin(node_epoch)
    for offset in range(bulks):
        await life.append_durably(offset)
    return life


async def taken_over(lives: BucketLives, node_epoch: int) -> list[int]:
    """Seals and reads; nothing is committed, claimed or deleted."""
    life = lives.open()
    await life.passing(life.wal.fence(node_epoch))
    return offsets([each for _, each in await life.passing(life._recovered())])


def stored(lives: BucketLives, epoch: int, seq: int) -> bytes:
    return lives.store._objects[wal_object_key(NODE, epoch, seq)].content


def replaced(lives: BucketLives, epoch: int, seq: int, content: bytes) -> None:
    key = wal_object_key(NODE, epoch, seq)
    lives.store._objects[key] = lives.store._objects[key]._replace(content=content)


def lost(lives: BucketLives, epoch: int, *seqs: int) -> None:
    for seq in seqs:
        del lives.store._objects[wal_object_key(NODE, epoch, seq)]


# -- the seal ----------------------------------------------------------------------------------------------


@in_loop_of(run)
async def test_a_seal_says_who_and_when_at_the_first_free_seq() -> None:
    lives = BucketLives()
    await killed_life(lives, 3)
    assert await taken_over(lives, 5) == [0, 1, 2]
    header, body = decode_wal_object(stored(lives, 1, 4))
    assert header.kind is WalObjectKind.SEAL and (header.node_epoch, header.seq) == (1, 4)
    seal = decode_seal_body(body)
    assert (seal.node_id, seal.node_epoch) == (NODE, 5)
    assert seal.sealed_ms == lives.clock.now_ms()


@in_loop_of(run)
async def test_taking_over_again_reads_the_same_and_puts_no_second_seal() -> None:
    lives = BucketLives()
    await killed_life(lives, 3)
    for epoch in (2, 3, 4):
        assert await taken_over(lives, epoch) == [0, 1, 2]
        assert lives.seqs(1) == [0, 1, 2, 3, 4]


@in_loop_of(run)
async def test_w06_of_two_seals_at_once_one_wins_and_both_read_the_same() -> None:
    lives = BucketLives()
    await killed_life(lives, 3)
    calls = HeldPutCalls(4)
    slow = lives.open(calls=calls)
    sealing = asyncio.ensure_future(slow.wal.fence(2))
    await slow.pass_ms(10, step_ms=1)
    assert calls.asked == [4]
    assert await taken_over(lives, 3) == [0, 1, 2]
    calls.release(4)
    await slow.passing(sealing)
    assert offsets([each for _, each in await slow.passing(slow._recovered())]) == [0, 1, 2]
    assert lives.seqs(1) == [0, 1, 2, 3, 4]


@in_loop_of(run)
async def test_a_bulk_that_lands_before_the_seal_is_read_and_the_seal_goes_behind_it() -> None:
    lives = BucketLives()
    writer_calls = HeldPutCalls(3)
    writer = lives.open(calls=writer_calls)
    await writer.begin(1)
    for offset in range(2):
        await writer.append_durably(offset)
    writer.append(2)
    await writer.pass_ms(200)
    calls = HeldPutCalls(3)
    recoverer = lives.open(calls=calls)
    sealing = asyncio.ensure_future(recoverer.wal.fence(2))
    await writer.pass_ms(10, step_ms=1)
    writer_calls.release(3)
    await writer.pass_ms(10, step_ms=1)
    calls.release(3)
    await recoverer.passing(sealing)
    found = await recoverer.passing(recoverer._recovered())
    assert offsets([each for _, each in found]) == [0, 1, 2]
    assert lives.seqs(1) == [0, 1, 2, 3, 4]


@in_loop_of(run)
async def test_w22_a_life_that_died_after_its_claim_is_sealed_behind_it() -> None:
    lives = BucketLives()
    await killed_life(lives, 0)
    assert await taken_over(lives, 2) == []
    assert lives.seqs(1) == [0, 1]
    assert await lives.open().wal.identity() == LogIdentity(STORE_ID, NODE, 1)


# -- what is read ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("left", [(1, 3), (1, 2), (2, 3), (1,), ()])
@in_loop_of(run)
async def test_w20_a_deletion_that_stopped_half_way_hides_nothing(left: tuple[int, ...]) -> None:
    lives = BucketLives()
    life = await killed_life(lives, 3)
    await life.wal.trim(life.durable)
    for offset in (3, 4):
        await life.append_durably(offset)
    lost(lives, 1, *sorted({1, 2, 3} - set(left)))
    assert await taken_over(lives, 2) == [3, 4]


@in_loop_of(run)
async def test_w21_a_second_attempt_that_lands_after_its_object_was_deleted_hides_nothing() -> None:
    lives = BucketLives()
    life = await killed_life(lives, 6)
    late = stored(lives, 1, 3)
    await life.wal.trim(life.durable)
    await life.pass_ms(30_000)
    for offset in (6, 7):
        await life.append_durably(offset)
    assert lives.seqs(1) == [0, 7, 8, 9]
    lives.store.put(wal_object_key(NODE, 1, 3), [late])
    assert await taken_over(lives, 2) == [6, 7]


@in_loop_of(run)
async def test_w23_a_sealed_life_of_which_some_is_deleted_is_read_to_its_seal_and_not_sealed_again() -> None:
    lives = BucketLives()
    await killed_life(lives, 5)
    assert await taken_over(lives, 2) == [0, 1, 2, 3, 4]
    late = stored(lives, 1, 2)
    lost(lives, 1, 1, 2, 4)
    lives.store.put(wal_object_key(NODE, 1, 2), [late])
    assert await taken_over(lives, 3) == [1, 2, 4]
    assert lives.seqs(1) == [0, 2, 3, 5, 6]


@in_loop_of(run)
async def test_litter_behind_a_seal_is_passed_over_and_deleted_by_the_next_life() -> None:
    lives = BucketLives()
    calls = HeldPutCalls(3)
    old = lives.open(calls=calls)
    await old.begin(1)
    for offset in range(5):
        old.append(offset)
        await old.pass_ms(200)
    young = lives.open()
    assert offsets(await young.begin(2)) == [0, 1]
    assert lives.seqs(1) == [0, 1, 2, 3, 4, 5]
    await young.pass_ms(30_000)
    assert lives.seqs(1) == [3]
    await young.close()


@in_loop_of(run)
async def test_w09_positions_never_go_back() -> None:
    lives = BucketLives()
    before = 0
    for epoch in range(1, 8):
        life = lives.open()
        await life.begin(epoch)
        end = await life.append_durably(0)
        assert end > before
        before = end
        await life.wal.trim(end)
        if epoch % 2:
            await life.pass_ms(30_000)
            await life.close()


@in_loop_of(run)
async def test_w17_a_log_of_more_objects_than_one_listing_returns() -> None:
    lives = BucketLives(settings=replace(SETTINGS, group_bytes_max=1, capacity_bytes=2**20))
    life = await killed_life(lives, 0)
    await life.until_durable([life.append(offset, 10) for offset in range(1_005)][-1])
    assert len(lives.seqs(1)) == 1_006
    assert await taken_over(lives, 2) == [*range(1_005)]


@pytest.mark.parametrize(("bytes_max", "objects_max"), [(2**20, 8), (1_000, 4), (1, 1)])
def test_the_log_is_read_ahead_within_a_limit_of_bytes_and_of_objects(monkeypatch, bytes_max, objects_max):
    """Objects of some 320 bytes: as many are read at a time as the limit has room for, and one at least."""
    monkeypatch.setattr(bucket_log, "READ_AHEAD_BYTES_MAX", bytes_max)

    async def main():
        lives = BucketLives()
        await killed_life(lives, 40)
        life = lives.open()
        await life.wal.fence(2)
        whole, under_way, most = life.wal._log.whole, 0, 0

        async def counted(place, size_bytes):
            nonlocal under_way, most
            under_way += 1
            most = max(most, under_way)
            for _ in range(10):
                await asyncio.sleep(0)
            under_way -= 1
            return await whole(place, size_bytes)

        life.wal._log.whole = counted
        found = [each.batch.base_offset async for records in life.wal.recover() for each in records]
        assert found == [*range(40)]
        assert most == objects_max

    run(main())


# -- what is refused ---------------------------------------------------------------------------------------


@in_loop_of(run)
async def test_t21_an_acknowledged_object_that_is_missing_is_damage() -> None:
    lives = BucketLives()
    await killed_life(lives, 5)
    lost(lives, 1, 3)
    with pytest.raises(DamagedWal, match=r"00003 in memory:unnamed is missing.*restore"):
        await taken_over(lives, 2)
    assert lives.seqs(1) == [0, 1, 2, 4, 5], "nothing is sealed or deleted"


@pytest.mark.parametrize("change", ["flipped", "cut", "long", "empty"])
@pytest.mark.parametrize("seq", [2, 5])
@in_loop_of(run)
async def test_w14_a_damaged_object_is_named_and_nothing_is_deleted(change: str, seq: int) -> None:
    lives = BucketLives()
    await killed_life(lives, 5)
    whole = stored(lives, 1, seq)
    damaged = {
        "flipped": whole[:130] + bytes([whole[130] ^ 1]) + whole[131:],
        "cut": whole[:-1], "long": whole + b"\0", "empty": b"",
    }  # fmt: skip
    replaced(lives, 1, seq, damaged[change])
    for epoch in (2, 3):
        with pytest.raises(DamagedWal, match=f"{wal_object_key(NODE, 1, seq)}.*; restore the object$"):
            await taken_over(lives, epoch)
    replaced(lives, 1, seq, whole)
    assert await taken_over(lives, 4) == [0, 1, 2, 3, 4]


@in_loop_of(run)
async def test_an_object_under_the_key_of_another_is_damage() -> None:
    lives = BucketLives()
    await killed_life(lives, 5)
    replaced(lives, 1, 2, stored(lives, 1, 4))
    with pytest.raises(DamagedWal, match="copied or renamed"):
        await taken_over(lives, 2)


@in_loop_of(run)
async def test_w13_objects_of_another_store_or_node_are_refused() -> None:
    lives = BucketLives()
    await killed_life(lives, 2)
    other = lives.open(store_id="cd" * 16)
    for attempt in (other.wal.identity, lambda: other.wal.fence(2), other.wal.is_empty):
        with pytest.raises(WalOfAnotherStore, match="another store"):
            await attempt()
    moved = BucketLives()
    for summary in lives.store.list():
        content = lives.store.get_range(summary.key, 0, summary.size_bytes)
        epoch, seq = map(int, summary.key.split("/")[3:])
        moved.store.put(wal_object_key(NODE + 1, epoch, seq), [content])
    with pytest.raises(WalOfAnotherNode, match=f"node {NODE}, this is node {NODE + 1}"):
        await moved.open(node_id=NODE + 1).wal.identity()


@in_loop_of(run)
async def test_other_keys_below_the_prefix_are_passed_over() -> None:
    lives = BucketLives()
    await killed_life(lives, 2)
    lives.store.put(wal_object_key(NODE, 1, 0)[:-20] + "notes", [b"x"])
    assert await taken_over(lives, 2) == [0, 1]


@in_loop_of(run)
async def test_a_log_is_empty_when_it_holds_no_record_that_may_not_be_committed() -> None:
    lives = BucketLives()
    life = await killed_life(lives, 2)
    assert not await lives.open().wal.is_empty()
    await life.wal.trim(life.durable)
    await life.pass_ms(30_000)
    assert await lives.open().wal.is_empty()


@in_loop_of(run)
async def test_a_log_whose_records_are_all_committed_is_empty_though_none_of_its_objects_is_deleted_yet() -> (
    None
):
    lives = BucketLives()
    life = await killed_life(lives, 2)
    await life.wal.trim(life.durable)
    assert not await lives.open().wal.is_empty(), "no object says that they are committed"
    await life.passing(life.wal.claim(LogIdentity(STORE_ID, NODE, 1, 9)))
    assert lives.seqs(1) == [0, 1, 2, 3]
    assert await lives.open().wal.is_empty()


def test_a_read_that_fails_leaves_no_other_read_under_way():
    class FailingCalls(InlineCalls):
        async def run(self, call, *args, **kwargs):
            if getattr(call, "__name__", "") == "get_range" and args[0] == wal_object_key(NODE, 1, 2):
                raise StoreDenied("no permission to read")
            return await super().run(call, *args, **kwargs)

    async def main():
        lives = BucketLives()
        killed = await killed_life(lives, 4)
        life = lives.open(calls=FailingCalls())
        await life.passing(life.wal.fence(2))
        others = asyncio.all_tasks()
        with pytest.raises(StoreDenied):
            await life._recovered()
        assert asyncio.all_tasks() == others
        await killed.close()

    run(main())
