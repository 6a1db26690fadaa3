"""Back-pressure: appends wait for room in the tail cache or the log, in order, and are never lost (T16, rule 9)."""

import asyncio

import pytest
from msgspec.structs import replace

from siltstone.stream_engine.components import Readiness
from siltstone.stream_engine.errors import EngineNotRunning, EngineOverloaded
from siltstone.stream_engine.settings import EngineSettings, UploadSettings, WalSettings
from support.engine.engine_world import SMALL, HeldPuts, World, offsets_of, settled
from support.scenarios import in_loop

KIB = 1024
CHARGE = 2 * KIB
"""Of an append of 1 KiB: its payload and as much overhead."""

CACHE_OF_FOUR = EngineSettings(
    tail_cache_bytes_max=4 * CHARGE,
    append_bytes_max=4 * KIB,
    waiting_bytes_max=64 * KIB,
    wal=SMALL.wal,
    upload=UploadSettings(cache_block_bytes_max=8 * KIB, split_size_bytes=4 * KIB, block_size_bytes=KIB),
)
LOG_OF_TWO = replace(
    SMALL,
    append_bytes_max=KIB,
    wal=WalSettings(segment_bytes=KIB, capacity_bytes=2 * (KIB + 104) + 500, group_bytes_max=4 * KIB),
)


def run(tmp_path, scenario, settings) -> None:
    async def main() -> None:
        world = World(tmp_path)
        async with world.node(settings) as node:
            await scenario(world, node)

    asyncio.run(main())


def test_t16_wal_full(tmp_path):
    async def scenario(world, node):
        stream = await node.new_stream()
        held = HeldPuts(node)
        answers = [node.engine.append(stream, bytes(KIB), 1) for _ in range(3)]
        await settled()
        assert [answer.done() for answer in answers] == [True, True, False]
        assert held.puts == 1, "the upload of [0, 2) starts on its own"
        held.release()
        assert await answers[2] == 2
        assert node.metadata.image.streams[stream.stream_id].end_offset == 2
        assert offsets_of(await node.read_all(stream)) == [(0, 1), (1, 2), (2, 3)]

    run(tmp_path, scenario, LOG_OF_TWO)


def test_t16_wal_full_keeps_the_order_over_streams(tmp_path):
    async def scenario(world, node):
        streams = [await node.new_stream() for _ in range(3)]
        answered = []
        for number in range(30):
            answer = node.engine.append(streams[number % 3], bytes(KIB if number % 2 else 10), 1)
            answer.add_done_callback(lambda _, number=number: answered.append(number))
        assert node.engine.statistics().appends_waiting > 20
        await world.passing(node.engine.flush())
        assert answered == list(range(30))
        assert node.engine.statistics().bytes_waiting == 0

    run(tmp_path, scenario, LOG_OF_TWO)


def test_t16_cache_full_forces_exactly_one_seal(tmp_path):
    async def scenario(world, node):
        stream = await node.new_stream()
        held = HeldPuts(node)
        answers = [node.engine.append(stream, bytes(KIB), 1) for _ in range(6)]
        await settled()
        assert [answer.done() for answer in answers] == [True] * 4 + [False] * 2
        assert node.engine.statistics().upload.blocks_in_flight == 1
        more = [node.engine.append(stream, bytes(KIB), 1) for _ in range(3)]
        await settled()
        assert node.engine.statistics().upload.blocks_in_flight == 1, "the one under way makes the room"
        assert held.puts == 1
        held.release()
        assert await world.passing(asyncio.gather(*answers, *more)) == list(range(9))

    run(tmp_path, scenario, CACHE_OF_FOUR)


def test_a_small_append_does_not_overtake_a_large_one_that_waits(tmp_path):
    async def scenario(world, node):
        stream = await node.new_stream()
        held = HeldPuts(node)
        for _ in range(3):
            await node.append(stream, bytes(KIB))
        large = node.engine.append(stream, bytes(3 * KIB), 1)
        small = node.engine.append(stream, b"", 1)
        await settled()
        assert not large.done() and not small.done()
        held.release()
        assert (await large, await small) == (3, 4)

    run(tmp_path, scenario, CACHE_OF_FOUR)


