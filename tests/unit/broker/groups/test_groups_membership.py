"""Items 41 to 43 of docs/scenarios.md: assignments, heartbeats, joining again, and which requests are refused."""

import logging
from typing import Any

import pytest

from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.sync_group import SyncGroupRequest
from support.groups.group_client import (
    GROUP,
    GroupClient,
    all_join,
    all_sync,
    committed,
    join_request,
    stable_group,
    state,
)
from support.groups.groups_world import GroupsWorld, run
from support.scenarios import scenario

# -- 41 --------------------------------------------------------------------------------------------------


@scenario(run)
async def test_item_41_followers_wait_for_the_leaders_assignment(world: GroupsWorld) -> None:
    clients = [GroupClient(world, name) for name in ("first", "second")]
    await all_join(*clients)
    leader, follower = sorted(clients, key=lambda client: not client.is_leader)
    waiting = await follower.begin_sync()
    await world.pass_ms(5_000)
    assert not waiting.done()
    leading = await leader.begin_sync()
    assert bytes(leading.result().assignment).decode() == leader.member_id
    assert bytes(waiting.result().assignment).decode() == follower.member_id
    assert waiting.result().protocol_name == "range" and waiting.result().protocol_type == "consumer"


@scenario(run)
async def test_item_41_heartbeats_tell_of_a_rebalance(world: GroupsWorld) -> None:
    (first,) = await stable_group(world, "first")
    assert await first.beat() == ErrorCode.NONE
    second = GroupClient(world, "second")
    joining = await second.begin_join()
    assert await first.beat() == ErrorCode.REBALANCE_IN_PROGRESS
    first.has_joined((await first.begin_join()).result())
    second.has_joined(joining.result())
    assert await state(world) == "CompletingRebalance"
    assert await first.beat() == ErrorCode.NONE
    await all_sync(first, second)
    assert await first.beat() == await second.beat() == ErrorCode.NONE
    assert await first.leave() == await second.leave() == ErrorCode.NONE
    assert await state(world) == "Empty"
    assert await first.beat() == ErrorCode.UNKNOWN_MEMBER_ID


@scenario(run)
async def test_item_41_a_sync_during_the_join_phase_is_sent_back(world: GroupsWorld) -> None:
    (first,) = await stable_group(world, "first")
    await GroupClient(world, "second").begin_join()
    assert (await first.begin_sync()).result().error_code == ErrorCode.REBALANCE_IN_PROGRESS


@scenario(run)
async def test_item_41_waiting_followers_are_sent_back_by_the_next_rebalance(world: GroupsWorld) -> None:
    clients = [GroupClient(world, name) for name in ("first", "second")]
    await all_join(*clients)
    follower = next(client for client in clients if not client.is_leader)
    waiting = await follower.begin_sync()
    await GroupClient(world, "third").begin_join()
    assert waiting.result().error_code == ErrorCode.REBALANCE_IN_PROGRESS


@scenario(run)
async def test_item_41_who_does_not_sync_in_time_is_dropped(world: GroupsWorld) -> None:
    clients = [
        GroupClient(world, name, session_ms=100_000, rebalance_ms=30_000) for name in ("first", "second")
    ]
    await all_join(*clients)
    leader, follower = sorted(clients, key=lambda client: not client.is_leader)
    waiting = await follower.begin_sync()
    await world.pass_ms(29_000)
    assert not waiting.done()
    await world.pass_ms(2_000)
    assert waiting.result().error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert await leader.beat() == ErrorCode.UNKNOWN_MEMBER_ID
    follower.has_joined((await follower.begin_join()).result())
    assert follower.is_leader


