"""A coordinator through slow, failing and damaged logs: no answer is sent before its records are durable, and the
coordinator recovers by reading again."""

import asyncio
import logging
from typing import Any

import msgspec
import pytest

from siltstone.broker.groups import log_writer
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
from siltstone.broker.groups.rules import deciding
from siltstone.broker.groups.rules.requests import Commit, OffsetToCommit
from siltstone.broker.groups.settings import GroupSettings
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.describe_groups import DescribeGroupsRequest
from siltstone.model.errors import CorruptData, Fenced, Unavailable
from siltstone.model.serving_limits import GROUP_LOAD_BACKOFF_MS_MAX
from siltstone.runtime.tasks import TaskGroup
from support.groups.group_client import (
    GROUP,
    GroupClient,
    all_join,
    all_sync,
    commit_request,
    committed,
    join_request,
    stable_group,
)
from support.groups.group_logs import MemoryGroupLog
from support.groups.groups_world import FakeTopic, GroupsWorld, run, turns
from support.scenarios import scenario

SMALL = GroupSettings(group_initial_rebalance_delay_ms=0, checkpoint_records_min=10, checkpoint_live_factor=2)


def code_of(task: "asyncio.Task[Any]") -> ErrorCode:
    return ErrorCode(task.result().topics[0].partitions[0].error_code)


async def commit(world: GroupsWorld, offset: int, **changes: Any) -> "asyncio.Task[Any]":
    return await world.begin(commit_request(offset, **changes), 8)


def statistics(world: GroupsWorld) -> Any:
    (coordinator,) = world.groups.statistics.coordinators
    return coordinator


# -- durable before told ---------------------------------------------------------------------------------


@scenario(run)
async def test_a_commit_is_answered_when_it_is_durable(world: GroupsWorld) -> None:
    world.log.held = True
    committing = await commit(world, 5)
    assert not committing.done()
    world.log.release()
    await turns()
    assert code_of(committing) == ErrorCode.NONE


@scenario(run)
async def test_what_is_read_is_durable(world: GroupsWorld) -> None:
    await commit(world, 5)
    world.log.held = True
    await commit(world, 6)
    reading = asyncio.get_running_loop().create_task(committed(world))
    elsewhere = asyncio.get_running_loop().create_task(committed(world, "other"))
    await turns()
    assert not reading.done() and elsewhere.result() == {}
    world.log.release()
    await turns()
    assert reading.result() == {("flights", 0): 6}


@scenario(run)
async def test_an_assignment_is_told_when_it_is_durable(world: GroupsWorld) -> None:
    clients = [GroupClient(world, name) for name in ("first", "second")]
    await all_join(*clients)
    world.log.held = True
    leader, follower = sorted(clients, key=lambda client: not client.is_leader)
    waiting, leading = await follower.begin_sync(), await leader.begin_sync()
    assert not waiting.done() and not leading.done()
    world.log.release()
    await turns()
    assert leading.result().error_code == waiting.result().error_code == ErrorCode.NONE


@scenario(run)
async def test_a_returned_static_member_is_told_when_its_new_id_is_durable(world: GroupsWorld) -> None:
    await stable_group(world, "first", instance="desk")
    world.log.held = True
    returning = await GroupClient(world, "again", instance="desk").begin_join()
    assert not returning.done()
    world.log.release()
    await turns()
    assert returning.result().error_code == ErrorCode.NONE
    world.restart()
    client = GroupClient(world, "again", instance="desk")
    client.has_joined(returning.result())
    assert await client.beat() == ErrorCode.NONE


@scenario(run)
async def test_requests_of_a_group_are_decided_in_their_order(world: GroupsWorld) -> None:
    world.log.held = True
    tasks = [await commit(world, offset) for offset in range(20)]
    for _ in range(10):
        world.log.release()
        await turns()
    assert {code_of(task) for task in tasks} == {ErrorCode.NONE}
    assert await committed(world) == {("flights", 0): 19}
    assert world.log.appends <= 3


