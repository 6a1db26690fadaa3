"""Timers that ring, or do not, on both clocks."""

import asyncio
import time

from siltstone.runtime.clock import ManualClock, SystemClock
from support.scenarios import in_loop


def test_a_timer_rings_when_its_time_has_come():
    async def ring() -> list[str]:
        clock, rung = ManualClock(), []
        clock.call_after_ms(10, lambda: rung.append("ten"))
        clock.call_after_ms(5, lambda: rung.append("five"))
        clock.advance_ms(9)
        await asyncio.sleep(0)
        assert rung == ["five"]
        clock.advance_ms(1)
        await asyncio.sleep(0)
        return rung

    assert asyncio.run(ring()) == ["five", "ten"]


def test_a_cancelled_timer_does_not_ring():
    async def ring() -> list[str]:
        clock, rung = ManualClock(), []
        clock.call_after_ms(10, lambda: rung.append("ten")).cancel()
        clock.advance_ms(20)
        await asyncio.sleep(0)
        return rung

    assert asyncio.run(ring()) == []


@in_loop
async def test_the_machines_clock_rings_too() -> None:
    rung = asyncio.Event()
    SystemClock().call_after_ms(1, rung.set)
    await asyncio.wait_for(rung.wait(), 60)


def test_the_machines_clock_is_the_machines():
    clock = SystemClock()
    before_ms = time.time() * 1000
    assert before_ms - 1 <= clock.now_ms() <= time.time() * 1000 + 1
    before_ms = time.monotonic() * 1000
    assert before_ms - 1 <= clock.monotonic_ms() <= time.monotonic() * 1000 + 1


def test_on_the_machines_clock_waiting_takes_as_long_as_said():
    clock = SystemClock()
    began_ms = time.monotonic() * 1000
    clock.block_ms(5)
    blocked_ms = time.monotonic() * 1000 - began_ms
    asyncio.run(clock.sleep_ms(5))
    slept_ms = time.monotonic() * 1000 - began_ms - blocked_ms
    assert 5 <= blocked_ms < 4_000 and 5 <= slept_ms < 4_000
