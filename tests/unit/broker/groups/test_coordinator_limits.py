"""The limits of a coordinator, its end, deleted topics and expiry."""

import asyncio

import msgspec
import pytest

from siltstone.broker.groups import log_writer
from siltstone.broker.groups.settings import GroupSettings
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.describe_groups import DescribeGroupsRequest
from support.groups.coordinator_tests import code_of, commit, statistics
from support.groups.group_client import (
    GROUP,
    GroupClient,
    all_sync,
    committed,
    join_request,
    stable_group,
)
from support.groups.groups_world import FakeTopic, GroupsWorld, run, turns
from support.scenarios import scenario


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