# -- failures --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("but_stands", [False, True])
@scenario(run)
async def test_a_failed_append_is_told_and_the_log_read_again(world: GroupsWorld, but_stands: bool) -> None:
    await commit(world, 5)
    world.log.held = True
    failing, behind = await commit(world, 6), await commit(world, 7, partition=1)
    world.log.fail(but_stands=but_stands)
    world.log.held = False
    await turns()
    assert code_of(failing) == code_of(behind) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert statistics(world).loads == 2
    assert await committed(world) == {("flights", 0): 6 if but_stands else 5}
    assert code_of(await commit(world, 8)) == ErrorCode.NONE


@scenario(run)
async def test_a_failed_assignment_is_a_rebalance_at_worst(world: GroupsWorld) -> None:
    first, second = await stable_group(world, "first", "second")
    await first.commit(5)
    joining = [await first.begin_join(), await second.begin_join()]
    first.has_joined(joining[0].result())
    second.has_joined(joining[1].result())
    world.log.held = True
    waiting, leading = await second.begin_sync(), await first.begin_sync()
    world.log.fail()
    world.log.held = False
    await turns()
    for task in (waiting, leading):
        assert task.result().error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    # The log knows generation 1; nobody was ever assigned anything in generation 2.
    assert await first.beat() == await second.beat() == ErrorCode.ILLEGAL_GENERATION
    tasks = [await first.begin_join(), await second.begin_join()]
    first.has_joined(tasks[0].result())
    second.has_joined(tasks[1].result())
    await all_sync(first, second)
    assert await first.beat() == await second.beat() == ErrorCode.NONE
    assert await committed(world) == {("flights", 0): 5}


@scenario(run)
async def test_who_waits_for_a_join_when_an_append_fails_is_told(world: GroupsWorld) -> None:
    first, _ = await stable_group(world, "first", "second")
    joining = await first.begin_join()
    world.log.held = True
    await commit(world, 1, group="other")
    world.log.fail()
    await turns()
    assert joining.result().error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


@scenario(run)
async def test_sessions_go_on_after_reading_again_and_no_timer_is_left_over(world: GroupsWorld) -> None:
    first, second = await stable_group(world, "first", "second")
    world.log.held = True
    await commit(world, 1, group="other")
    world.log.fail()
    world.log.held = False
    await turns()
    for _ in range(4):
        assert await first.beat() in {ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS}
        await world.pass_ms(3_000)
    assert await first.beat() == ErrorCode.REBALANCE_IN_PROGRESS
    assert await second.beat() == ErrorCode.UNKNOWN_MEMBER_ID
    await first.leave()
    assert world.groups.statistics.timers == 1  # the one that looks for expired offsets


@pytest.mark.parametrize("trouble", [Unavailable("away"), Fenced("another node")], ids=["away", "fenced"])
@scenario(run)
async def test_a_log_that_cannot_be_opened_is_tried_again_more_and_more_slowly(
    world: GroupsWorld, trouble: Exception
) -> None:
    world.logs.fails_to_open = [trouble] * 4
    committing = await commit(world, 5)
    await world.pass_ms(600)
    assert code_of(committing) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert len(world.logs.fails_to_open) == 1  # after 0, 100 and 300 ms; the next at 700
    await world.pass_ms(1_000)
    assert code_of(await commit(world, 5)) == ErrorCode.NONE


