"""Items 38 to 40 of docs/scenarios.md: ids of members, how long a rebalance takes, and what members learn of it."""

from typing import Any

import pytest

from siltstone.broker.groups.settings import GroupSettings
from siltstone.kafka_protocol.error_code import ErrorCode
from support.groups.group_client import (
    GroupClient,
    all_join,
    all_sync,
    describe,
    join_request,
    stable_group,
    state,
)
from support.groups.groups_world import GroupsWorld, run
from support.scenarios import scenario

KAFKAS = GroupSettings()


# -- 38 --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [4, 5, 6, 7, 8, 9])
@scenario(run)
async def test_item_38_a_newcomer_is_given_an_id_and_comes_again(world: GroupsWorld, version: int) -> None:
    first = await world.ask(join_request(), version, "dash board")
    assert first.error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert first.member_id.startswith("dash board-") and len(first.member_id) == len("dash board-") + 36
    assert (await describe(world)).members == []
    again = await world.begin(join_request(first.member_id), version)
    await world.pass_ms(10)
    assert again.result().error_code == ErrorCode.NONE
    assert again.result().member_id == first.member_id


@pytest.mark.parametrize("version", [0, 1, 2, 3])
@scenario(run)
async def test_item_38_older_clients_join_at_once(world: GroupsWorld, version: int) -> None:
    joining = await world.begin(join_request(), version)
    await world.pass_ms(10)
    assert joining.result().error_code == ErrorCode.NONE
    assert joining.result().member_id.startswith("client-")


@scenario(run)
async def test_item_38_static_members_are_exempt(world: GroupsWorld) -> None:
    joining = await world.begin(join_request(instance="desk 1"), 9)
    await world.pass_ms(10)
    assert joining.result().error_code == ErrorCode.NONE
    assert joining.result().member_id.startswith("desk 1-")


@scenario(run)
async def test_item_38_an_id_is_kept_for_the_session_timeout(world: GroupsWorld) -> None:
    given = [(await world.ask(join_request(session_ms=10_000), 9)).member_id for _ in range(2)]
    await world.pass_ms(9_000)
    in_time = await world.begin(join_request(given[0]), 9)
    await world.pass_ms(2_000)
    assert in_time.result().error_code == ErrorCode.NONE
    too_late = await world.ask(join_request(given[1]), 9)
    assert too_late.error_code == ErrorCode.UNKNOWN_MEMBER_ID


@scenario(run)
async def test_item_38_an_id_nobody_gave_is_unknown(world: GroupsWorld) -> None:
    answer = await world.ask(join_request("I-made-it-up"), 9)
    assert answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert (await describe(world)).group_state == "Dead"


@scenario(run)
async def test_item_38_who_waits_for_an_id_is_waited_for(world: GroupsWorld) -> None:
    """A rebalance does not end under the feet of a newcomer that is about to come."""
    (first,) = await stable_group(world, "first")
    newcomer = await world.ask(join_request(), 9)
    rejoining = await first.begin_join()
    await world.pass_ms(1_000)
    assert not rejoining.done()
    await world.begin(join_request(newcomer.member_id), 9)
    assert rejoining.result().error_code == ErrorCode.NONE
    assert len(rejoining.result().members) == 2


# -- 39 --------------------------------------------------------------------------------------------------


@scenario(run, KAFKAS)
async def test_item_39_the_first_join_waits_for_the_initial_delay(world: GroupsWorld) -> None:
    joining = await GroupClient(world, "first").begin_join()
    await world.pass_ms(2_990)
    assert not joining.done()
    await world.pass_ms(20)
    assert joining.result().generation_id == 1


@scenario(run, KAFKAS)
async def test_item_39_newcomers_extend_the_delay_and_spare_each_other_rebalances(world: GroupsWorld) -> None:
    tasks = []
    for number in range(4):
        tasks.append(await GroupClient(world, f"client-{number}").begin_join())
        await world.pass_ms(2_000)
    assert not any(task.done() for task in tasks)
    await world.pass_ms(5_000)
    assert {task.result().generation_id for task in tasks} == {1}


