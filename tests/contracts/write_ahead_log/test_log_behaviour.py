"""What every write-ahead log does (W01)."""

import asyncio

import pytest

from siltstone.object_formats.batch_frame import encode_frame_header
from siltstone.object_formats.identity import LogIdentity
from siltstone.object_formats.log_file import RECORD_OVERHEAD_BYTES
from support.engine.batches import batch
from support.engine.wal_lives import NODE, STORE_ID
from support.engine.wal_node import SETTINGS
from support.scenarios import in_loop_of

RECORD_BYTES = RECORD_OVERHEAD_BYTES + 100


def offsets(batches: list) -> list[int]:
    return [one.base_offset for one in batches]


def run(scenario) -> None:
    asyncio.run(asyncio.wait_for(scenario, 60))


@in_loop_of(run)
async def test_w01_a_new_log_is_empty_and_nobodys(lives) -> None:
    life = lives.open()
    assert await life.wal.identity() is None
    assert await life.wal.is_empty()
    assert await life.begin(1) == []
    await life.close()


@in_loop_of(run)
async def test_w01_what_was_answered_is_recovered_in_order(lives) -> None:
    life = lives.open()
    await life.begin(1)
    for offset in range(30):
        await life.append_durably(offset, 50 + offset * 20)
    await life.close()
    following = lives.open()
    assert not await following.wal.is_empty()
    assert await following.begin(2) == life.sent
    await following.close()


@in_loop_of(run)
async def test_w01_the_newest_record_has_the_newest_version_of_the_metadata(lives) -> None:
    life = lives.open()
    await life.begin(1)
    for version in (7, 7, 9, 2**40):
        life.metadata_version = version
        await life.append_durably(len(life.sent))
        await life.append_durably(len(life.sent))
        found = await life.wal.newest_record()
        assert found is not None
        assert (found.batch, found.metadata_version) == (life.sent[-1], min(version, 2**32 - 1))
    await life.close()


@in_loop_of(run)
async def test_w01_a_log_without_records_has_no_newest_one(lives) -> None:
    life = lives.open()
    assert await life.wal.newest_record() is None
    await life.begin(1)
    assert await life.wal.newest_record() is None
    await life.close()
    following = lives.open()
    assert await following.wal.newest_record() is None
    await following.close()


@in_loop_of(run)
async def test_w01_the_frame_header_for_the_upload_is_the_one_in_the_log(lives) -> None:
    life = lives.open()
    await life.begin(1)
    one = batch(5, 9, 2, 30)
    queued = life.wal.append(one, 0)
    assert bytes(queued.frame_header) == encode_frame_header(one)
    await life.until_durable(queued.end_position)
    await life.close()


@in_loop_of(run)
async def test_w01_positions_grow_and_are_reported_once(lives) -> None:
    life = lives.open()
    await life.begin(1)
    ends = [life.append(offset) for offset in range(50)]
    await life.until_durable(ends[-1])
    assert ends == sorted(set(ends))
    assert life.heard.durable == sorted(set(life.heard.durable))
    assert set(life.heard.durable) <= set(ends)
    await life.close()


@in_loop_of(run)
async def test_w01_a_record_larger_than_a_group_is_a_group(lives) -> None:
    life = lives.open()
    await life.begin(1)
    for offset, payload_bytes in enumerate([10, 3 * SETTINGS.group_bytes_max, 10]):
        await life.append_durably(offset, payload_bytes)
    await life.close()
    following = lives.open()
    assert offsets(await following.begin(2)) == [0, 1, 2]
    await following.close()


@in_loop_of(run)
async def test_w01_close_waits_until_what_was_queued_is_durable(lives) -> None:
    life = lives.open()
    await life.begin(1)
    for offset in range(40):
        position = life.append(offset)
    await life.close()
    assert life.durable == position
    await life.close()
    following = lives.open()
    assert offsets(await following.begin(2)) == [*range(40)]
    await following.close()