def test_a_commit_that_makes_too_little_room_is_followed_by_the_next_seal(tmp_path):
    """A block of one is on its way, three more stand in the next: the commit frees one place, four are wanted."""

    async def scenario(world, node):
        stream = await node.new_stream()
        held = HeldPuts(node)
        await node.append(stream, bytes(KIB))
        flushed = asyncio.ensure_future(node.engine.flush())
        await settled()
        for _ in range(3):
            await node.append(stream, bytes(KIB))
        large = node.engine.append(stream, bytes(4 * KIB), 1)  # charged 5 KiB
        await settled()
        assert held.puts == 1 and not large.done()
        held.release()
        assert await asyncio.wait_for(large, 60) == 4, "no time passes here: nothing but the commit may seal"
        await flushed

    run(tmp_path, scenario, CACHE_OF_FOUR)


def test_rule_9_no_more_than_the_limit_is_in_the_cache_and_no_more_than_the_limit_waits(tmp_path):
    async def scenario(world, node):
        stream = await node.new_stream()
        held = HeldPuts(node)
        refused = accepted = 0
        answers = []
        for _ in range(100):
            try:
                answers.append(node.engine.append(stream, bytes(KIB), 1))
                accepted += 1
            except EngineOverloaded as overloaded:
                assert "try again later" in str(overloaded)
                refused += 1
            await settled(5)
            statistics = node.engine.statistics()
            assert statistics.tail.bytes_used <= CACHE_OF_FOUR.tail_cache_bytes_max
            assert statistics.bytes_waiting <= CACHE_OF_FOUR.waiting_bytes_max
        assert accepted == 4 + CACHE_OF_FOUR.waiting_bytes_max // CHARGE
        assert refused == 100 - accepted
        held.release()
        assert await world.passing(asyncio.gather(*answers)) == list(range(accepted)), (
            "refusals took no offsets"
        )
        assert await node.append(stream, b"again") == accepted

    run(tmp_path, scenario, CACHE_OF_FOUR)


def test_an_append_that_need_not_wait_is_not_refused_for_those_that_could(tmp_path):
    settings = replace(CACHE_OF_FOUR, waiting_bytes_max=0)

    async def scenario(world, node):
        stream = await node.new_stream()
        held = HeldPuts(node)
        for _ in range(4):
            await node.append(stream, bytes(KIB))
        with pytest.raises(EngineOverloaded):
            node.engine.append(stream, b"x", 1)
        held.release()
        await node.engine.flush()
        assert await node.append(stream, b"x") == 4

    run(tmp_path, scenario, settings)


@in_loop
async def test_waiting_appends_fail_with_the_engine(tmp_path) -> None:
    world = World(tmp_path)
    node = await world.open(CACHE_OF_FOUR)
    stream = await node.new_stream()
    HeldPuts(node)
    answers = [node.engine.append(stream, bytes(KIB), 1) for _ in range(8)]
    await settled()
    node.engine._fail(RuntimeError("a reason"))
    for answer in answers[4:]:
        with pytest.raises(EngineNotRunning, match="a reason"):
            await answer
    assert node.engine.statistics().bytes_waiting == 0
    await node.close()


def test_a_waiting_append_whose_caller_went_away_stands_all_the_same(tmp_path):
    async def scenario(world, node):
        stream = await node.new_stream()
        held = HeldPuts(node)
        answers = [node.engine.append(stream, b"%04d" % number * 256, 1) for number in range(6)]
        answers[4].cancel()
        held.release()
        assert await answers[5] == 5
        assert [bytes(one.payload[:4]) for one in await node.read_all(stream)] == [
            b"%04d" % n for n in range(6)
        ]

    run(tmp_path, scenario, CACHE_OF_FOUR)


def test_rule_12_readiness_says_what_the_log_waits_for(tmp_path, monkeypatch):
    async def scenario(world, node):
        assert node.engine.readiness[0] is Readiness.READY
        monkeypatch.setattr(node.engine._wal, "_trouble", "the disk has not answered for 7 s: check the disk")
        statistics = node.engine.statistics()
        assert statistics.readiness == "full"
        assert statistics.reason == "appends wait: the disk has not answered for 7 s: check the disk"
        monkeypatch.undo()
        assert node.engine.readiness[0] is Readiness.READY

    run(tmp_path, scenario, SMALL)
