"""Records gather while an append is under way, and answers wait for theirs."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from siltstone.broker.coordination.checkpoints import LogSize
from siltstone.broker.groups.log_writer import RECORD_OVERHEAD_BYTES, LogWriter
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.model.errors import Unavailable
from siltstone.model.serving_limits import GROUP_APPEND_BYTES_MAX, GROUP_RECORDS_WAITING_BYTES_MAX
from siltstone.runtime.tasks import TaskGroup
from support.groups.group_logs import MemoryGroupLog
from support.groups.groups_world import turns
from support.scenarios import scenario


class World:
    def __init__(self) -> None:
        self.log = MemoryGroupLog()
        self.log.held = True
        self.failures: list[Exception] = []
        self.bugs: list[BaseException] = []
        self.tasks = TaskGroup("test", self.bugs.append)
        self.length = LogSize(1, 1)
        self.writer = LogWriter(self.log, self.length, self.tasks, self.failures.append)

    def give(self, group_id: str, answer: Any) -> "asyncio.Future[Any]":
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.writer.give(group_id, future, answer)
        return future


def told(story: Callable[[World], Awaitable[None]]) -> None:
    async def run() -> None:
        world = World()
        await story(world)
        await world.tasks.cancel()
        assert world.bugs == []

    asyncio.run(run())


def record(number: int, size_bytes: int = 4) -> tuple[bytes, bytes]:
    return number.to_bytes(4, "big"), bytes(size_bytes - 4)


@scenario(told)
async def test_an_answer_waits_until_the_records_of_its_group_are_durable(world: World) -> None:
    world.writer.add([record(1)], "one")
    one = world.give("one", "done")
    other = world.give("other", "done")
    await turns()
    assert other.result() == "done" and not one.done()
    world.log.release()
    await turns()
    assert one.result() == "done"
    assert world.give("one", "at once").done()


@scenario(told)
async def test_what_comes_in_one_turn_goes_in_one_append_and_what_comes_meanwhile_in_the_next(
    world: World,
) -> None:
    for number in range(3):
        world.writer.add([record(number)], "one")
    await turns()
    for number in range(3, 10):
        world.writer.add([record(number)], "one")
    last = world.give("one", "done")
    await turns()
    assert world.log.under_way == 1
    world.log.release()
    await turns()
    assert not last.done()
    world.log.release()
    await turns()
    assert [len(batch) for batch in world.log.batches] == [3, 7]
    assert [entry for _, entry in world.log.records] == [record(number) for number in range(10)]
    assert last.result() == "done" and world.length.added == 10


@scenario(told)
async def test_large_batches_are_cut_and_a_larger_record_goes_alone(world: World) -> None:
    third = GROUP_APPEND_BYTES_MAX // 3
    sizes = [third, third, third, third, 2 * GROUP_APPEND_BYTES_MAX, 8, third]
    world.writer.add([record(number, size) for number, size in enumerate(sizes)], "one")
    last = world.give("one", "done")
    world.log.held = False
    await turns()
    assert [len(batch) for batch in world.log.batches] == [3, 1, 1, 2]
    assert [entry[0][-1] for _, entry in world.log.records] == list(range(7))
    assert last.result() == "done"


@scenario(told)
async def test_records_that_are_one_are_in_one_append_unless_they_are_too_large(world: World) -> None:
    """A crash between two appends would leave half of a decision."""
    third = GROUP_APPEND_BYTES_MAX // 3
    for number in range(0, 6, 2):
        decision = [record(number, third), record(number + 1, third)]
        world.writer.add(decision, "one", is_one=True)
    world.writer.add([record(number, third) for number in range(6, 10)], "one", is_one=True)
    world.log.held = False
    await turns()
    assert [[entry[0][-1] for entry in batch] for batch in world.log.batches] == [
        [0, 1], [2, 3], [4, 5], [6, 7, 8], [9],
    ]  # fmt: skip


@pytest.mark.parametrize("but_stands", [False, True])
@scenario(told)
async def test_after_a_failure_nothing_more_is_appended_and_nobody_is_told_it_was(
    world: World, but_stands: bool
) -> None:
    world.writer.add([record(1)], "one")
    await turns()
    world.writer.add([record(2)], "two")
    one, two, flushed = world.give("one", "done"), world.give("two", "done"), world.writer.flushed()
    world.log.fail(but_stands=but_stands)
    await turns()
    assert one.result() == two.result() == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert flushed.result() is not True
    assert len(world.log.records) == but_stands and world.log.appends == 1
    assert [type(failure) for failure in world.failures] == [Unavailable]


@pytest.mark.parametrize("append_ends", ["well", "with a failure"])
@scenario(told)
async def test_a_writer_that_was_stopped_appends_no_more_and_answers_that_it_does_not(
    world: World, append_ends: str
) -> None:
    world.writer.add([record(1)], "one")
    await turns()
    world.writer.add([record(2)], "two")
    one, two, flushed = world.give("one", "done"), world.give("two", "done"), world.writer.flushed()
    world.writer.stop()
    assert one.result() == two.result() == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert flushed.result() is not True
    world.writer.add([record(3)], "three")
    assert world.give("three", "done").result() == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert world.writer.flushed().result() is not True
    world.log.release() if append_ends == "well" else world.log.fail()
    world.log.held = False
    await turns()
    assert world.log.appends == 1 and world.failures == []


@scenario(told)
async def test_flushed_tells_when_everything_is_durable(world: World) -> None:
    assert world.writer.flushed().result() is True
    world.writer.add([record(1)])
    await turns()
    world.writer.add([record(2)], "one")
    flushed = world.writer.flushed()
    world.log.release()
    await turns()
    assert not flushed.done()
    world.log.release()
    await turns()
    assert flushed.result() is True


@scenario(told)
async def test_who_has_gone_is_not_answered(world: World) -> None:
    world.writer.add([record(1)], "one")
    gone = world.give("one", "done")
    gone.cancel()
    world.log.held = False
    await turns()
    assert world.log.batches and gone.cancelled()


@scenario(told)
async def test_cancelled_under_way_it_leaves_nobody_waiting(world: World) -> None:
    world.writer.add([record(1)], "one")
    waiting = world.give("one", "done")
    await turns()
    await world.tasks.cancel()
    assert waiting.result() == ErrorCode.COORDINATOR_NOT_AVAILABLE


@scenario(told)
async def test_after_a_failure_nobody_waits_for_records_that_are_never_appended(world: World) -> None:
    world.writer.add([record(1)], "one")
    await turns()
    world.log.fail()
    await turns()
    assert world.writer.flushed().done()
    assert world.give("one", ErrorCode.COORDINATOR_NOT_AVAILABLE).done()


def test_a_backlog_ends_when_its_records_are_durable() -> None:
    """Each record is counted with its overhead, and the same count is returned afterwards."""
    size_bytes = 1_000
    most = GROUP_RECORDS_WAITING_BYTES_MAX // (size_bytes + RECORD_OVERHEAD_BYTES)

    async def story(world: World) -> None:
        world.writer.add([record(number, size_bytes) for number in range(most)], "one")
        assert not world.writer.has_backlog
        world.writer.add([(b"key", None)] * 5, "one")
        assert world.writer.has_backlog
        world.log.held = False
        world.log.release()
        for _ in range(50):
            await turns()
        assert len(world.log.records) == most + 5
        assert not world.writer.has_backlog and world.writer._waiting_bytes == 0

    told(story)


@scenario(told)
async def test_what_an_append_that_fails_had_to_write_is_let_go(world: World) -> None:
    world.writer.add([record(1)], "one")
    await turns()
    world.writer.add([record(2)], "two")
    world.log.fail()
    await turns()
    assert not world.writer._batches and not world.writer._newest_of


@scenario(told)
async def test_an_answer_waits_for_the_newest_records_of_its_group(world: World) -> None:
    world.writer.add([record(1)], "one")
    await turns()
    world.writer.add([record(2)], "one")
    world.log.release()
    await turns()
    waiting = world.give("one", "done")
    assert not waiting.done()
    world.log.release()
    await turns()
    assert waiting.result() == "done"
