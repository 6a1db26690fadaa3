"""A coordinator through slow, failing and damaged logs: no answer is sent before its records are durable, and the
coordinator recovers by reading again."""

import asyncio
import logging

import pytest

from siltstone.broker.groups.rules import deciding
from siltstone.broker.groups.rules.requests import Commit, OffsetToCommit
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.model.errors import CorruptData, Fenced, Unavailable
from siltstone.model.serving_limits import COORDINATOR_LOAD_BACKOFF_MS_MAX
from support.groups.coordinator_tests import SMALL, code_of, commit, statistics
from support.groups.group_client import (
    GroupClient,
    all_join,
    all_sync,
    committed,
    stable_group,
)
from support.groups.groups_world import GroupsWorld, run, turns
from support.scenarios import scenario


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
        await world.pass_ms(COORDINATOR_LOAD_BACKOFF_MS_MAX)
        assert statistics(world).phase == "DAMAGED"
        await world.pass_ms(COORDINATOR_LOAD_BACKOFF_MS_MAX)
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
        patched.setattr("siltstone.broker.groups.known_groups.decide_of_any_kind", bug)
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
