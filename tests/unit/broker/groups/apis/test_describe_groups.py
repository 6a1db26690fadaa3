"""DescribeGroups."""

import pytest

from siltstone.kafka_protocol.messages.describe_groups import DescribeGroupsRequest
from support.groups.consumer_bytes import subscription
from support.groups.group_client import GROUP, GroupClient, all_join, all_sync, commit_request, stable_group
from support.groups.groups_world import GroupsWorld, run
from support.scenarios import scenario


@pytest.mark.parametrize("version", range(7))
@scenario(run)
async def test_a_stable_group_shows_everything(world: GroupsWorld, version: int) -> None:
    (first,) = await stable_group(world, "first", instance="desk")
    (group,) = (await world.ask(DescribeGroupsRequest(groups=[GROUP]), version)).groups
    assert (group.error_code, group.group_id, group.group_state) == (0, GROUP, "Stable")
    assert (group.protocol_type, group.protocol_data) == ("consumer", "range")
    (member,) = group.members
    assert (member.member_id, member.client_id, member.client_host) == (
        first.member_id,
        "first",
        "/10.0.0.1",
    )
    assert bytes(member.member_metadata) == subscription("flights")
    assert bytes(member.member_assignment) == first.assignment
    assert member.group_instance_id == ("desk" if version >= 4 else None)


@pytest.mark.parametrize("joined_in", [3, 4, 5, 6, 9])
@scenario(run)
async def test_a_client_with_the_longest_name_is_told_in_every_version(
    world: GroupsWorld, joined_in: int
) -> None:
    client = GroupClient(world, "x" * 32_767, joined_in)
    await all_join(client)
    await all_sync(client)
    for version in range(7):
        (group,) = (await world.ask(DescribeGroupsRequest(groups=[GROUP]), version)).groups
        assert [member.client_id for member in group.members] == ["x" * 32_767]


@scenario(run)
async def test_during_a_rebalance_no_protocol_is_elected(world: GroupsWorld) -> None:
    await stable_group(world, "first")
    await GroupClient(world, "second").begin_join()
    (group,) = (await world.ask(DescribeGroupsRequest(groups=[GROUP]), 5)).groups
    assert (group.group_state, group.protocol_type, group.protocol_data) == (
        "PreparingRebalance",
        "consumer",
        "",
    )
    assert {bytes(member.member_metadata) for member in group.members} == {b""}


@pytest.mark.parametrize(("asked", "expected"), [(False, -(2**31)), (True, 0b101001000)])
@scenario(run)
async def test_operations_are_told_when_asked_for(world: GroupsWorld, asked: bool, expected: int) -> None:
    await world.ask(commit_request(1), 8)
    request = DescribeGroupsRequest(groups=[GROUP, "nobody"], include_authorized_operations=asked)
    known, unknown = (await world.ask(request, 6)).groups
    assert known.authorized_operations == expected
    assert unknown.authorized_operations == -(2**31)


@scenario(run)
async def test_a_simple_group_is_empty_and_of_no_type(world: GroupsWorld) -> None:
    await world.ask(commit_request(1), 8)
    (group,) = (await world.ask(DescribeGroupsRequest(groups=[GROUP]), 5)).groups
    assert (group.group_state, group.protocol_type, group.members) == ("Empty", "", [])


@pytest.mark.parametrize("version", range(7))
@scenario(run)
async def test_a_group_that_is_not_there_is_dead_and_since_version_6_an_error(
    world: GroupsWorld, version: int
) -> None:
    (group,) = (await world.ask(DescribeGroupsRequest(groups=["nobody"]), version)).groups
    assert (group.group_id, group.group_state, group.members) == ("nobody", "Dead", [])
    assert group.error_code == (69 if version == 6 else 0)
    assert group.error_message == ("Group nobody not found." if version == 6 else None)


@scenario(run)
async def test_groups_are_described_once_in_the_order_in_which_they_are_asked_for(world: GroupsWorld) -> None:
    names = ["b", "a", "b", "c"]
    groups = (await world.ask(DescribeGroupsRequest(groups=names), 5)).groups
    assert [group.group_id for group in groups] == ["b", "a", "c"]