@in_loop_of(run)
async def test_w01_room_is_what_is_not_trimmed(lives) -> None:
    life = lives.open()
    await life.begin(1)
    fits = SETTINGS.capacity_bytes - RECORD_OVERHEAD_BYTES
    assert life.wal.has_room_for(fits) and not life.wal.has_room_for(fits + 1)
    position = await life.append_durably(0)
    assert not life.wal.has_room_for(fits)
    assert life.wal.statistics().bytes_untrimmed == RECORD_BYTES
    await life.wal.trim(position)
    assert life.wal.has_room_for(fits)
    await life.wal.trim(0)
    assert life.wal.has_room_for(fits), "a trim never goes back"
    await life.close()


@in_loop_of(run)
async def test_w08_what_is_trimmed_is_not_recovered_for_ever_and_what_is_not_always_is(lives) -> None:
    life = lives.open()
    await life.begin(1)
    ends = [await life.append_durably(offset, 1000) for offset in range(12)]
    await life.wal.trim(ends[7] - 5)
    await life.pass_ms(30_000)
    await life.close()
    following = lives.open()
    found = offsets(await following.begin(2))
    assert found[-5:] == [7, 8, 9, 10, 11], "a trim inside a record keeps it"
    assert len(found) < 12
    await following.close()


@in_loop_of(run)
async def test_w01_a_life_begins_with_an_empty_log_when_the_one_before_was_reset(lives) -> None:
    for epoch in (1, 2, 3):
        life = lives.open()
        assert offsets(await life.begin(epoch)) == ([] if epoch == 1 else [epoch - 1])
        await life.append_durably(epoch)
        await life.close()


@in_loop_of(run)
async def test_w10_lives_that_were_carried_are_recovered_in_their_order(lives) -> None:
    for epoch in (1, 2, 3):
        life = lives.open()
        assert offsets(await life.begin(epoch, carry=True)) == [*range(10 * (epoch - 1))]
        for offset in range(10 * (epoch - 1), 10 * epoch):
            await life.append_durably(offset)
        await life.close()
    last = lives.open()
    assert offsets(await last.begin(4)) == [*range(30)]
    await last.close()


@in_loop_of(run)
async def test_w01_a_trim_of_carried_records_frees_them(lives) -> None:
    life = lives.open()
    await life.begin(1)
    ends = [await life.append_durably(offset, 1000) for offset in range(12)]
    await life.close()
    life = lives.open()
    await life.begin(2, carry=True)
    end = await life.append_durably(12, 1000)
    assert end > ends[-1]
    await life.wal.trim(ends[-1])
    await life.pass_ms(30_000)
    await life.close()
    life = lives.open()
    found = offsets(await life.begin(3))
    assert found[-1] == 12 and len(found) < 5
    await life.close()


@in_loop_of(run)
async def test_w01_the_identity_is_the_newest_claim(lives) -> None:
    life = lives.open()
    await life.begin(1)
    assert await life.wal.identity() == LogIdentity(STORE_ID, NODE, 1)
    await life.append_durably(0)
    good_end = LogIdentity(STORE_ID, NODE, 1, 17, "cd" * 16)
    await life.passing(life.wal.claim(good_end))
    await life.close()
    life = lives.open()
    assert await life.wal.identity() == good_end
    assert offsets(await life.begin(2)) == [0]
    assert await life.wal.identity() == LogIdentity(STORE_ID, NODE, 2)
    await life.close()


@pytest.mark.parametrize("payload_bytes", [0, 1, 5_000])
@in_loop_of(run)
async def test_w01_statistics_count_what_was_written(lives, payload_bytes) -> None:
    life = lives.open()
    await life.begin(1)
    for offset in range(6):
        await life.append_durably(offset, payload_bytes)
    found = life.wal.statistics()
    assert found.appends == 6 and 1 <= found.groups <= 6
    assert found.bytes_written == found.bytes_untrimmed == 6 * (RECORD_OVERHEAD_BYTES + payload_bytes)
    assert found.trouble == ""
    await life.close()
