"""One heap for all timers."""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random

import pytest

from siltstone.broker.coordination.timers import TimerHeap
from siltstone.runtime.clock import ManualClock
from support.groups.groups_world import turns
from support.scenarios import scenario


def told(story: Callable[[ManualClock, TimerHeap, list[str]], Awaitable[None]]) -> None:
    async def run() -> None:
        clock = ManualClock()
        await story(clock, TimerHeap(clock), [])

    asyncio.run(run())


async def pass_ms(clock: ManualClock, duration_ms: int) -> None:
    clock.advance_ms(duration_ms)
    await turns(4)


@scenario(told)
async def test_timers_ring_in_their_order_and_once(
    clock: ManualClock, timers: TimerHeap, rung: list[str], /
) -> None:
    for name, delay_ms in (("late", 30), ("early", 10), ("middle", 20), ("now", 0)):
        timers.set(name, delay_ms, lambda name=name: rung.append(name))
    await pass_ms(clock, 20)
    assert rung == ["now", "early", "middle"]
    await pass_ms(clock, 1_000)
    assert rung == ["now", "early", "middle", "late"]
    assert len(timers) == 0


@pytest.mark.parametrize(("first_ms", "then_ms"), [(10, 50), (50, 10), (50, 50)])
@scenario(told)
async def test_setting_it_again_moves_it_either_way(
    clock: ManualClock, timers: TimerHeap, rung: list[str], /, first_ms: int, then_ms: int
) -> None:
    timers.set("key", first_ms, lambda: rung.append("first"))
    timers.set("key", then_ms, lambda: rung.append("then"))
    await pass_ms(clock, then_ms - 1)
    assert rung == []
    await pass_ms(clock, 1)
    assert rung == ["then"]
    await pass_ms(clock, 100)
    assert rung == ["then"]


@scenario(told)
async def test_a_cancelled_timer_does_not_ring_and_can_be_set_again(
    clock: ManualClock, timers: TimerHeap, rung: list[str], /
) -> None:
    timers.set("key", 10, lambda: rung.append("first"))
    timers.cancel("key")
    timers.cancel("another")
    timers.set("key", 30, lambda: rung.append("then"))
    await pass_ms(clock, 29)
    assert rung == []
    await pass_ms(clock, 1)
    assert rung == ["then"]


@scenario(told)
async def test_a_timer_may_set_others_while_it_rings(
    clock: ManualClock, timers: TimerHeap, rung: list[str], /
) -> None:
    def ring() -> None:
        rung.append("again")
        if len(rung) < 3:
            timers.set("key", 10, ring)

    timers.set("key", 10, ring)
    for _ in range(5):
        await pass_ms(clock, 10)
    assert rung == ["again"] * 3


@scenario(told)
async def test_one_that_is_due_at_once_lets_the_event_loop_turn(
    clock: ManualClock, timers: TimerHeap, rung: list[str], /
) -> None:
    def ring() -> None:
        rung.append("turn")
        timers.set("key", 0, ring)

    timers.set("key", 0, ring)
    for _ in range(3):
        clock.advance_ms(0)
        await turns(2)
    assert 1 <= len(rung) <= 3


@scenario(told)
async def test_heartbeats_do_not_fill_the_heap(
    clock: ManualClock, timers: TimerHeap, rung: list[str], /
) -> None:
    for _ in range(1_000):
        for member in range(10):
            timers.set(member, 10_000, lambda: rung.append("dead"))
        await pass_ms(clock, 3_000)
    assert rung == [] and len(timers) == 10
    assert len(timers._heap) <= 20


@scenario(told)
async def test_cancelled_ones_do_not_fill_it_either(
    clock: ManualClock, timers: TimerHeap, rung: list[str], /
) -> None:
    timers.set("stays", 20_000_000, lambda: rung.append("stays"))
    for member in range(10_000):
        timers.set(member, 1_000_000, lambda: rung.append("dead"))
        timers.cancel(member)
    assert len(timers._heap) < 200
    await pass_ms(clock, 20_000_000)
    assert rung == ["stays"]


@scenario(told)
async def test_closed_nothing_rings(clock: ManualClock, timers: TimerHeap, rung: list[str], /) -> None:
    timers.set("key", 10, lambda: rung.append("key"))
    timers.close()
    await pass_ms(clock, 100)
    assert rung == [] and len(timers) == 0


@pytest.mark.parametrize("seed", range(5))
@scenario(told)
async def test_like_a_list_of_deadlines(
    clock: ManualClock, timers: TimerHeap, rung: list[str], /, seed: int
) -> None:
    rng, expected, now_ms = Random(seed), {}, 0
    for _ in range(300):
        key = str(rng.randrange(8))
        action = rng.random()
        if action < 0.5:
            delay_ms = rng.randrange(1, 50)
            expected[key] = now_ms + delay_ms
            timers.set(key, delay_ms, lambda key=key: rung.append(key))
        elif action < 0.7:
            expected.pop(key, None)
            timers.cancel(key)
        else:
            passed_ms = rng.randrange(30)
            now_ms += passed_ms
            due = {key: at for key, at in expected.items() if at <= now_ms}
            rung.clear()
            await pass_ms(clock, passed_ms)
            assert sorted(rung) == sorted(due)
            expected = {key: at for key, at in expected.items() if at > now_ms}
        assert len(timers) == len(expected)
