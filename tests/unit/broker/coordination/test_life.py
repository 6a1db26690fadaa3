"""A coordinator that loads, fails, meets damage and ends: requests get the right refusal in each phase."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

import pytest

from siltstone.broker.coordination.life import CoordinatorLife, Phase
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.model.errors import CorruptData, Unavailable
from siltstone.model.serving_limits import (
    COORDINATOR_LOAD_BACKOFF_MS_MAX,
    COORDINATOR_LOAD_BACKOFF_MS_MIN,
    COORDINATOR_LOAD_WAIT_MS,
)
from siltstone.runtime.clock import ManualClock
from support.groups.groups_world import turns
from support.scenarios import scenario


class World:
    """``troubles``: what reading the log raises, the next first. ``reads``: a future that reading waits for."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.troubles: list[Exception] = []
        self.reads: asyncio.Future[None] | None = None
        self.begun = self.discarded = 0
        self.life = CoordinatorLife("things", "__things-3", self.clock, self._read, self._discard)

    async def _read(self) -> Callable[[], None]:
        if self.reads is not None:
            await self.reads
        if self.troubles:
            raise self.troubles.pop(0)
        return self._begin

    def _begin(self) -> None:
        self.begun += 1

    def _discard(self) -> None:
        self.discarded += 1

    async def pass_ms(self, duration_ms: int) -> None:
        await turns()
        self.clock.advance_ms(duration_ms)
        await turns()


def run(story: Callable[[World], Awaitable[None]]) -> None:
    async def told() -> None:
        world = World()
        await story(world)
        world.life.end()
        await world.life.tasks.cancel()

    asyncio.run(told())


@scenario(run)
async def test_a_request_waits_for_loading_and_half_a_second_at_most(world: World) -> None:
    world.reads = asyncio.get_running_loop().create_future()
    world.life.start()
    waiting = asyncio.ensure_future(world.life.loaded())
    await world.pass_ms(COORDINATOR_LOAD_WAIT_MS - 1)
    assert not waiting.done() and world.life.refusal is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    await world.pass_ms(1)
    assert waiting.done()
    later = asyncio.ensure_future(world.life.loaded())
    await turns()
    world.reads.set_result(None)
    await turns()
    assert later.done() and world.life.phase is Phase.ACTIVE and world.begun == 1


@scenario(run)
async def test_a_log_that_cannot_be_read_now_is_read_again_with_waits_that_double(world: World) -> None:
    world.troubles = [Unavailable("no bucket") for _ in range(9)]
    world.life.start()
    wait_ms = COORDINATOR_LOAD_BACKOFF_MS_MIN
    for left in range(8, -1, -1):
        await turns()
        assert len(world.troubles) == left and world.life.phase is Phase.LOADING
        await world.pass_ms(wait_ms - 1)
        assert len(world.troubles) == left
        await world.pass_ms(1)
        wait_ms = min(2 * wait_ms, COORDINATOR_LOAD_BACKOFF_MS_MAX)
    assert world.life.phase is Phase.ACTIVE


@scenario(run)
async def test_damage_is_told_once_and_a_log_that_was_restored_is_loaded(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.troubles = [CorruptData("block 7"), CorruptData("block 7"), CorruptData("block 9")]
    waiting = asyncio.ensure_future(world.life.loaded())
    with caplog.at_level(logging.ERROR):
        world.life.start()
        await turns()
        assert waiting.done() and world.life.refusal is ErrorCode.COORDINATOR_NOT_AVAILABLE
        for _ in range(3):
            assert world.life.phase is Phase.DAMAGED
            await world.pass_ms(COORDINATOR_LOAD_BACKOFF_MS_MAX)
    assert world.life.phase is Phase.ACTIVE
    said = [record.getMessage() for record in caplog.records]
    assert [message.partition(":")[0] for message in said] == 2 * [
        "__things-3 cannot be read, its things are not available until it can"
    ]
    assert "block 7" in said[0] and "block 9" in said[1]


@scenario(run)
async def test_after_a_failure_the_state_is_discarded_and_the_log_read_again(world: World) -> None:
    world.life.start()
    await turns()
    world.life.fail("an append failed")
    assert (world.discarded, world.life.refusal) == (1, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    world.life.fail("the next one, too")
    await turns()
    assert (world.begun, world.discarded, world.life.loads) == (2, 1, 2)


@scenario(run)
async def test_a_bug_in_a_task_leaves_it_damaged(world: World) -> None:
    async def bug() -> None:
        raise AssertionError("believed in vain")

    world.life.start()
    await turns()
    world.life.tasks.start("bug", bug())
    await turns()
    assert world.life.phase is Phase.DAMAGED and world.discarded == 1


@scenario(run)
async def test_what_was_read_when_it_has_ended_is_not_taken(world: World) -> None:
    world.reads = asyncio.get_running_loop().create_future()
    world.life.start()
    await turns()
    world.life.end()
    world.reads.set_result(None)
    await turns()
    assert world.begun == 0 and world.life.refusal is ErrorCode.NOT_COORDINATOR


@pytest.mark.parametrize("outcome", ["done", "not trimmed"])
@scenario(run)
async def test_one_checkpoint_runs_at_a_time(world: World, outcome: str) -> None:
    written = [asyncio.get_running_loop().create_future() for _ in range(2)]
    begun = 0

    async def write() -> bool:
        nonlocal begun
        begun += 1
        return await written[begun - 1]

    world.life.start()
    await turns()
    world.life.checkpoint(write)
    world.life.checkpoint(write)
    await turns()
    assert begun == 1
    if outcome == "done":
        written[0].set_result(True)
    else:
        written[0].set_exception(Unavailable("no bucket"))
    await turns()
    assert world.life.checkpoints == 1
    world.life.checkpoint(write)
    await turns()
    assert begun == 2


@scenario(run)
async def test_a_checkpoint_of_a_log_that_is_read_again_does_not_hold_back_the_next(world: World) -> None:
    never: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
    begun = []

    async def write() -> bool:
        begun.append(world.life.loads)
        return await never

    world.life.start()
    await turns()
    world.life.checkpoint(write)
    await turns()
    world.life.fail("an append failed")
    await turns()
    world.life.checkpoint(write)
    await turns()
    assert begun == [1, 2]
    never.set_result(True)
    await turns()
    assert world.life.checkpoints == 1, "that of the discarded state does not count"


@scenario(run)
async def test_after_a_failed_append_no_checkpoint_starts_until_the_log_is_read_again(world: World) -> None:
    begun = []

    async def write() -> bool:
        begun.append(world.life.loads)
        return False

    world.life.start()
    await turns()
    world.life.checkpoint(write)
    await turns()
    world.life.checkpoint(write)
    await turns()
    assert begun == [1] and world.life.checkpoints == 0
    world.life.fail("an append failed")
    await turns()
    world.life.checkpoint(write)
    await turns()
    assert begun == [1, 2]