@pytest.mark.parametrize("damage", ["a record", "the log"])
@scenario(run)
async def test_a_damaged_log_serves_nobody_and_says_why(
    world: GroupsWorld, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    if damage == "a record":
        world.log.records.append((0, (b"\x00\x01\x00", None)))
    else:
        world.logs.fails_to_open = [CorruptData("index checksum")]
    with caplog.at_level(logging.ERROR):
        committing = await commit(world, 5)
    assert code_of(committing) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert statistics(world).phase == "DAMAGED"
    assert "__consumer_offsets-0 cannot be read" in caplog.text


def test_a_damaged_log_that_was_restored_is_loaded(caplog: pytest.LogCaptureFixture) -> None:
    async def story(world: GroupsWorld) -> None:
        world.logs.fails_to_open = [CorruptData("index checksum"), CorruptData("index checksum")]
        assert code_of(await commit(world, 5)) == ErrorCode.COORDINATOR_NOT_AVAILABLE
        await world.pass_ms(GROUP_LOAD_BACKOFF_MS_MAX)
        assert statistics(world).phase == "DAMAGED"
        await world.pass_ms(GROUP_LOAD_BACKOFF_MS_MAX)
        assert code_of(await commit(world, 5)) == ErrorCode.NONE
        assert statistics(world).phase == "ACTIVE"

    with caplog.at_level(logging.ERROR):
        run(story)
    assert caplog.text.count("__consumer_offsets-0 cannot be read") == 1


@scenario(run)
async def test_a_bug_in_a_timer_makes_it_read_the_log_again(
    world: GroupsWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    (first,) = await stable_group(world, "first")
    await first.commit(5)

    def bug(*_: object) -> None:
        raise AssertionError("believed in vain")

    with monkeypatch.context() as patched:
        patched.setattr("siltstone.broker.groups.known_groups.decide", bug)
        await world.pass_ms(11_000)
    assert statistics(world).loads == 2
    assert await first.beat() == ErrorCode.NONE
    assert await committed(world) == {("flights", 0): 5}


@scenario(run, SMALL)
async def test_a_bug_in_a_task_stops_the_expiry_of_offsets_and_the_writer(
    world: GroupsWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    def bug(*_: object) -> None:
        raise KeyError("believed in vain")

    monkeypatch.setattr("siltstone.broker.groups.coordinator.write_checkpoint", bug)
    world.log.held = True
    committing = [await commit(world, offset) for offset in range(12)]
    await turns()
    assert statistics(world).phase == "DAMAGED"
    assert {code_of(each) for each in committing} == {ErrorCode.COORDINATOR_NOT_AVAILABLE}
    assert world.groups.statistics.timers == 0
    world.log.held = False
    world.log.release()
    await turns()
    assert world.log.appends == 1, "the one that was under way"
    await world.pass_ms(2 * SMALL.offsets_retention_check_interval_ms)
    assert world.groups.statistics.timers == 0


@scenario(run)
async def test_a_bug_in_a_request_is_that_requests_alone(
    world: GroupsWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    await commit(world, 5)
    real = deciding.STEPS
    monkeypatch.setattr(deciding, "STEPS", {})
    failing = await commit(world, 6)
    assert isinstance(failing.exception(), KeyError)
    monkeypatch.setattr(deciding, "STEPS", real)
    assert await committed(world) == {("flights", 0): 5}


@scenario(run)
async def test_a_text_too_long_to_be_written_down_is_refused_and_changes_nothing(world: GroupsWorld) -> None:
    offset = OffsetToCommit("flights", 0, 5, -1, "")
    asked = Commit("", None, -1, [offset])
    refused = await world.groups.ask("x" * 40_000, asked)  # no request has room for it
    assert refused is ErrorCode.INVALID_REQUEST
    assert world.log.records == []
    assert statistics(world).groups == 0


# -- writing anew ----------------------------------------------------------------------------------------


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


# -- limits ----------------------------------------------------------------------------------------------


@scenario(run, GroupSettings(group_initial_rebalance_delay_ms=0, groups_bytes_max=20000))
async def test_full_memory_refuses_what_is_new_and_serves_what_is_there(
    world: GroupsWorld, caplog: pytest.LogCaptureFixture
) -> None:
    (first,) = await stable_group(world, "first")
    await first.commit(5)
    for number in range(100):
        if code_of(await commit(world, 1, group=f"group-{number}")) != ErrorCode.NONE:
            break
    else:
        pytest.fail("there was always room")
    assert world.groups.statistics.bytes_used >= 20_000
    assert await first.commit(6) == ErrorCode.NONE
    assert await first.commit(6, partition=1) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    newcomer = await GroupClient(world, "second").begin_join()
    assert newcomer.result().error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    first.has_joined((await first.begin_join()).result())
    await all_sync(first)
    assert caplog.text.count("raise groups.groups_bytes_max") == 1


@scenario(run)
async def test_memory_is_given_back(world: GroupsWorld) -> None:
    await commit(world, 1)
    used = world.groups.statistics.bytes_used
    clients = await stable_group(world, "first", "second", group="other")
    await clients[0].commit(5)
    for client in clients:
        await client.leave()
    await world.pass_ms(8 * 24 * 3_600_000, steps=60)
    assert world.groups.statistics.bytes_used == 0
    await commit(world, 1)
    assert world.groups.statistics.bytes_used == used
    world.log.held = True
    await commit(world, 2)
    world.log.fail()
    world.log.held = False
    await turns()
    assert await committed(world) == {("flights", 0): 1}
    assert world.groups.statistics.bytes_used == used


@scenario(run)
async def test_ids_that_nobody_takes_leave_nothing_behind(world: GroupsWorld) -> None:
    for _ in range(5):
        answer = await world.ask(join_request(), 9)
        assert answer.error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert statistics(world).groups == 1 and world.groups.statistics.bytes_used > 0
    await world.pass_ms(10_000)
    assert statistics(world).groups == 0 and world.groups.statistics.bytes_used == 0
    assert world.log.records == []


@pytest.mark.parametrize("what", ["gone", "new", "the same"])
@scenario(run)
async def test_offsets_of_a_topic_that_was_deleted_in_a_crash_go_when_they_are_loaded(
    world: GroupsWorld, what: str
) -> None:
    """The deletion was committed, the tombstones were not written; a topic of the name may have been made since."""
    await commit(world, 5)
    committed_ms = world.clock.now_ms()
    await world.pass_ms(10)
    match what:
        case "gone":
            del world.topics.topics["flights"]
        case "new":
            world.topics.topics["flights"] = FakeTopic("flights", b"another.........", 4, committed_ms + 1)
        case "the same":
            world.topics.topics["flights"] = FakeTopic("flights", b"flights.........", 4, committed_ms)
    world.restart()
    expected = {("flights", 0): 5} if what == "the same" else {}
    for _ in range(2):
        assert await committed(world) == expected
        world.restart()
    tombstones = sum(value is None for _, (_, value) in world.log.records)
    assert tombstones == (0 if expected else 1), "written once"


# -- the end ---------------------------------------------------------------------------------------------


@scenario(run)
async def test_closing_waits_for_what_is_under_way(world: GroupsWorld) -> None:
    world.log.held = True
    committing = await commit(world, 5)
    closing = asyncio.get_running_loop().create_task(world.groups.close())
    await turns()
    assert not closing.done()
    world.log.release()
    await turns()
    assert closing.done() and code_of(committing) == ErrorCode.NONE
    assert code_of(await commit(world, 6)) == ErrorCode.NOT_COORDINATOR


@scenario(run)
async def test_waits_end_before_what_is_under_way_does(world: GroupsWorld) -> None:
    """The network answers, then closing waits: what was decided is answered when it is durable."""
    world.log.held = True
    committing = await commit(world, 5)
    world.groups.end_waits()
    await turns()
    assert not committing.done()
    assert code_of(await commit(world, 6)) == ErrorCode.NOT_COORDINATOR
    closing = asyncio.get_running_loop().create_task(world.groups.close())
    await turns()
    assert not closing.done()
    world.log.release()
    await turns()
    assert closing.done() and code_of(committing) == ErrorCode.NONE


@scenario(run)
async def test_but_not_for_ever(world: GroupsWorld) -> None:
    world.log.held = True
    committing = await commit(world, 5)
    closing = asyncio.get_running_loop().create_task(world.groups.close())
    await turns()
    await world.pass_ms(5_000)
    assert closing.done()
    assert code_of(committing) == ErrorCode.COORDINATOR_NOT_AVAILABLE


@scenario(run)
async def test_closing_while_it_loads(world: GroupsWorld) -> None:
    world.log.reading.clear()
    committing = await commit(world, 5)
    await world.groups.close()
    await turns()
    assert code_of(committing) == ErrorCode.NOT_COORDINATOR


# -- topics that go --------------------------------------------------------------------------------------


@scenario(run)
async def test_a_deleted_topic_takes_its_offsets_along(world: GroupsWorld) -> None:
    first, second = await stable_group(world, "first", "second")
    await first.commit(5)
    await first.commit(6, topic="planes")
    await commit(world, 7, group="other")
    await world.groups.forget_topic("flights")
    world.restart()
    assert await committed(world) == {("planes", 0): 6}
    assert await committed(world, "other") == {}
    assert await second.beat() == ErrorCode.NONE


@scenario(run)
async def test_also_while_groups_are_being_loaded(world: GroupsWorld) -> None:
    await commit(world, 5)
    world.log.reading.clear()
    world.restart()
    await world.groups.forget_topic("flights")
    world.log.reading.set()
    await turns()
    assert await committed(world) == {}


# -- expiry ----------------------------------------------------------------------------------------------


def test_many_groups_are_looked_at_in_several_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("siltstone.broker.groups.known_groups.OFFSETS_LOOKED_AT_PER_TURN", 5)

    async def story(world: GroupsWorld) -> None:
        for number in range(30):
            await commit(world, 1, group=f"group-{number}")
        world.clock.advance_ms(8 * 24 * 3_600_000)
        await turns(3)
        assert 0 < statistics(world).groups < 30
        await world.pass_ms(100, steps=40)
        assert statistics(world).groups == 0

    run(story)


@scenario(run)
async def test_statistics_count_what_is_there(world: GroupsWorld) -> None:
    await stable_group(world, "first", "second")
    await commit(world, 1, group="other")
    expected = {
        "phase": "ACTIVE",
        "groups": 2,
        "members": 2,
        "log_records": 2,
        "live_records": 2,
        "loads": 1,
    }
    assert msgspec.structs.asdict(statistics(world)) == expected | {"partition": 0, "checkpoints": 0}
    described = await world.ask(DescribeGroupsRequest(groups=[GROUP]), 5)
    assert described.groups[0].group_state == "Stable"


def test_rule_9_while_the_log_takes_nothing_only_so_much_waits_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(log_writer, "GROUP_RECORDS_WAITING_BYTES_MAX", 20_000)

    async def story(world: GroupsWorld) -> None:
        (member,) = await stable_group(world, "first")
        world.log.held = True
        waiting = [await commit(world, offset, group="other", metadata=4_000 * "m") for offset in range(10)]
        refused = [task for task in waiting if task.done()]
        assert refused == waiting[5:]
        assert {code_of(task) for task in refused} == {ErrorCode.COORDINATOR_NOT_AVAILABLE}
        newcomer = await GroupClient(world, "second").begin_join()
        assert newcomer.result().error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert await member.beat() == ErrorCode.NONE
        world.log.held = False
        world.log.release()
        await turns()
        assert {code_of(task) for task in waiting[:5]} == {ErrorCode.NONE}
        assert await member.commit(6) == ErrorCode.NONE

    run(story)


# -- a checkpoint by itself ------------------------------------------------------------------------------


class LiveGroup:
    """A group with no members that has committed the offsets 0, 1, ... in as many partitions."""

    def __init__(self, partition_count: int) -> None:
        self.offsets = {("flights", partition): partition for partition in range(partition_count)}
        self.partitions = list(self.offsets)
        self.pending = PendingOffsets()

    def record_of_group(self) -> None:
        return None

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
        writer = LogWriter(log, tasks, failures.append)
        writer.add([(b"old", b"")])
        await writer.flushed()
        log.held = True
        groups: Any = {GROUP: LiveGroup(5)}
        checkpoint = asyncio.ensure_future(write_checkpoint(groups, writer, log))
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
