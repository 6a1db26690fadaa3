"""JoinGroup: what the versions have in different ways, and what is refused before any group is asked."""

import msgspec
import pytest

from siltstone.broker.groups.settings import GroupSettings
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.describe_groups import DescribeGroupsRequest
from siltstone.kafka_protocol.messages.heartbeat import HeartbeatRequest
from siltstone.kafka_protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from siltstone.kafka_protocol.messages.sync_group import SyncGroupRequest
from support.groups.consumer_bytes import subscription
from support.groups.group_client import GROUP, GroupClient, all_join, all_sync, join_request, stable_group
from support.groups.groups_world import GroupsWorld, run, turns
from support.scenarios import scenario


@pytest.mark.parametrize("version", range(10))
@scenario(run)
async def test_every_version_joins_and_is_told_what_it_can_be_told(world: GroupsWorld, version: int) -> None:
    client = GroupClient(world, "first", version)
    await all_join(client)
    answer = client.joined
    assert (answer.generation_id, answer.leader, answer.protocol_name) == (1, client.member_id, "range")
    assert answer.protocol_type == ("consumer" if version >= 7 else None)
    (member,) = answer.members
    assert member.member_id == client.member_id and bytes(member.metadata) == subscription("flights")


@scenario(run)
async def test_in_version_0_the_session_timeout_is_the_rebalance_timeout(world: GroupsWorld) -> None:
    client = GroupClient(world, "first", 0, session_ms=20_000)
    await all_join(client)
    await client.begin_sync()
    await GroupClient(world, "second", 9, rebalance_ms=1_000).begin_join()
    joining = await GroupClient(world, "third", 9, rebalance_ms=1_000).begin_join()
    await world.pass_ms(19_000)
    await client.beat()
    assert not joining.done()
    await world.pass_ms(2_000)
    assert joining.result().generation_id == 2


@pytest.mark.parametrize("client_id", ["app", "", None])
@scenario(run)
async def test_whoever_has_no_name_gets_an_id_too(world: GroupsWorld, client_id: str | None) -> None:
    answer = await world.ask(join_request(), 9, client_id)
    assert answer.member_id.startswith(f"{client_id or ''}-")
    joining = await world.begin(join_request(answer.member_id), 9, client_id or "")
    await world.pass_ms(10)
    assert joining.result().error_code == ErrorCode.NONE


@scenario(run)
async def test_a_group_has_a_name(world: GroupsWorld) -> None:
    requests = [
        *((join_request(group=""), version) for version in (0, 5, 9)),
        (SyncGroupRequest(group_id="", protocol_type="consumer", protocol_name="range"), 5),
        (HeartbeatRequest(group_id=""), 4),
        (LeaveGroupRequest(group_id="", members=[MemberIdentity(member_id="m")]), 5),
    ]
    for request, version in requests:
        response = await world.ask(request, version)
        assert response.error_code == ErrorCode.INVALID_GROUP_ID, request
    assert (await world.ask(LeaveGroupRequest(group_id=""), 1)).error_code == ErrorCode.INVALID_GROUP_ID


@scenario(run, GroupSettings(group_initial_rebalance_delay_ms=0, group_max_size=2))
async def test_a_group_has_a_largest_size(world: GroupsWorld) -> None:
    first, second = await stable_group(world, "first", "second")
    third = await GroupClient(world, "third").begin_join()
    assert third.result().error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert third.result().generation_id == -1
    assert await first.beat() == await second.beat() == ErrorCode.NONE
    await second.leave()
    joining = [await GroupClient(world, "third").begin_join(), await first.begin_join()]
    fourth = await GroupClient(world, "fourth").begin_join()
    await turns()
    assert [task.result().error_code for task in joining] == [0, 0]
    assert fourth.result().error_code == ErrorCode.GROUP_MAX_SIZE_REACHED


