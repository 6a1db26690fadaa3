"""ConsumerGroupDescribe, and how the older APIs show a group of KIP-848 (NG21)."""

import pytest

from siltstone.broker.groups.settings import GroupSettings
from siltstone.kafka_protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from siltstone.kafka_protocol.messages.describe_groups import DescribeGroupsRequest
from siltstone.kafka_protocol.messages.list_groups import ListGroupsRequest
from support.groups.consumer_client import ConsumerClient, settle
from support.groups.group_client import GROUP, stable_group
from support.groups.groups_world import GroupsWorld, run
from support.scenarios import scenario

AT_ONCE = GroupSettings(group_initial_rebalance_delay_ms=0, group_consumer_assignment_interval_ms=0)


@pytest.mark.parametrize("version", [0, 1])
@scenario(run, AT_ONCE)
async def test_ng21_members_with_what_they_have_and_are_to_have(world: GroupsWorld, version: int) -> None:
    one, two = ConsumerClient(world, "one"), ConsumerClient(world, "two", instance="desk")
    await one.join()
    await two.join()
    request = ConsumerGroupDescribeRequest(group_ids=[GROUP], include_authorized_operations=True)
    (told,) = (await world.ask(request, version)).groups
    assert (told.error_code, told.group_state, told.group_epoch, told.assignment_epoch) == (
        0,
        "Reconciling",
        2,
        2,
    )
    assert told.assignor_name == "uniform" and told.authorized_operations == 0b101001000
    first, second = told.members
    assert [len(each.assignment.topic_partitions[0].partitions) for each in (first,)] == [4]
    assert first.target_assignment.topic_partitions[0].topic_name == "flights"
    assert second.assignment.topic_partitions == [] and second.instance_id == "desk"
    assert {each.member_type for each in told.members} == ({1} if version == 1 else {-1})
    await settle(one, two)
    (told,) = (await world.ask(request, version)).groups
    assert told.group_state == "Stable"
    assert all(member.assignment == member.target_assignment for member in told.members)


@scenario(run, AT_ONCE)
async def test_ng21_each_api_describes_its_own_groups(world: GroupsWorld) -> None:
    await ConsumerClient(world, "one", group="new").join()
    await stable_group(world, "classic")
    asked = ConsumerGroupDescribeRequest(group_ids=[GROUP, "nobody", ""])
    assert [row.error_code for row in (await world.ask(asked, 1)).groups] == [69, 69, 24]
    older = DescribeGroupsRequest(groups=["new"])
    assert (await world.ask(older, 6)).groups[0].error_code == 69
    assert (await world.ask(older, 5)).groups[0].group_state == "Dead"


@scenario(run, AT_ONCE)
async def test_ng21_groups_are_listed_by_their_types(world: GroupsWorld) -> None:
    await ConsumerClient(world, "one", group="new").join()
    await stable_group(world, "classic")
    for types, expected in (
        ([], {"new", GROUP}),
        (["consumer"], {"new"}),
        (["Classic"], {GROUP}),
        (["share"], set()),
    ):
        told = await world.ask(ListGroupsRequest(types_filter=types), 5)
        assert {group.group_id for group in told.groups} == expected
    listed = {group.group_id: group for group in (await world.ask(ListGroupsRequest(), 5)).groups}
    assert (listed["new"].group_type, listed["new"].group_state) == ("consumer", "Stable")
    assert (listed["new"].protocol_type, listed[GROUP].group_type) == ("consumer", "classic")
