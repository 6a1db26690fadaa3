"""Items 47 and 48 of docs/scenarios.md: how long offsets and groups live, and what a restart leaves of them."""

import asyncio
from typing import Any

import pytest

from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.delete_groups import DeleteGroupsRequest
from siltstone.kafka_protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from support.groups.group_client import (
    GROUP,
    GroupClient,
    commit,
    commit_request,
    committed,
    describe,
    fetch_request,
    stable_group,
    state,
)
from support.groups.groups_world import GroupsWorld, run, turns
from support.scenarios import scenario

DAY_MS = 24 * 3_600_000


# -- 47 --------------------------------------------------------------------------------------------------


@scenario(run)
async def test_item_47_offsets_are_kept_seven_days_from_the_moment_the_group_became_empty(
    world: GroupsWorld,
) -> None:
    (first,) = await stable_group(world, "first", session_ms=1_800_000)
    await first.commit(5)
    for _ in range(9 * 72):  # nine days with members
        await world.pass_ms(DAY_MS // 72, steps=1)
        assert await first.beat() == ErrorCode.NONE
    await first.leave()
    await world.pass_ms(7 * DAY_MS - 1_000, steps=50)
    assert await committed(world) == {("flights", 0): 5}
    await world.pass_ms(700_000)
    assert await committed(world) == {}
    assert (await describe(world)).group_state == "Dead"
    assert world.log.records[-1][1][1] is None  # buried in the log, too


@scenario(run)
async def test_item_47_of_a_topic_nobody_subscribes_to_they_go_while_the_group_lives(
    world: GroupsWorld,
) -> None:
    await commit(world, commit_request(8, topic="planes"))
    (first,) = await stable_group(world, "first", session_ms=1_800_000)
    await first.commit(5)
    for _ in range(8 * 72):
        await world.pass_ms(DAY_MS // 72, steps=1)
        assert await first.beat() == ErrorCode.NONE
    assert await committed(world) == {("flights", 0): 5}


@scenario(run)
async def test_item_47_simple_groups_count_from_the_commit(world: GroupsWorld) -> None:
    await commit(world, commit_request(5, partition=0))
    await world.pass_ms(4 * DAY_MS)
    await commit(world, commit_request(6, partition=1))
    await world.pass_ms(3 * DAY_MS + 700_000, steps=40)
    assert await committed(world) == {("flights", 1): 6}
    await world.pass_ms(4 * DAY_MS, steps=40)
    assert (await describe(world)).group_state == "Dead"


@pytest.mark.parametrize("version", [2, 3, 4])
@scenario(run)
async def test_item_47_older_clients_say_how_long(world: GroupsWorld, version: int) -> None:
    assert await commit(world, commit_request(5, retention_ms=DAY_MS), version) == ErrorCode.NONE
    world.restart()
    await committed(world)
    await world.pass_ms(DAY_MS - 1_000)
    assert await committed(world) == {("flights", 0): 5}
    await world.pass_ms(700_000)
    assert await committed(world) == {}


@scenario(run)
async def test_item_47_groups_with_members_are_not_deleted(world: GroupsWorld) -> None:
    (first,) = await stable_group(world, "first")
    await first.commit(5)
    request = DeleteGroupsRequest(groups_names=[GROUP, "nobody", GROUP])
    codes = [(row.group_id, row.error_code) for row in (await world.ask(request, 2)).results]
    assert codes == [(GROUP, ErrorCode.NON_EMPTY_GROUP), ("nobody", ErrorCode.GROUP_ID_NOT_FOUND)]
    await first.leave()
    assert (await world.ask(request, 2)).results[0].error_code == ErrorCode.NONE
    assert await committed(world) == {}
    world.restart()
    assert await committed(world) == {}
    assert (await describe(world)).group_state == "Dead"


@pytest.mark.parametrize("version", range(7))
@scenario(run)
async def test_item_47_an_unknown_group_is_dead(world: GroupsWorld, version: int) -> None:
    described = await describe(world, "nobody", version)
    assert described.group_state == "Dead"
    assert described.error_code == (ErrorCode.GROUP_ID_NOT_FOUND if version >= 6 else ErrorCode.NONE)
    assert (described.error_message is not None) is (version >= 6)


# -- 48 --------------------------------------------------------------------------------------------------


@scenario(run)
async def test_item_48_after_a_restart_members_go_on_as_if_nothing_had_been(world: GroupsWorld) -> None:
    first, second = await stable_group(world, "first", "second")
    await first.commit(5)
    world.restart()
    assert await first.beat() == await second.beat() == ErrorCode.NONE
    assert bytes((await second.begin_sync()).result().assignment) == second.assignment
    assert await second.commit(6, partition=1) == ErrorCode.NONE
    assert await committed(world) == {("flights", 0): 5, ("flights", 1): 6}
    described = await describe(world)
    assert described.group_state == "Stable" and described.protocol_data == "range"
    assert [member.client_id for member in described.members] == ["first", "second"]


@scenario(run)
async def test_item_48_a_restart_in_the_middle_of_a_rebalance_is_a_rebalance(world: GroupsWorld) -> None:
    first, second = await stable_group(world, "first", "second")
    await first.commit(5)
    third = GroupClient(world, "third")
    joining = await third.begin_join()
    world.restart()  # the third's place is not written down
    joining.cancel()
    assert await first.beat() == ErrorCode.NONE
    assert (await third.begin_join()).result().error_code == ErrorCode.UNKNOWN_MEMBER_ID
    third.member_id = ""
    waiting = await third.begin_join()
    assert await first.beat() == ErrorCode.REBALANCE_IN_PROGRESS
    first.has_joined((await _both(first, second))[0])
    third.has_joined(waiting.result())
    assert first.generation == third.generation == 2
    assert await committed(world) == {("flights", 0): 5}


async def _both(first: GroupClient, second: GroupClient) -> list[Any]:
    tasks = [await first.begin_join(), await second.begin_join()]
    second.has_joined(tasks[1].result())
    return [task.result() for task in tasks]


@scenario(run)
async def test_item_48_sessions_begin_anew_after_a_restart(world: GroupsWorld) -> None:
    first, second = await stable_group(world, "first", "second", session_ms=10_000)
    world.restart()
    assert await first.beat() == ErrorCode.NONE
    for _ in range(4):
        await world.pass_ms(3_000)
        await first.beat()
    assert await second.beat() == ErrorCode.UNKNOWN_MEMBER_ID


@scenario(run)
async def test_item_48_while_it_loads_each_api_says_what_its_clients_survive(world: GroupsWorld) -> None:
    (first,) = await stable_group(world, "first")
    world.log.reading.clear()
    world.restart()
    tasks = {
        "join": await first.begin_join(),
        "sync": await first.begin_sync(),
        "commit": await world.begin(commit_request(5), 8),
        "fetch": await world.begin(fetch_request(7, GROUP, "flights", 0), 7),
    }
    beating = asyncio.get_running_loop().create_task(first.beat())
    await turns()
    assert not any(task.done() for task in tasks.values())
    await world.pass_ms(600)
    assert tasks["join"].result().error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert tasks["sync"].result().error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert tasks["fetch"].result().error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert tasks["commit"].result().topics[0].partitions[0].error_code == (
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    )
    assert beating.result() == ErrorCode.NONE
    world.log.reading.set()
    await turns()
    assert await first.beat() == ErrorCode.NONE


@scenario(run)
async def test_item_48_who_waits_when_it_closes_is_told_so(world: GroupsWorld) -> None:
    first, second = await stable_group(world, "first", "second")
    joining = await first.begin_join()
    await world.groups.close()
    await turns()
    assert joining.result().error_code == ErrorCode.NOT_COORDINATOR
    assert await second.beat() == ErrorCode.NOT_COORDINATOR


@scenario(run)
async def test_item_47_a_group_whose_last_offset_is_deleted_is_empty_and_can_be_deleted(
    world: GroupsWorld,
) -> None:
    """As kafka-consumer-groups --delete-offsets and then --delete does it."""
    await commit(world, commit_request(5))
    topic = OffsetDeleteRequestTopic(
        name="flights", partitions=[OffsetDeleteRequestPartition(partition_index=0)]
    )
    gone = await world.ask(OffsetDeleteRequest(group_id=GROUP, topics=[topic]), 0)
    assert gone.error_code == ErrorCode.NONE
    assert await committed(world) == {}
    assert await state(world) == "Empty"
    (deleted,) = (await world.ask(DeleteGroupsRequest(groups_names=[GROUP]), 2)).results
    assert deleted.error_code == ErrorCode.NONE
    assert await state(world) == "Dead"