@scenario(run, GroupSettings(group_initial_rebalance_delay_ms=0, group_max_size=2))
async def test_a_static_member_has_its_place_in_a_full_group(world: GroupsWorld) -> None:
    first = GroupClient(world, "first")
    static = GroupClient(world, "static", instance="desk")
    await all_join(first, static)
    await all_sync(first, static)
    tasks = [await first.begin_join(), await static.begin_join()]
    assert [task.result().error_code for task in tasks] == [ErrorCode.NONE] * 2


@scenario(run, GroupSettings(group_initial_rebalance_delay_ms=0, group_bytes_max=6000))
async def test_a_group_has_a_largest_weight(world: GroupsWorld) -> None:
    topics = tuple(f"topic-{number:0100}" for number in range(30))
    first = GroupClient(world, "first", topics=topics)
    await all_join(first)
    second = await GroupClient(world, "second", topics=topics).begin_join()
    assert second.result().error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    request = first.sync_request({first.member_id: bytes(2_000)})
    assert (await world.ask(request, 5)).error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert (await world.ask(first.sync_request({}), 5)).error_code == ErrorCode.NONE


@scenario(run)
async def test_what_a_member_says_last_holds(world: GroupsWorld) -> None:
    first, second = await stable_group(world, "first", "second")
    second.join = {"topics": ("planes",), "session_ms": 30_000}
    rejoining = await second.begin_join()
    await first.begin_join()
    second.has_joined(rejoining.result())
    (group,) = (await world.ask(DescribeGroupsRequest(groups=[GROUP]), 5)).groups
    assert group.group_state == "CompletingRebalance"
    leader = first if first.member_id == second.joined.leader else second
    if leader is first:
        first.has_joined((await first.begin_join()).result())
    told = {member.member_id: bytes(member.metadata) for member in leader.joined.members}
    assert told[second.member_id] == subscription("planes")


@scenario(run)
async def test_a_second_join_while_the_first_waits_takes_its_place(world: GroupsWorld) -> None:
    first, _ = await stable_group(world, "first", "second")
    waiting = await first.begin_join()
    again = await first.begin_join()
    assert waiting.result().error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert not again.done()


@scenario(run)
async def test_who_goes_while_it_waits_is_told_to_begin_anew(world: GroupsWorld) -> None:
    first, second = await stable_group(world, "first", "second")
    waiting = await first.begin_join()
    assert await first.leave() == ErrorCode.NONE
    await turns()
    assert waiting.result().error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert await second.beat() == ErrorCode.REBALANCE_IN_PROGRESS


@scenario(run)
async def test_new_members_are_given_up_after_five_minutes(world: GroupsWorld) -> None:
    stays = GroupClient(world, "stays", session_ms=1_800_000, rebalance_ms=1_800_000)
    await all_join(stays)
    await stays.begin_sync()
    newcomer = await GroupClient(world, "newcomer").begin_join()
    await world.pass_ms(299_000)
    assert not newcomer.done()
    await world.pass_ms(2_000)
    assert newcomer.result().error_code == ErrorCode.UNKNOWN_MEMBER_ID


@scenario(run)
async def test_a_lost_connection_leaves_the_member_where_it_is(world: GroupsWorld) -> None:
    first, second = await stable_group(world, "first", "second")
    waiting = await first.begin_join()
    waiting.cancel()
    await turns()
    again = await first.begin_join()
    await second.begin_join()
    assert again.result().generation_id == 2


@scenario(run)
async def test_metadata_is_kept_without_the_request_it_came_in(world: GroupsWorld) -> None:
    await stable_group(world, "first")
    (coordinator,) = world.groups._coordinators.values()
    assert coordinator._groups is not None
    (member,) = coordinator._groups.by_id[GROUP].group.members.values()
    assert type(member.protocols[0].metadata) is type(member.assignment) is bytes
    assert msgspec.structs.asdict(member)["client_host"] == "/10.0.0.1"
