"""The log of groups is written again and trimmed, and nothing that is live is lost."""

import asyncio
from typing import Any

import pytest

from siltstone.broker.coordination.checkpoints import LogSize
from siltstone.broker.groups.coordinator import write_checkpoint
from siltstone.broker.groups.log_writer import LogWriter
from siltstone.broker.groups.offsets_log.record import (
    CommittedOffset,
    GroupRecord,
    OffsetKey,
    OffsetRecord,
    decode_record,
)
from siltstone.broker.groups.pending_offsets import PendingOffsets
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.model.errors import Unavailable
from siltstone.runtime.tasks import TaskGroup
from support.groups.coordinator_tests import SMALL, code_of, commit, statistics
from support.groups.group_client import (
    GROUP,
    committed,
    stable_group,
)
from support.groups.group_logs import MemoryGroupLog
from support.groups.groups_world import GroupsWorld, run, turns
from support.scenarios import scenario


@scenario(run, SMALL)
async def test_a_long_log_is_written_anew_and_trimmed(world: GroupsWorld) -> None:
    first, second = await stable_group(world, "first", "second")
    for offset in range(30):
        await first.commit(offset, partition=offset % 3)
    await turns()
    before = statistics(world)
    assert before.checkpoints >= 1 and before.log_records == len(world.log.records) <= 12
    world.restart()
    assert await committed(world) == {("flights", 0): 27, ("flights", 1): 28, ("flights", 2): 29}
    assert await first.beat() == await second.beat() == ErrorCode.NONE
    assert statistics(world).log_records == len(world.log.records)


@scenario(run, SMALL)
async def test_live_records_are_not_written_anew_again_and_again(world: GroupsWorld) -> None:
    for number in range(60):
        await commit(world, 1, group=f"group-{number}")
    await turns()
    assert statistics(world).live_records == 60
    appended = sum(map(len, world.log.batches))
    assert appended <= 120
    for offset in range(60, 200):
        await commit(world, offset, group="group-0")
    await turns()
    assert statistics(world).log_records <= 2 * 60 + 1


@scenario(run, SMALL)
async def test_a_crash_before_the_trim_loses_nothing(world: GroupsWorld) -> None:
    for offset in range(10):
        await commit(world, offset)
    world.log.held = True
    last = await commit(world, 10)  # one more than ten: the log is written anew
    world.log.release()
    await turns()
    assert code_of(last) == ErrorCode.NONE
    assert world.log.under_way == 1 and world.log.start_offset == 0
    world.restart()
    world.log.held = False
    assert await committed(world) == {("flights", 0): 10}


def test_what_changes_while_it_is_written_anew_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("siltstone.broker.groups.coordinator.RECORDS_PER_STEP", 2)

    async def story(world: GroupsWorld) -> None:
        for number in range(11):
            await commit(world, number, group=f"group-{number}")
        await turns()
        world.log.held = True
        for number in range(13):
            await commit(world, 100 + number, group=f"group-{number % 11}")
        for number in range(40):
            await commit(world, 200 + number, group=f"group-{number % 11}")
            world.log.release()
            await turns()
        world.log.held = False
        world.log.release()
        await turns(100)
        expected = {
            f"group-{number}": max(n for n in range(40) if n % 11 == number) + 200 for number in range(11)
        }
        assert statistics(world).checkpoints >= 1 and world.log.start_offset > 0
        world.restart()
        assert {group: (await committed(world, group))["flights", 0] for group in expected} == expected

    run(story, SMALL)


@scenario(run, SMALL)
async def test_a_rebalance_under_way_is_written_as_the_generation_before(
    world: GroupsWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = await stable_group(world, "first", "second")
    await first.begin_join()
    for offset in range(40):
        await commit(world, offset, group="other")
    await turns()
    assert statistics(world).checkpoints >= 1
    kept = [decode_record(record) for _, record in world.log.records]
    (saved,) = [record for record in kept if isinstance(record, GroupRecord)]
    assert saved.metadata is not None and saved.metadata.generation == 1
    assert len(saved.metadata.members) == 2
    world.restart()
    assert await second.beat() == ErrorCode.NONE


@scenario(run, SMALL)
async def test_a_trim_that_fails_is_tried_again_later(
    world: GroupsWorld, caplog: pytest.LogCaptureFixture
) -> None:
    real_trim = world.log.trim_before

    async def trim(offset: int) -> None:
        raise Unavailable("the disk is away")

    world.log.trim_before = trim
    for offset in range(12):
        await commit(world, offset)
    await turns()
    assert "could not be trimmed" in caplog.text and world.log.start_offset == 0
    world.log.trim_before = real_trim
    for offset in range(12, 30):
        await commit(world, offset)
    await turns()
    assert world.log.start_offset > 0
    assert await committed(world) == {("flights", 0): 29}


class LiveGroup:
    """A group with no members that has committed the offsets 0, 1, ... in as many partitions."""

    def __init__(self, partition_count: int) -> None:
        self.offsets = {("flights", partition): partition for partition in range(partition_count)}
        self.partitions = list(self.offsets)
        self.pending = PendingOffsets()

    def records_of_group(self) -> tuple[()]:
        return ()

    def record_of_offset(self, key: tuple[str, int]) -> OffsetRecord:
        return OffsetRecord(OffsetKey(GROUP, *key), CommittedOffset(self.offsets[key], -1, "", 1))


@pytest.mark.parametrize("failing_step", [1, 2, 3, None])
def test_a_checkpoint_writes_all_in_steps_and_trims_only_what_it_has_written_again(
    failing_step: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("siltstone.broker.groups.coordinator.RECORDS_PER_STEP", 2)

    async def story() -> None:
        log, failures = MemoryGroupLog(), list[Exception]()
        tasks = TaskGroup("test", lambda failure: pytest.fail(str(failure)))
        length = LogSize(1, 1)
        writer = LogWriter(log, length, tasks, failures.append)
        writer.add([(b"old", b"")])
        await writer.flushed()
        log.held = True
        groups: Any = {GROUP: LiveGroup(5)}
        checkpoint = asyncio.ensure_future(write_checkpoint(groups, writer, log, length, {}))
        step = 0
        while not checkpoint.done():
            await turns()
            step += 1
            log.fail() if step == failing_step else log.release()
            await turns()
        assert checkpoint.result() is (failing_step is None) is not bool(failures)
        if failing_step is None:
            assert [len(batch) for batch in log.batches] == [1, 2, 2, 1]
            read = [decode_record(entry) for _, entry in log.records]
            assert read == [LiveGroup(5).record_of_offset(("flights", number)) for number in range(5)]
        assert log.start_offset == (1 if failing_step is None else 0)
        await tasks.cancel()

    asyncio.run(story())
