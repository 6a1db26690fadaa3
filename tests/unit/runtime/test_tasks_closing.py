import asyncio

import pytest

from siltstone.runtime.clock import ManualClock
from siltstone.runtime.tasks import ends_while_it_progresses
from support.engine.engine_world import settled
from support.scenarios import in_loop, scenario

LIMIT_MS = 1_000


class Work:
    """Ends after so many steps, each begun when it is let."""

    def __init__(self, steps: int) -> None:
        self.steps = steps
        self.done = 0
        self.was_cancelled = False
        self.step = asyncio.Event()

    async def run(self) -> None:
        try:
            while self.done < self.steps:
                await self.step.wait()
                self.step.clear()
                self.done += 1
        except asyncio.CancelledError:
            self.was_cancelled = True
            raise


def run(scenario, steps: int = 3) -> None:
    async def main() -> None:
        clock, work = ManualClock(), Work(steps)
        ending = asyncio.ensure_future(
            ends_while_it_progresses(work.run(), lambda: work.done, clock, LIMIT_MS)
        )
        await settled()
        await scenario(clock, work, ending)

    asyncio.run(main())


async def passes(clock: ManualClock, duration_ms: float) -> None:
    clock.advance_ms(duration_ms)
    await settled()


@scenario(run)
async def test_work_that_ends_is_waited_for(clock, work, ending, /) -> None:
    for _ in range(3):
        work.step.set()
        await settled()
    assert await ending
    assert clock._sleepers == [] or all(wake.done() for _, _, wake in clock._sleepers)


@scenario(run)
async def test_work_that_comes_no_further_is_ended_at_the_limit(clock, work, ending, /) -> None:
    await passes(clock, LIMIT_MS - 1)
    assert not ending.done()
    await passes(clock, 1)
    assert await ending is False
    assert work.was_cancelled


@scenario(run, steps=50)
async def test_work_that_comes_further_may_take_as_long_as_it_takes(clock, work, ending, /) -> None:
    for _ in range(20):
        await passes(clock, LIMIT_MS - 1)
        work.step.set()
        await settled()
        await passes(clock, 1)
        assert not ending.done()
    await passes(clock, LIMIT_MS)
    await passes(clock, LIMIT_MS)
    assert await ending is False
    assert work.done == 20


@in_loop
async def test_what_the_work_raises_is_raised() -> None:
    async def fail() -> None:
        raise RuntimeError("a reason")

    with pytest.raises(RuntimeError, match="a reason"):
        await ends_while_it_progresses(fail(), lambda: 0, ManualClock(), LIMIT_MS)


@scenario(run)
async def test_who_gives_up_ends_the_work(clock, work, ending, /) -> None:
    ending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await ending
    assert work.was_cancelled