@scenario(run, KAFKAS)
async def test_item_39_the_delay_ends_with_the_first_members_rebalance_timeout(world: GroupsWorld) -> None:
    first = await GroupClient(world, "first", rebalance_ms=7_000).begin_join()
    for number in range(6):
        await world.pass_ms(1_000)
        assert not first.done()
        await GroupClient(world, f"client-{number}", rebalance_ms=300_000).begin_join()
    await world.pass_ms(1_100)
    assert len(first.result().members) == 7


@scenario(run)
async def test_item_39_later_rebalances_end_when_all_have_rejoined(world: GroupsWorld) -> None:
    first, second = await stable_group(world, "first", "second")
    third = await GroupClient(world, "third").begin_join()
    assert await state(world) == "PreparingRebalance"
    assert await first.beat() == await second.beat() == ErrorCode.REBALANCE_IN_PROGRESS
    one = await first.begin_join()
    assert not one.done()
    two = await second.begin_join()
    assert {task.result().generation_id for task in (one, two, third)} == {2}


@scenario(run)
async def test_item_39_or_after_the_longest_rebalance_timeout_without_the_missing(world: GroupsWorld) -> None:
    clients = [GroupClient(world, "patient", rebalance_ms=40_000, session_ms=100_000)]
    clients.append(GroupClient(world, "hasty", rebalance_ms=10_000, session_ms=100_000))
    await all_join(*clients)
    await all_sync(*clients)
    third = await GroupClient(world, "third", rebalance_ms=5_000).begin_join()
    rejoining = await clients[1].begin_join()
    await world.pass_ms(39_000)
    assert not third.done() and not rejoining.done()
    await world.pass_ms(2_000)
    assert third.result().generation_id == rejoining.result().generation_id == 2
    assert await clients[0].beat() == ErrorCode.UNKNOWN_MEMBER_ID


# -- 40 --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [0, 4, 7, 9])
@scenario(run)
async def test_item_40_only_the_leader_gets_the_members(world: GroupsWorld, version: int) -> None:
    clients = [GroupClient(world, name, version) for name in ("first", "second", "third")]
    await all_join(*clients)
    leaders = [client for client in clients if client.is_leader]
    assert len(leaders) == 1
    assert {member.member_id for member in leaders[0].joined.members} == {
        client.member_id for client in clients
    }
    assert all(client.joined.members == [] for client in clients if client not in leaders)
    assert {client.joined.leader for client in clients} == {leaders[0].member_id}


@scenario(run)
async def test_item_40_the_protocol_is_one_that_all_know_and_most_want(world: GroupsWorld) -> None:
    lists = [
        ("cooperative", "sticky", "range"),
        ("sticky", "range"),
        ("range", "sticky"),
        ("sticky", "range"),
    ]
    clients = [GroupClient(world, f"client-{number}", protocols=names) for number, names in enumerate(lists)]
    await all_join(*clients)
    assert {client.joined.protocol_name for client in clients} == {"sticky"}
    assert {client.joined.protocol_type for client in clients} == {"consumer"}


@pytest.mark.parametrize(
    "changes",
    [
        {"protocols": ("sticky",)},
        {"protocols": ()},
        {"protocol_type": "connect"},
        {"protocol_type": ""},
    ],
    ids=str,
)
@scenario(run)
async def test_item_40_who_does_not_fit_is_refused(world: GroupsWorld, changes: dict[str, Any]) -> None:
    (first,) = await stable_group(world, "first")
    answer = await world.ask(join_request(**changes), 9)
    assert answer.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert await first.beat() == ErrorCode.NONE


@pytest.mark.parametrize("changes", [{"protocols": ()}, {"protocol_type": ""}], ids=str)
@pytest.mark.parametrize("version", [0, 3, 6, 7, 9])
@scenario(run)
async def test_item_40_not_even_alone(world: GroupsWorld, changes: dict[str, Any], version: int) -> None:
    answer = await world.ask(join_request(**changes), version)
    assert answer.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert answer.protocol_name == (None if version >= 7 else "")
