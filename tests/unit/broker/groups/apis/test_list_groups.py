"""ListGroups and its filters."""

import pytest

from siltstone.kafka_protocol.messages.list_groups import ListGroupsRequest
from support.groups.group_client import GroupClient, commit_request, stable_group
from support.groups.groups_world import GroupsWorld, run
from support.scenarios import scenario


async def some_groups(world: GroupsWorld) -> None:
    await stable_group(world, "first", group="stable")
    await stable_group(world, "second", group="rebalancing")
    await GroupClient(world, "third", group="rebalancing").begin_join()
    await world.ask(commit_request(1, group="simple"), 8)


@pytest.mark.parametrize("version", range(6))
@scenario(run)
async def test_all_are_listed_with_what_the_version_has(world: GroupsWorld, version: int) -> None:
    await some_groups(world)
    listed = {group.group_id: group for group in (await world.ask(ListGroupsRequest(), version)).groups}
    assert {name: group.protocol_type for name, group in listed.items()} == {
        "stable": "consumer",
        "rebalancing": "consumer",
        "simple": "",
    }
    states = {name: group.group_state for name, group in listed.items()}
    if version >= 4:
        assert states == {"stable": "Stable", "rebalancing": "PreparingRebalance", "simple": "Empty"}
    assert {group.group_type for group in listed.values()} == ({"classic"} if version >= 5 else {""})


@scenario(run)
async def test_a_group_with_the_longest_name_is_in_nobodys_way(world: GroupsWorld) -> None:
    await stable_group(world, "first", group="g" * 32_767)
    for version in range(6):
        (listed,) = (await world.ask(ListGroupsRequest(), version)).groups
        assert listed.group_id == "g" * 32_767


@pytest.mark.parametrize(
    ("states", "types", "expected"),
    [
        (["Stable"], [], {"stable"}),
        (["stable ", "EMPTY"], [], {"stable", "simple"}),
        (["PreparingRebalance"], ["classic"], {"rebalancing"}),
        (["Dead"], [], set()),
        (["nonsense"], [], set()),
        ([], ["Classic"], {"stable", "rebalancing", "simple"}),
        ([], ["consumer"], set()),
        ([], ["consumer", "classic"], {"stable", "rebalancing", "simple"}),
    ],
)
@scenario(run)
async def test_filters(world: GroupsWorld, states: list[str], types: list[str], expected: set[str]) -> None:
    await some_groups(world)
    request = ListGroupsRequest(states_filter=states, types_filter=types)
    assert {group.group_id for group in (await world.ask(request, 5)).groups} == expected
