"""Tasks that have an owner, and reports while a step takes long."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

import pytest

from siltstone.runtime.clock import ManualClock
from siltstone.runtime.tasks import (
    REPORT_AFTER_MS,
    REPORT_INTERVAL_MS,
    TaskGroup,
    ends_in_time,
    reported_while_waiting,
)
from support.engine.engine_world import settled
from support.scenarios import in_loop, scenario


class Owner:
    def __init__(self) -> None:
        self.failures: list[BaseException] = []
        self.tasks = TaskGroup("owner", self.failures.append)
        self.ended: list[str] = []

    async def wait(self, name: str) -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            await asyncio.sleep(0)
            self.ended.append(name)

    async def fail(self, failure: Exception) -> None:
        raise failure

    async def end(self) -> None:
        self.ended.append("by itself")


def run(scenario: Callable[[Owner], Awaitable[None]]) -> None:
    async def main() -> None:
        await scenario(Owner())

    asyncio.run(main())


@scenario(run)
async def test_cancelled_tasks_have_ended_when_cancel_returns(owner: Owner) -> None:
    tasks = [owner.tasks.start(name, owner.wait(name)) for name in ("one", "two")]
    assert [task.get_name() for task in tasks] == ["owner:one", "owner:two"]
    await asyncio.sleep(0)
    await owner.tasks.cancel()
    assert sorted(owner.ended) == ["one", "two"] and owner.failures == []
    await owner.tasks.cancel()


def test_the_first_failure_is_reported_and_all_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    first, second = ValueError("first"), ValueError("second")

    async def scenario(owner: Owner) -> None:
        owner.tasks.start("a", owner.fail(first))
        owner.tasks.start("b", owner.fail(second))
        owner.tasks.start("c", owner.end())
        await owner.tasks.drain()
        await settled()
        assert owner.failures == [first] and owner.ended == ["by itself"]

    with caplog.at_level(logging.ERROR):
        run(scenario)
    assert [record.getMessage() for record in caplog.records] == [
        "owner:a failed: ValueError('first')",
        "owner:b failed: ValueError('second')",
    ]


@scenario(run)
async def test_draining_waits_for_tasks_that_end_by_themselves(owner: Owner) -> None:
    going_on = asyncio.Event()

    async def work() -> None:
        await going_on.wait()
        owner.ended.append("worked")

    owner.tasks.start("work", work())
    draining = asyncio.ensure_future(owner.tasks.drain())
    await settled()
    assert not draining.done()
    going_on.set()
    await draining
    assert owner.ended == ["worked"]


@in_loop
async def test_a_step_that_takes_long_is_reported_again_and_again() -> None:
    clock, reports = ManualClock(), []
    async with reported_while_waiting(clock, lambda: reports.append(clock.monotonic_ms())):
        began = clock.monotonic_ms()
        for duration_ms in (REPORT_AFTER_MS - 1, 1, REPORT_INTERVAL_MS - 1, 1, REPORT_INTERVAL_MS):
            await settled()
            clock.advance_ms(duration_ms)
            await settled()
        assert [at - began - REPORT_AFTER_MS for at in reports] == [
            0,
            REPORT_INTERVAL_MS,
            2 * REPORT_INTERVAL_MS,
        ]
    await settled()
    clock.advance_ms(REPORT_INTERVAL_MS)
    await settled()
    assert len(reports) == 3


@pytest.mark.parametrize("in_time", [True, False])
@in_loop
async def test_work_with_a_time_limit(in_time: bool) -> None:
    clock = ManualClock()
    ending = asyncio.ensure_future(ends_in_time(clock.sleep_ms(4 if in_time else 6), clock, 5))
    for _ in range(10):
        await settled()
        clock.advance_ms(1)
    await settled()
    assert ending.done() and await ending is in_time
