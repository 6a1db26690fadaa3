"""Timers that ring, or do not, on both clocks."""

import asyncio

from siltstone.runtime.clock import ManualClock, SystemClock


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


def test_the_machines_clock_rings_too():
    async def ring() -> None:
        rung = asyncio.Event()
        SystemClock().call_after_ms(1, rung.set)
        await asyncio.wait_for(rung.wait(), 10)

    asyncio.run(ring())