@pytest.mark.parametrize(
    ("protocol_type", "protocol_name", "expected"),
    [
        ("consumer", "range", ErrorCode.NONE),
        ("connect", "range", ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ("consumer", "sticky", ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        (None, "range", ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ("consumer", None, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    ],
)
@scenario(run)
async def test_item_41_version_5_names_the_protocol(
    world: GroupsWorld, protocol_type: str | None, protocol_name: str | None, expected: ErrorCode
) -> None:
    (first,) = await stable_group(world, "first")
    request = SyncGroupRequest(
        group_id=GROUP, generation_id=1, member_id=first.member_id,
        protocol_type=protocol_type, protocol_name=protocol_name,
    )  # fmt: skip
    assert (await world.ask(request, 5)).error_code == expected
    assert (await world.ask(request, 4)).error_code == ErrorCode.NONE


# -- 42 --------------------------------------------------------------------------------------------------


@scenario(run)
async def test_item_42_a_follower_that_rejoins_unchanged_changes_nothing(world: GroupsWorld) -> None:
    leader, follower = await stable_group(world, "first", "second")
    again = (await follower.begin_join()).result()
    assert (again.error_code, again.generation_id, again.leader) == (0, 1, leader.member_id)
    assert again.members == []
    assert await leader.beat() == ErrorCode.NONE
    assignment = (await follower.begin_sync()).result().assignment
    assert bytes(assignment) == follower.assignment


@scenario(run)
async def test_item_42_the_leader_asks_for_a_rebalance_by_rejoining(world: GroupsWorld) -> None:
    leader, follower = await stable_group(world, "first", "second")
    rejoining = await leader.begin_join()
    assert not rejoining.done()
    assert await follower.beat() == ErrorCode.REBALANCE_IN_PROGRESS
    await follower.begin_join()
    assert rejoining.result().generation_id == 2


@scenario(run)
async def test_item_42_another_subscription_means_a_rebalance(world: GroupsWorld) -> None:
    leader, follower = await stable_group(world, "first", "second")
    follower.join = {"topics": ("flights", "planes")}
    rejoining = await follower.begin_join()
    assert not rejoining.done()
    assert await leader.beat() == ErrorCode.REBALANCE_IN_PROGRESS


@pytest.mark.parametrize("who", ["leader", "follower"])
@scenario(run)
async def test_item_42_whose_answer_was_lost_gets_it_again_before_the_assignment(
    world: GroupsWorld, who: str
) -> None:
    clients = [GroupClient(world, name) for name in ("first", "second")]
    await all_join(*clients)
    client = clients[0] if who == "leader" else clients[1]
    again = (await client.begin_join()).result()
    assert again == client.joined
    assert len(again.members) == (2 if who == "leader" else 0)


# -- 43 --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        ({"generation": 0}, ErrorCode.ILLEGAL_GENERATION),
        ({"generation": 2}, ErrorCode.ILLEGAL_GENERATION),
        ({"member_id": "somebody"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"member_id": ""}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"instance": "desk"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"instance": "static"}, ErrorCode.FENCED_INSTANCE_ID),
    ],
    ids=str,
)
@pytest.mark.parametrize("request_of", ["beat", "sync", "commit"])
@scenario(run)
async def test_item_43_generation_member_and_instance_are_checked(
    world: GroupsWorld, request_of: str, wrong: dict[str, Any], expected: ErrorCode
) -> None:
    static = GroupClient(world, "static", instance="static")
    client = GroupClient(world, "client")
    await all_join(static, client)
    await all_sync(static, client)
    for field, value in wrong.items():
        setattr(client, field, value)
    if request_of == "beat":
        assert await client.beat() == expected
    elif request_of == "commit":
        assert await client.commit(5) == expected
    else:
        assert (await client.begin_sync()).result().error_code == expected
    assert await committed(world) == {}


@pytest.mark.parametrize(
    ("session_ms", "is_refused"),
    [
        (5_999, True),
        (6_000, False),
        (1_800_000, False),
        *((ms, True) for ms in (1_800_001, 0, -1, 2**31 - 1)),
    ],
)
@pytest.mark.parametrize("version", [0, 5, 9])
@scenario(run)
async def test_item_43_the_session_timeout_has_bounds(
    world: GroupsWorld, session_ms: int, is_refused: bool, version: int
) -> None:
    answering = await world.begin(join_request(session_ms=session_ms), version)
    await world.pass_ms(10)
    refused = answering.result().error_code == ErrorCode.INVALID_SESSION_TIMEOUT
    assert refused is is_refused


@scenario(run)
async def test_item_43_a_session_ends_without_heartbeats_and_only_then(world: GroupsWorld) -> None:
    alive, dead = await stable_group(world, "first", "second", session_ms=10_000)
    for _ in range(3):
        await world.pass_ms(3_000)
        assert await alive.beat() == ErrorCode.NONE
    await world.pass_ms(2_000)
    assert await alive.beat() == ErrorCode.REBALANCE_IN_PROGRESS
    assert await dead.beat() == ErrorCode.UNKNOWN_MEMBER_ID


def test_rebalances_are_logged_once_each(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)

    async def story(world: GroupsWorld) -> None:
        (first,) = await stable_group(world, "first")
        second = GroupClient(world, "second")
        joining = await second.begin_join()
        first.has_joined((await first.begin_join()).result())
        second.has_joined(joining.result())
        await all_sync(first, second)
        assert await first.beat() == ErrorCode.NONE
        await first.leave()
        await second.leave()

    run(story)
    said = [each.message for each in caplog.records if each.message.startswith("group ")]
    assert said == [
        f"group {GROUP} was rebalanced: generation 1, 1 member",
        f"group {GROUP} was rebalanced: generation 2, 2 members",
        f"group {GROUP} is empty: its last member has left",
    ]
