"""Threads and coroutines that wait for the bandwidth, on virtual time."""

import asyncio
from threading import Barrier, Thread

import pytest

from siltstone.model.limits import MIB
from siltstone.object_store.bandwidth.limiter import STEP_MS, Limiter, limiter_of_process, no_limit
from siltstone.object_store.bandwidth.turns import BandwidthSettings, Direction, Grade, TooMuchWaits
from siltstone.runtime.clock import ManualClock, SystemClock
from support.engine.committed_world import settle
from support.scenarios import in_loop

IN, OUT = Direction.IN, Direction.OUT


def limiter(in_bytes: int = 1600, out_bytes: int = 0) -> tuple[Limiter, ManualClock]:
    clock = ManualClock()
    return Limiter(BandwidthSettings(in_bytes, out_bytes), clock), clock


def test_a_thread_is_held_as_long_as_its_bytes_take() -> None:
    of, clock = limiter(MIB)
    began_ms = clock.monotonic_ms()
    held_ms = of.hold(IN, Grade.MAINTENANCE, 10 * MIB)
    held_ms += of.pay(IN)
    assert held_ms == pytest.approx(10_000, abs=5) == clock.monotonic_ms() - began_ms
    passed = of.statistics().of(IN, Grade.MAINTENANCE)
    assert passed.size_bytes == 10 * MIB
    assert passed.held_seconds == pytest.approx(10, abs=0.1) and passed.waiting_bytes == 0


def test_the_directions_have_limits_of_their_own() -> None:
    of, clock = limiter(in_bytes=1, out_bytes=0)
    began_ms = clock.monotonic_ms()
    of.hold(OUT, Grade.MAINTENANCE, MIB)
    assert clock.monotonic_ms() == began_ms
    assert of.is_limited(IN) and not of.is_limited(OUT)


def test_uploads_are_counted_and_never_held() -> None:
    of, clock = limiter(1, 1)
    began_ms = clock.monotonic_ms()
    of.count(OUT, 10**9)
    of.count(IN, 5)
    assert of.hold(OUT, Grade.UPLOAD, 10**6) == 0
    assert clock.monotonic_ms() == began_ms
    counts = of.statistics()
    assert counts.of(OUT, Grade.UPLOAD).size_bytes == 10**9 + 10**6
    assert counts.of(IN, Grade.UPLOAD).size_bytes == 5
    assert counts.bytes_per_second == {IN: 1, OUT: 1}


def test_what_uploads_have_used_the_others_wait_for() -> None:
    of, _clock = limiter(1000, 1000)
    of.count(OUT, 500)
    assert of.hold(OUT, Grade.MAINTENANCE, 10) == pytest.approx(500, abs=1)
    assert of.hold(IN, Grade.MAINTENANCE, 10) == 0


def test_a_check_that_raises_ends_the_wait_within_a_step_and_leaves_nothing_behind() -> None:
    of, clock = limiter(1)

    class Enough(Exception):
        pass

    def check() -> None:
        if clock.monotonic_ms() > began_ms:
            raise Enough

    began_ms = clock.monotonic_ms()
    with pytest.raises(Enough):
        of.hold(IN, Grade.MAINTENANCE, 1000, check)
    assert clock.monotonic_ms() - began_ms <= STEP_MS
    assert of.statistics().of(IN, Grade.MAINTENANCE).waiting_bytes == 0
    with pytest.raises(Enough):
        of.pay(IN, check)


def test_a_thread_is_not_refused_but_asks_again_later() -> None:
    of, _clock = limiter(64 * MIB)

    async def scenario() -> None:
        waits = [asyncio.ensure_future(of.wait(IN, Grade.TAIL_READ, 64 * MIB)) for _ in range(30)]
        await settle()
        with pytest.raises(TooMuchWaits):
            await of.wait(IN, Grade.TAIL_READ, 64 * MIB)
        assert of.hold(IN, Grade.MAINTENANCE, 64 * MIB) > 0
        for wait in waits:
            wait.cancel()
        await settle()

    asyncio.run(scenario())
    assert of.statistics().of(IN, Grade.TAIL_READ).waiting_bytes == 0


