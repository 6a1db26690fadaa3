"""Item 44 of docs/scenarios.md: members that come back under the name of their instance."""

import pytest

from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from support.groups.group_client import (
    GROUP,
    GroupClient,
    all_join,
    all_sync,
    describe,
    stable_group,
    state,
)
from support.groups.groups_world import GroupsWorld, run
from support.scenarios import scenario


async def static_pair(world: GroupsWorld, version: int = 9) -> tuple[GroupClient, GroupClient]:
    clients = (
        GroupClient(world, "a", version, instance="one"),
        GroupClient(world, "b", version, instance="two"),
    )
    await all_join(*clients)
    await all_sync(*clients)
    return clients


@pytest.mark.parametrize("version", [5, 8, 9])
@pytest.mark.parametrize("who", ["leader", "follower"])
@scenario(run)
async def test_item_44_a_restarted_static_member_gets_a_new_id_and_no_rebalance(
    world: GroupsWorld, who: str, version: int
) -> None:
    leader, follower = await static_pair(world, version)
    old, other = (leader, follower) if who == "leader" else (follower, leader)
    new = GroupClient(world, "restarted", version, instance=old.instance)
    new.has_joined((await new.begin_join()).result())
    assert new.member_id != old.member_id and new.generation == 1
    assert await other.beat() == ErrorCode.NONE
    assert bytes((await new.begin_sync()).result().assignment) == old.assignment
    assert await old.beat() == ErrorCode.FENCED_INSTANCE_ID
    assert await old.commit(5) == ErrorCode.FENCED_INSTANCE_ID
    assert (await old.begin_join()).result().error_code == ErrorCode.FENCED_INSTANCE_ID
    assert await new.beat() == ErrorCode.NONE


@scenario(run)
async def test_item_44_version_9_lets_the_leader_look_without_assigning(world: GroupsWorld) -> None:
    await static_pair(world)
    restarted = (await GroupClient(world, "restarted", 9, instance="one").begin_join()).result()
    assert restarted.skip_assignment is True and restarted.leader == restarted.member_id
    assert {member.group_instance_id for member in restarted.members} == {"one", "two"}
    other = (await GroupClient(world, "restarted", 9, instance="two").begin_join()).result()
    assert other.skip_assignment is False and other.members == []
    assert other.leader == restarted.member_id


@scenario(run)
async def test_item_44_before_version_9_the_leader_does_not_learn_that_it_leads(world: GroupsWorld) -> None:
    leader, _ = await static_pair(world, 8)
    restarted = (await GroupClient(world, "restarted", 8, instance="one").begin_join()).result()
    assert restarted.leader == leader.member_id != restarted.member_id
    assert restarted.members == []


@scenario(run)
async def test_item_44_another_subscription_does_mean_a_rebalance(world: GroupsWorld) -> None:
    leader, _ = await static_pair(world)
    new = GroupClient(world, "restarted", instance="two", topics=("planes",))
    joining = await new.begin_join()
    assert not joining.done()
    assert await leader.beat() == ErrorCode.REBALANCE_IN_PROGRESS
    await leader.begin_join()
    assert joining.result().generation_id == 2


@scenario(run)
async def test_item_44_a_request_of_the_old_one_that_waits_is_fenced(world: GroupsWorld) -> None:
    _, follower = await static_pair(world)
    await GroupClient(world, "third").begin_join()
    waiting = await follower.begin_join()
    assert not waiting.done()
    await GroupClient(world, "restarted", instance="two").begin_join()
    assert waiting.result().error_code == ErrorCode.FENCED_INSTANCE_ID


@scenario(run)
async def test_item_44_a_return_during_the_assignment_means_a_rebalance(world: GroupsWorld) -> None:
    clients = [GroupClient(world, "a", instance="one"), GroupClient(world, "b", instance="two")]
    await all_join(*clients)
    waiting = await clients[1].begin_sync()
    restarted = await GroupClient(world, "restarted", instance="two").begin_join()
    assert waiting.result().error_code == ErrorCode.FENCED_INSTANCE_ID
    assert not restarted.done()
    await clients[0].begin_join()
    assert restarted.result().generation_id == 2


@scenario(run)
async def test_item_44_an_absent_static_member_keeps_its_place_until_its_session_ends(
    world: GroupsWorld,
) -> None:
    leader = GroupClient(world, "a", instance="one", session_ms=10_000, rebalance_ms=10_000)
    away = GroupClient(world, "b", instance="two", session_ms=60_000, rebalance_ms=10_000)
    await all_join(leader, away)
    await all_sync(leader, away)
    rejoining = await leader.begin_join()
    await world.pass_ms(11_000)
    leader.has_joined(rejoining.result())
    assert {member.group_instance_id for member in leader.joined.members} == {"one", "two"}
    await all_sync(leader)
    for _ in range(4):
        await world.pass_ms(9_000)
        assert await leader.beat() == ErrorCode.NONE
    await world.pass_ms(9_000)
    await leader.beat()
    await world.pass_ms(9_000)
    assert await leader.beat() == ErrorCode.REBALANCE_IN_PROGRESS
    assert {member.group_instance_id for member in (await describe(world)).members} == {"one"}


@pytest.mark.parametrize("version", [3, 4, 5])
@scenario(run)
async def test_item_44_an_administrator_removes_by_instance_id(world: GroupsWorld, version: int) -> None:
    leader, follower = await static_pair(world)
    named = [
        MemberIdentity(member_id="", group_instance_id="two"),
        MemberIdentity(member_id="", group_instance_id="three"),
        MemberIdentity(member_id="", group_instance_id=None),
        MemberIdentity(member_id="another", group_instance_id=None),
        MemberIdentity(member_id=leader.member_id, group_instance_id="two"),
        MemberIdentity(member_id="", group_instance_id="two"),
    ]
    answer = await world.ask(LeaveGroupRequest(group_id=GROUP, members=named), version)
    assert answer.error_code == ErrorCode.NONE
    assert [member.error_code for member in answer.members] == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
    ]
    assert [member.group_instance_id for member in answer.members][:2] == ["two", "three"]
    assert await leader.beat() == ErrorCode.REBALANCE_IN_PROGRESS
    assert await follower.beat() == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("version", [0, 1, 2])
@scenario(run)
async def test_item_44_older_leave_requests_have_one_member_and_one_error(
    world: GroupsWorld, version: int
) -> None:
    (first,) = await stable_group(world, "first")
    unknown = await world.ask(LeaveGroupRequest(group_id=GROUP, member_id="nobody"), version)
    assert unknown.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    left = await world.ask(LeaveGroupRequest(group_id=GROUP, member_id=first.member_id), version)
    assert left.error_code == ErrorCode.NONE
    assert await state(world) == "Empty"
