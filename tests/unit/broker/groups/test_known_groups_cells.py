"""The groups of a coordinator refuse what needs a record while the offsets log has a backlog."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from siltstone.broker.coordination.checkpoints import LogSize
from siltstone.broker.coordination.timers import TimerHeap
from siltstone.broker.groups.known_groups import GroupEnvironment, GroupMemory, KnownGroups
from siltstone.broker.groups.log_writer import LogWriter
from siltstone.broker.groups.rules.requests import (
    Commit,
    Heartbeat,
    MoveOffsets,
    OffsetsMoved,
    OffsetToCommit,
    Request,
    Sync,
)
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.model.serving_limits import GROUP_RECORDS_WAITING_BYTES_MAX
from siltstone.runtime.clock import ManualClock
from siltstone.runtime.tasks import TaskGroup
from support.groups.group_logs import MemoryGroupLog
from support.groups.group_world import NO_DELAY, join
from support.groups.groups_world import FakeTopics, turns
from support.scenarios import scenario

GROUP = "readers"
PARTITION = ("flights", 0)
MOVE = MoveOffsets({PARTITION: 7}, {}, spares_members=False)


class World:
    """Groups on a log that takes nothing until it is released."""

    def __init__(self) -> None:
        self.log = MemoryGroupLog()
        self.log.held = True
        self.bugs: list[BaseException] = []
        self.tasks = TaskGroup("test", self.bugs.append)
        self.length = LogSize(1, 1)
        self.writer = LogWriter(self.log, self.length, self.tasks, self.bugs.append)
        clock = ManualClock()
        environment = GroupEnvironment(
            NO_DELAY, clock, TimerHeap(clock), GroupMemory(NO_DELAY), FakeTopics(flights=1)
        )
        self.cells = KnownGroups({}, self.writer, environment, lambda _, __: None)

    def ask(self, request: Request) -> "asyncio.Future[Any]":
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.cells.ask(GROUP, request, future)
        return future

    def fill_the_log(self) -> None:
        """By another group."""
        self.writer.add([(b"key", bytes(GROUP_RECORDS_WAITING_BYTES_MAX))], "another")
        assert self.writer.has_backlog


def told(story: Callable[[World], Awaitable[None]]) -> None:
    async def run() -> None:
        world = World()
        await story(world)
        await world.tasks.cancel()
        assert world.bugs == []

    asyncio.run(run())


@pytest.mark.parametrize(
    "refused",
    [
        join(),
        Sync("member", None, 1),
        Commit("", None, -1, (OffsetToCommit("flights", 0, 7, -1, ""),)),
        MOVE,
    ],
    ids=lambda request: type(request).__name__,
)
@scenario(told)
async def test_nothing_that_needs_a_record_is_decided_while_the_log_has_a_backlog(
    world: World, refused: Request
) -> None:
    world.fill_the_log()
    records = world.length.added
    assert world.ask(refused).result() == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert world.length.added == records
    assert world.cells.by_id == {}, "a group is not made for what was refused"


@scenario(told)
async def test_what_needs_no_record_is_decided_while_the_log_has_a_backlog(world: World) -> None:
    world.fill_the_log()
    assert world.ask(Heartbeat("nobody", None, 1)).result() == ErrorCode.UNKNOWN_MEMBER_ID


@scenario(told)
async def test_offsets_are_moved_once_the_log_has_taken_its_backlog(world: World) -> None:
    world.fill_the_log()
    world.ask(MOVE)
    await turns()
    world.log.release()
    await turns()
    moving = world.ask(MOVE)
    await turns()
    assert not moving.done(), "the offset is moved when its record is durable"
    world.log.release()
    await turns()
    assert moving.result() == OffsetsMoved({PARTITION: 7})
    assert world.cells.by_id[GROUP].offsets[PARTITION].offset == 7