@in_loop
async def test_coroutines_wait_in_the_order_of_their_grades() -> None:
    of, clock = limiter(1600)
    ended: list[Grade] = []

    async def read(grade: Grade) -> None:
        await of.wait(IN, grade, 400)
        ended.append(grade)

    grades = (Grade.MAINTENANCE, Grade.CATCH_UP_READ, Grade.TAIL_READ)
    tasks = [asyncio.ensure_future(read(grade)) for grade in grades]
    await settle()
    assert of.statistics().of(IN, Grade.TAIL_READ).waiting_bytes == 400
    for _ in range(1000):
        clock.advance_ms(1)
        await settle()
    assert ended == [Grade.TAIL_READ, Grade.CATCH_UP_READ, Grade.MAINTENANCE]
    await asyncio.gather(*tasks)
    assert of.statistics().of(IN, Grade.MAINTENANCE).held_seconds == pytest.approx(0.7, abs=0.15)


@in_loop
async def test_a_cancelled_coroutine_lets_the_next_one_pass() -> None:
    of, clock = limiter(1600)
    first = asyncio.ensure_future(of.wait(IN, Grade.TAIL_READ, 10**6))
    second = asyncio.ensure_future(of.wait(IN, Grade.TAIL_READ, 100))
    await settle()
    first.cancel()
    for _ in range(200):
        clock.advance_ms(1)
        await settle()
    assert first.cancelled() and second.done()
    assert of.statistics().of(IN, Grade.TAIL_READ).waiting_bytes == 0


def test_without_a_limit_a_coroutine_goes_on_at_once_and_is_counted() -> None:
    of = no_limit(ManualClock())
    asyncio.run(of.wait(IN, Grade.CATCH_UP_READ, 10**9))
    assert of.try_pass(IN, Grade.CATCH_UP_READ, 5)
    assert of.statistics().of(IN, Grade.CATCH_UP_READ).size_bytes == 10**9 + 5


@in_loop
async def test_a_new_limit_reaches_those_who_wait() -> None:
    of, _clock = limiter(1)
    wait = asyncio.ensure_future(of.wait(IN, Grade.CATCH_UP_READ, 10**6))
    await settle()
    of.change(IN, 0)
    await wait
    of.change(IN, 10)
    assert not of.try_pass(IN, Grade.CATCH_UP_READ, 100)
    assert of.statistics().bytes_per_second[IN] == 10


def test_many_threads_share_the_limit() -> None:
    """Real threads use the clock of the machine and a limit that lets them end soon: none waits for ever."""
    of = Limiter(BandwidthSettings(64 * MIB, 0), SystemClock())
    begin = Barrier(8)

    def read(grade: Grade) -> None:
        begin.wait(60)
        for _ in range(4):
            of.hold(IN, grade, MIB // 4)

    threads = [Thread(target=read, args=(list(Grade)[at % 5],)) for at in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    assert sum(each.size_bytes for each in of.statistics().passed) == 8 * MIB


@in_loop
async def test_a_thread_wakes_a_coroutine_whose_turn_it_finds() -> None:
    of = Limiter(BandwidthSettings(16_000, 0), SystemClock())
    wait = asyncio.ensure_future(of.wait(IN, Grade.TAIL_READ, 4_000))
    await settle()
    loop = asyncio.get_running_loop()
    await loop.run_in_executor(None, lambda: of.hold(IN, Grade.MAINTENANCE, 1_000))
    await asyncio.wait_for(wait, 60)


def test_a_process_has_one_limiter_for_the_same_settings() -> None:
    assert limiter_of_process(BandwidthSettings(7, 7)) is limiter_of_process(BandwidthSettings(7, 7))
    assert limiter_of_process(BandwidthSettings(7, 7)) is not limiter_of_process(BandwidthSettings(7, 8))
