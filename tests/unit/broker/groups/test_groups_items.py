"""Items 38 to 48 of the semantics that imitations of a broker get wrong, each told by messages over the wire."""

import asyncio
from typing import Any

import pytest

from siltstone.broker.groups.settings import GroupSettings
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.delete_groups import DeleteGroupsRequest
from siltstone.kafka_protocol.messages.describe_groups import DescribeGroupsRequest
from siltstone.kafka_protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from siltstone.kafka_protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from siltstone.kafka_protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from siltstone.kafka_protocol.messages.sync_group import SyncGroupRequest
from support.groups.group_client import (
    GROUP,
    GroupClient,
    all_join,
    all_sync,
    commit_request,
    committed,
    join_request,
    stable_group,
)
from support.groups.groups_world import GroupsWorld, run, turns

DAY_MS = 24 * 3_600_000
KAFKAS = GroupSettings()


async def describe(world: GroupsWorld, group: str = GROUP, version: int = 5) -> Any:
    (described,) = (await world.ask(DescribeGroupsRequest(groups=[group]), version)).groups
    return described


async def state(world: GroupsWorld) -> str:
    return str((await describe(world)).group_state)


# -- 38 --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [4, 5, 6, 7, 8, 9])
def test_item_38_a_newcomer_is_given_an_id_and_comes_again(version: int) -> None:
    async def story(world: GroupsWorld) -> None:
        first = await world.ask(join_request(), version, "dash board")
        assert first.error_code == ErrorCode.MEMBER_ID_REQUIRED
        assert first.member_id.startswith("dash board-") and len(first.member_id) == len("dash board-") + 36
        assert (await describe(world)).members == []
        again = await world.begin(join_request(first.member_id), version)
        await world.pass_ms(10)
        assert again.result().error_code == ErrorCode.NONE
        assert again.result().member_id == first.member_id

    run(story)


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_item_38_older_clients_join_at_once(version: int) -> None:
    async def story(world: GroupsWorld) -> None:
        joining = await world.begin(join_request(), version)
        await world.pass_ms(10)
        assert joining.result().error_code == ErrorCode.NONE
        assert joining.result().member_id.startswith("client-")

    run(story)


def test_item_38_static_members_are_exempt() -> None:
    async def story(world: GroupsWorld) -> None:
        joining = await world.begin(join_request(instance="desk 1"), 9)
        await world.pass_ms(10)
        assert joining.result().error_code == ErrorCode.NONE
        assert joining.result().member_id.startswith("desk 1-")

    run(story)


def test_item_38_an_id_is_kept_for_the_session_timeout() -> None:
    async def story(world: GroupsWorld) -> None:
        given = [(await world.ask(join_request(session_ms=10_000), 9)).member_id for _ in range(2)]
        await world.pass_ms(9_000)
        in_time = await world.begin(join_request(given[0]), 9)
        await world.pass_ms(2_000)
        assert in_time.result().error_code == ErrorCode.NONE
        too_late = await world.ask(join_request(given[1]), 9)
        assert too_late.error_code == ErrorCode.UNKNOWN_MEMBER_ID

    run(story)


def test_item_38_an_id_nobody_gave_is_unknown() -> None:
    async def story(world: GroupsWorld) -> None:
        answer = await world.ask(join_request("I-made-it-up"), 9)
        assert answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID
        assert (await describe(world)).group_state == "Dead"

    run(story)


def test_item_38_who_waits_for_an_id_is_waited_for() -> None:
    """A rebalance does not end under the feet of a newcomer that is about to come."""

    async def story(world: GroupsWorld) -> None:
        (first,) = await stable_group(world, "first")
        newcomer = await world.ask(join_request(), 9)
        rejoining = await first.begin_join()
        await world.pass_ms(1_000)
        assert not rejoining.done()
        await world.begin(join_request(newcomer.member_id), 9)
        assert rejoining.result().error_code == ErrorCode.NONE
        assert len(rejoining.result().members) == 2

    run(story)


# -- 39 --------------------------------------------------------------------------------------------------


def test_item_39_the_first_join_waits_for_the_initial_delay() -> None:
    async def story(world: GroupsWorld) -> None:
        joining = await GroupClient(world, "first").begin_join()
        await world.pass_ms(2_990)
        assert not joining.done()
        await world.pass_ms(20)
        assert joining.result().generation_id == 1

    run(story, KAFKAS)


def test_item_39_newcomers_extend_the_delay_and_spare_each_other_rebalances() -> None:
    async def story(world: GroupsWorld) -> None:
        tasks = []
        for number in range(4):
            tasks.append(await GroupClient(world, f"client-{number}").begin_join())
            await world.pass_ms(2_000)
        assert not any(task.done() for task in tasks)
        await world.pass_ms(5_000)
        assert {task.result().generation_id for task in tasks} == {1}

    run(story, KAFKAS)


def test_item_39_the_delay_ends_with_the_first_members_rebalance_timeout() -> None:
    async def story(world: GroupsWorld) -> None:
        first = await GroupClient(world, "first", rebalance_ms=7_000).begin_join()
        for number in range(6):
            await world.pass_ms(1_000)
            assert not first.done()
            await GroupClient(world, f"client-{number}", rebalance_ms=300_000).begin_join()
        await world.pass_ms(1_100)
        assert len(first.result().members) == 7

    run(story, KAFKAS)


def test_item_39_later_rebalances_end_when_all_have_rejoined() -> None:
    async def story(world: GroupsWorld) -> None:
        first, second = await stable_group(world, "first", "second")
        third = await GroupClient(world, "third").begin_join()
        assert await state(world) == "PreparingRebalance"
        assert await first.beat() == await second.beat() == ErrorCode.REBALANCE_IN_PROGRESS
        one = await first.begin_join()
        assert not one.done()
        two = await second.begin_join()
        assert {task.result().generation_id for task in (one, two, third)} == {2}

    run(story)


def test_item_39_or_after_the_longest_rebalance_timeout_without_the_missing() -> None:
    async def story(world: GroupsWorld) -> None:
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

    run(story)


# -- 40 --------------------------------------------------------------------------------------------------


def test_item_40_only_the_leader_gets_the_members() -> None:
    async def story(world: GroupsWorld) -> None:
        clients = await stable_group(world, "first", "second", "third")
        leaders = [client for client in clients if client.is_leader]
        assert len(leaders) == 1
        assert {member.member_id for member in leaders[0].joined.members} == {
            client.member_id for client in clients
        }
        assert all(client.joined.members == [] for client in clients if client not in leaders)
        assert {client.joined.leader for client in clients} == {leaders[0].member_id}

    run(story)


def test_item_40_the_protocol_is_one_that_all_know_and_most_want() -> None:
    async def story(world: GroupsWorld) -> None:
        lists = [
            ("cooperative", "sticky", "range"),
            ("sticky", "range"),
            ("range", "sticky"),
            ("sticky", "range"),
        ]
        clients = [
            GroupClient(world, f"client-{number}", protocols=names) for number, names in enumerate(lists)
        ]
        await all_join(*clients)
        assert {client.joined.protocol_name for client in clients} == {"sticky"}
        assert {client.joined.protocol_type for client in clients} == {"consumer"}

    run(story)


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
def test_item_40_who_does_not_fit_is_refused(changes: dict[str, Any]) -> None:
    async def story(world: GroupsWorld) -> None:
        (first,) = await stable_group(world, "first")
        answer = await world.ask(join_request(**changes), 9)
        assert answer.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        assert await first.beat() == ErrorCode.NONE

    run(story)


@pytest.mark.parametrize("changes", [{"protocols": ()}, {"protocol_type": ""}], ids=str)
@pytest.mark.parametrize("version", [0, 3, 6, 7, 9])
def test_item_40_not_even_alone(changes: dict[str, Any], version: int) -> None:
    async def story(world: GroupsWorld) -> None:
        answer = await world.ask(join_request(**changes), version)
        assert answer.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        assert answer.protocol_name == (None if version >= 7 else "")

    run(story)


# -- 41 --------------------------------------------------------------------------------------------------


def test_item_41_followers_wait_for_the_leaders_assignment() -> None:
    async def story(world: GroupsWorld) -> None:
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

    run(story)


def test_item_41_heartbeats_tell_of_a_rebalance() -> None:
    async def story(world: GroupsWorld) -> None:
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

    run(story)


def test_item_41_a_sync_during_the_join_phase_is_sent_back() -> None:
    async def story(world: GroupsWorld) -> None:
        (first,) = await stable_group(world, "first")
        await GroupClient(world, "second").begin_join()
        assert (await first.begin_sync()).result().error_code == ErrorCode.REBALANCE_IN_PROGRESS

    run(story)


def test_item_41_waiting_followers_are_sent_back_by_the_next_rebalance() -> None:
    async def story(world: GroupsWorld) -> None:
        clients = [GroupClient(world, name) for name in ("first", "second")]
        await all_join(*clients)
        follower = next(client for client in clients if not client.is_leader)
        waiting = await follower.begin_sync()
        await GroupClient(world, "third").begin_join()
        assert waiting.result().error_code == ErrorCode.REBALANCE_IN_PROGRESS

    run(story)


def test_item_41_who_does_not_sync_in_time_is_dropped() -> None:
    async def story(world: GroupsWorld) -> None:
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

    run(story)


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
def test_item_41_version_5_names_the_protocol(
    protocol_type: str | None, protocol_name: str | None, expected: ErrorCode
) -> None:
    async def story(world: GroupsWorld) -> None:
        (first,) = await stable_group(world, "first")
        request = SyncGroupRequest(
            group_id=GROUP, generation_id=1, member_id=first.member_id,
            protocol_type=protocol_type, protocol_name=protocol_name,
        )  # fmt: skip
        assert (await world.ask(request, 5)).error_code == expected
        assert (await world.ask(request, 4)).error_code == ErrorCode.NONE

    run(story)


# -- 42 --------------------------------------------------------------------------------------------------


def test_item_42_a_follower_that_rejoins_unchanged_changes_nothing() -> None:
    async def story(world: GroupsWorld) -> None:
        leader, follower = await stable_group(world, "first", "second")
        again = (await follower.begin_join()).result()
        assert (again.error_code, again.generation_id, again.leader) == (0, 1, leader.member_id)
        assert again.members == []
        assert await leader.beat() == ErrorCode.NONE
        assignment = (await follower.begin_sync()).result().assignment
        assert bytes(assignment) == follower.assignment

    run(story)


def test_item_42_the_leader_asks_for_a_rebalance_by_rejoining() -> None:
    async def story(world: GroupsWorld) -> None:
        leader, follower = await stable_group(world, "first", "second")
        rejoining = await leader.begin_join()
        assert not rejoining.done()
        assert await follower.beat() == ErrorCode.REBALANCE_IN_PROGRESS
        await follower.begin_join()
        assert rejoining.result().generation_id == 2

    run(story)


def test_item_42_another_subscription_means_a_rebalance() -> None:
    async def story(world: GroupsWorld) -> None:
        leader, follower = await stable_group(world, "first", "second")
        follower.join = {"topics": ("flights", "planes")}
        rejoining = await follower.begin_join()
        assert not rejoining.done()
        assert await leader.beat() == ErrorCode.REBALANCE_IN_PROGRESS

    run(story)


@pytest.mark.parametrize("who", ["leader", "follower"])
def test_item_42_whose_answer_was_lost_gets_it_again_before_the_assignment(who: str) -> None:
    async def story(world: GroupsWorld) -> None:
        clients = [GroupClient(world, name) for name in ("first", "second")]
        await all_join(*clients)
        client = clients[0] if who == "leader" else clients[1]
        again = (await client.begin_join()).result()
        assert again == client.joined
        assert len(again.members) == (2 if who == "leader" else 0)

    run(story)


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
def test_item_43_generation_member_and_instance_are_checked(
    request_of: str, wrong: dict[str, Any], expected: ErrorCode
) -> None:
    async def story(world: GroupsWorld) -> None:
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

    run(story)


@pytest.mark.parametrize(
    ("session_ms", "is_refused"), [(5_999, True), (6_000, False), (1_800_000, False), (1_800_001, True)]
)
def test_item_43_the_session_timeout_has_bounds(session_ms: int, is_refused: bool) -> None:
    async def story(world: GroupsWorld) -> None:
        answer = await world.ask(join_request(session_ms=session_ms), 9)
        refused = answer.error_code == ErrorCode.INVALID_SESSION_TIMEOUT
        assert refused is is_refused

    run(story)


def test_item_43_a_session_ends_without_heartbeats_and_only_then() -> None:
    async def story(world: GroupsWorld) -> None:
        alive, dead = await stable_group(world, "first", "second", session_ms=10_000)
        for _ in range(3):
            await world.pass_ms(3_000)
            assert await alive.beat() == ErrorCode.NONE
        await world.pass_ms(2_000)
        assert await alive.beat() == ErrorCode.REBALANCE_IN_PROGRESS
        assert await dead.beat() == ErrorCode.UNKNOWN_MEMBER_ID

    run(story)


# -- 44 --------------------------------------------------------------------------------------------------


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
def test_item_44_a_restarted_static_member_gets_a_new_id_and_no_rebalance(who: str, version: int) -> None:
    async def story(world: GroupsWorld) -> None:
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

    run(story)


def test_item_44_version_9_lets_the_leader_look_without_assigning() -> None:
    async def story(world: GroupsWorld) -> None:
        await static_pair(world)
        restarted = (await GroupClient(world, "restarted", 9, instance="one").begin_join()).result()
        assert restarted.skip_assignment is True and restarted.leader == restarted.member_id
        assert {member.group_instance_id for member in restarted.members} == {"one", "two"}
        other = (await GroupClient(world, "restarted", 9, instance="two").begin_join()).result()
        assert other.skip_assignment is False and other.members == []
        assert other.leader == restarted.member_id

    run(story)


def test_item_44_before_version_9_the_leader_does_not_learn_that_it_leads() -> None:
    async def story(world: GroupsWorld) -> None:
        leader, _ = await static_pair(world, 8)
        restarted = (await GroupClient(world, "restarted", 8, instance="one").begin_join()).result()
        assert restarted.leader == leader.member_id != restarted.member_id
        assert restarted.members == []

    run(story)


def test_item_44_another_subscription_does_mean_a_rebalance() -> None:
    async def story(world: GroupsWorld) -> None:
        leader, _ = await static_pair(world)
        new = GroupClient(world, "restarted", instance="two", topics=("planes",))
        joining = await new.begin_join()
        assert not joining.done()
        assert await leader.beat() == ErrorCode.REBALANCE_IN_PROGRESS
        await leader.begin_join()
        assert joining.result().generation_id == 2

    run(story)


def test_item_44_a_request_of_the_old_one_that_waits_is_fenced() -> None:
    async def story(world: GroupsWorld) -> None:
        _, follower = await static_pair(world)
        await GroupClient(world, "third").begin_join()
        waiting = await follower.begin_join()
        assert not waiting.done()
        await GroupClient(world, "restarted", instance="two").begin_join()
        assert waiting.result().error_code == ErrorCode.FENCED_INSTANCE_ID

    run(story)


def test_item_44_a_return_during_the_assignment_means_a_rebalance() -> None:
    async def story(world: GroupsWorld) -> None:
        clients = [GroupClient(world, "a", instance="one"), GroupClient(world, "b", instance="two")]
        await all_join(*clients)
        waiting = await clients[1].begin_sync()
        restarted = await GroupClient(world, "restarted", instance="two").begin_join()
        assert waiting.result().error_code == ErrorCode.FENCED_INSTANCE_ID
        assert not restarted.done()
        await clients[0].begin_join()
        assert restarted.result().generation_id == 2

    run(story)


def test_item_44_an_absent_static_member_keeps_its_place_until_its_session_ends() -> None:
    async def story(world: GroupsWorld) -> None:
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

    run(story)


def test_item_44_an_administrator_removes_by_instance_id() -> None:
    async def story(world: GroupsWorld) -> None:
        leader, follower = await static_pair(world)
        named = [
            MemberIdentity(member_id="", group_instance_id="two"),
            MemberIdentity(member_id="", group_instance_id="three"),
            MemberIdentity(member_id="", group_instance_id=None),
            MemberIdentity(member_id=leader.member_id, group_instance_id="two"),
            MemberIdentity(member_id="", group_instance_id="two"),
        ]
        answer = await world.ask(LeaveGroupRequest(group_id=GROUP, members=named), 3)
        assert answer.error_code == ErrorCode.NONE
        assert [member.error_code for member in answer.members] == [
            ErrorCode.NONE,
            ErrorCode.UNKNOWN_MEMBER_ID,
            ErrorCode.UNKNOWN_MEMBER_ID,
            ErrorCode.FENCED_INSTANCE_ID,
            ErrorCode.UNKNOWN_MEMBER_ID,
        ]
        assert [member.group_instance_id for member in answer.members][:2] == ["two", "three"]
        assert await leader.beat() == ErrorCode.REBALANCE_IN_PROGRESS
        assert await follower.beat() == ErrorCode.UNKNOWN_MEMBER_ID

    run(story)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_item_44_older_leave_requests_have_one_member_and_one_error(version: int) -> None:
    async def story(world: GroupsWorld) -> None:
        (first,) = await stable_group(world, "first")
        unknown = await world.ask(LeaveGroupRequest(group_id=GROUP, member_id="nobody"), version)
        assert unknown.error_code == ErrorCode.UNKNOWN_MEMBER_ID
        left = await world.ask(LeaveGroupRequest(group_id=GROUP, member_id=first.member_id), version)
        assert left.error_code == ErrorCode.NONE
        assert await state(world) == "Empty"

    run(story)


# -- 45 --------------------------------------------------------------------------------------------------


async def commit(world: GroupsWorld, request: Any, version: int = 8) -> ErrorCode:
    response = await world.ask(request, version)
    return ErrorCode(response.topics[0].partitions[0].error_code)


@pytest.mark.parametrize("version", range(2, 10))
def test_item_45_without_a_generation_offsets_are_taken_from_anybody_while_the_group_is_empty(
    version: int,
) -> None:
    async def story(world: GroupsWorld) -> None:
        assert await commit(world, commit_request(7), version) == ErrorCode.NONE
        assert await committed(world) == {("flights", 0): 7}
        (first,) = await stable_group(world, "first")
        assert await commit(world, commit_request(8), version) == ErrorCode.UNKNOWN_MEMBER_ID
        await first.leave()
        assert await commit(world, commit_request(9), version) == ErrorCode.NONE
        assert await committed(world) == {("flights", 0): 9}

    run(story)


def test_item_45_a_member_commits_under_its_generation_but_not_before_its_assignment() -> None:
    async def story(world: GroupsWorld) -> None:
        first, second = await stable_group(world, "first", "second")
        assert await first.commit(5) == ErrorCode.NONE
        joining = await GroupClient(world, "third").begin_join()
        assert await second.commit(6) == ErrorCode.NONE  # the last chance before its partitions go
        for client in (first, second):
            await client.begin_join()
        first.generation = joining.result().generation_id
        assert await first.commit(7) == ErrorCode.REBALANCE_IN_PROGRESS
        assert await committed(world) == {("flights", 0): 6}

    run(story)


def test_item_45_a_commit_keeps_the_session() -> None:
    async def story(world: GroupsWorld) -> None:
        (first,) = await stable_group(world, "first", session_ms=10_000)
        for offset in range(4):
            await world.pass_ms(6_000)
            assert await first.commit(offset) == ErrorCode.NONE

    run(story)


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ("x" * 4096, ErrorCode.NONE),
        ("x" * 4097, ErrorCode.OFFSET_METADATA_TOO_LARGE),
        ("ü" * 2049, ErrorCode.OFFSET_METADATA_TOO_LARGE),
        (None, ErrorCode.NONE),
    ],
    ids=["4096", "4097", "in bytes", "null"],
)
def test_item_45_metadata_has_a_limit(metadata: str | None, expected: ErrorCode) -> None:
    async def story(world: GroupsWorld) -> None:
        assert await commit(world, commit_request(5, metadata=metadata)) == expected
        assert (await committed(world) == {}) is (expected != ErrorCode.NONE)

    run(story)


@pytest.mark.parametrize(("topic", "partition"), [("nowhere", 0), ("flights", 4), ("flights", -1)])
def test_item_45_unknown_partitions_have_their_own_error(topic: str, partition: int) -> None:
    async def story(world: GroupsWorld) -> None:
        request = commit_request(5, topic=topic, partition=partition)
        request.topics.extend(commit_request(6, topic="planes").topics)
        response = await world.ask(request, 8)
        codes = [topic.partitions[0].error_code for topic in response.topics]
        assert codes == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NONE]
        assert await committed(world) == {("planes", 0): 6}

    run(story)


def test_item_45_version_10_names_topics_by_id() -> None:
    async def story(world: GroupsWorld) -> None:
        flights = world.topics.topics["flights"].topic_id
        assert await commit(world, commit_request(5, topic_id=flights), 10) == ErrorCode.NONE
        unknown = commit_request(5, topic_id=b"?" * 16)
        response = await world.ask(unknown, 10)
        assert response.topics[0].topic_id == b"?" * 16
        assert response.topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
        assert await committed(world) == {("flights", 0): 5}

    run(story)


@pytest.mark.parametrize(
    ("version", "expected"), [(8, ErrorCode.ILLEGAL_GENERATION), (9, ErrorCode.GROUP_ID_NOT_FOUND)]
)
def test_item_45_a_generation_of_an_unknown_group(version: int, expected: ErrorCode) -> None:
    async def story(world: GroupsWorld) -> None:
        request = commit_request(5, member_id="somebody", generation=3)
        assert await commit(world, request, version) == expected
        assert (await describe(world)).group_state == "Dead"

    run(story)


# -- 46 --------------------------------------------------------------------------------------------------


def fetch_request(version: int, group: str, topic: str, *partitions: int, topic_id: bytes = bytes(16)) -> Any:
    if version < 8:
        topics = [OffsetFetchRequestTopic(name=topic, partition_indexes=list(partitions))]
        return OffsetFetchRequest(group_id=group, topics=topics)
    several = [OffsetFetchRequestTopics(name=topic, topic_id=topic_id, partition_indexes=list(partitions))]
    return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=several)])


def partitions_of(version: int, response: Any) -> list[tuple[int, int, str, int]]:
    topics = response.topics if version < 8 else response.groups[0].topics
    return [
        (partition.partition_index, partition.committed_offset, partition.metadata, partition.error_code)
        for topic in topics
        for partition in topic.partitions
    ]


@pytest.mark.parametrize("version", range(1, 11))
def test_item_46_what_nobody_committed_is_minus_one_and_no_error(version: int) -> None:
    async def story(world: GroupsWorld) -> None:
        flights = world.topics.topics["flights"].topic_id
        nobody = fetch_request(version, "nobody", "flights", 0, topic_id=flights)
        assert partitions_of(version, await world.ask(nobody, version)) == [(0, -1, "", 0)]
        await commit(world, commit_request(7, partition=1, metadata="seven"))
        request = fetch_request(version, GROUP, "flights", 0, 1, topic_id=flights)
        response = await world.ask(request, version)
        assert partitions_of(version, response) == [(0, -1, "", 0), (1, 7, "seven", 0)]
        assert (response.error_code if version < 8 else response.groups[0].error_code) == 0

    run(story)


@pytest.mark.parametrize("version", range(2, 11))
def test_item_46_null_means_all_and_an_empty_list_none(version: int) -> None:
    async def story(world: GroupsWorld) -> None:
        await commit(world, commit_request(7, partition=1))
        await commit(world, commit_request(8, topic="planes"))
        for topics, expected in ((None, [(0, 8), (1, 7)]), ([], [])):
            if version < 8:
                request = OffsetFetchRequest(group_id=GROUP, topics=topics)
            else:
                request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=GROUP, topics=topics)])
            found = partitions_of(version, await world.ask(request, version))
            assert sorted((partition, offset) for partition, offset, _, _ in found) == expected

    run(story)


def test_item_46_the_leader_epoch_comes_back() -> None:
    async def story(world: GroupsWorld) -> None:
        await commit(world, commit_request(7, leader_epoch=3))
        response = await world.ask(fetch_request(9, GROUP, "flights", 0), 9)
        assert response.groups[0].topics[0].partitions[0].committed_leader_epoch == 3

    run(story)


def test_item_46_several_groups_in_one_request() -> None:
    async def story(world: GroupsWorld) -> None:
        await commit(world, commit_request(7, group="one"))
        await commit(world, commit_request(8, group="two"))
        request = OffsetFetchRequest(
            groups=[OffsetFetchRequestGroup(group_id=group, topics=None) for group in ("one", "two", "none")]
        )
        response = await world.ask(request, 8)
        assert [group.group_id for group in response.groups] == ["one", "two", "none"]
        offsets = [
            [partition.committed_offset for topic in group.topics for partition in topic.partitions]
            for group in response.groups
        ]
        assert offsets == [[7], [8], []]

    run(story)


def test_item_46_version_10_an_unknown_id_has_its_own_error() -> None:
    async def story(world: GroupsWorld) -> None:
        request = fetch_request(10, GROUP, "", 0, 1, topic_id=b"?" * 16)
        response = await world.ask(request, 10)
        assert [row[3] for row in partitions_of(10, response)] == [ErrorCode.UNKNOWN_TOPIC_ID] * 2
        assert response.groups[0].topics[0].topic_id == b"?" * 16

    run(story)


@pytest.mark.parametrize("version", range(1, 11))
def test_item_46_errors_of_the_group_stand_where_the_version_has_them(version: int) -> None:
    async def story(world: GroupsWorld) -> None:
        flights = world.topics.topics["flights"].topic_id
        await world.groups.close()
        response = await world.ask(fetch_request(version, GROUP, "flights", 0, topic_id=flights), version)
        if version >= 8:
            assert response.groups[0].error_code == ErrorCode.NOT_COORDINATOR
        else:
            assert [row[3] for row in partitions_of(version, response)] == [ErrorCode.NOT_COORDINATOR]
            assert response.error_code == (ErrorCode.NOT_COORDINATOR if version >= 2 else 0)

    run(story)


# -- 47 --------------------------------------------------------------------------------------------------


def test_item_47_offsets_are_kept_seven_days_from_the_moment_the_group_became_empty() -> None:
    async def story(world: GroupsWorld) -> None:
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

    run(story)


def test_item_47_of_a_topic_nobody_subscribes_to_they_go_while_the_group_lives() -> None:
    async def story(world: GroupsWorld) -> None:
        await commit(world, commit_request(8, topic="planes"))
        (first,) = await stable_group(world, "first", session_ms=1_800_000)
        await first.commit(5)
        for _ in range(8 * 72):
            await world.pass_ms(DAY_MS // 72, steps=1)
            assert await first.beat() == ErrorCode.NONE
        assert await committed(world) == {("flights", 0): 5}

    run(story)


def test_item_47_simple_groups_count_from_the_commit() -> None:
    async def story(world: GroupsWorld) -> None:
        await commit(world, commit_request(5, partition=0))
        await world.pass_ms(4 * DAY_MS)
        await commit(world, commit_request(6, partition=1))
        await world.pass_ms(3 * DAY_MS + 700_000, steps=40)
        assert await committed(world) == {("flights", 1): 6}
        await world.pass_ms(4 * DAY_MS, steps=40)
        assert (await describe(world)).group_state == "Dead"

    run(story)


@pytest.mark.parametrize("version", [2, 3, 4])
def test_item_47_older_clients_say_how_long(version: int) -> None:
    async def story(world: GroupsWorld) -> None:
        assert await commit(world, commit_request(5, retention_ms=DAY_MS), version) == ErrorCode.NONE
        world.restart()
        await committed(world)
        await world.pass_ms(DAY_MS - 1_000)
        assert await committed(world) == {("flights", 0): 5}
        await world.pass_ms(700_000)
        assert await committed(world) == {}

    run(story)


def test_item_47_groups_with_members_are_not_deleted() -> None:
    async def story(world: GroupsWorld) -> None:
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

    run(story)


@pytest.mark.parametrize("version", range(7))
def test_item_47_an_unknown_group_is_dead(version: int) -> None:
    async def story(world: GroupsWorld) -> None:
        described = await describe(world, "nobody", version)
        assert described.group_state == "Dead"
        assert described.error_code == (ErrorCode.GROUP_ID_NOT_FOUND if version >= 6 else ErrorCode.NONE)
        assert (described.error_message is not None) is (version >= 6)

    run(story)


# -- 48 --------------------------------------------------------------------------------------------------


def test_item_48_after_a_restart_members_go_on_as_if_nothing_had_been() -> None:
    async def story(world: GroupsWorld) -> None:
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

    run(story)


def test_item_48_a_restart_in_the_middle_of_a_rebalance_is_a_rebalance() -> None:
    async def story(world: GroupsWorld) -> None:
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

    run(story)


async def _both(first: GroupClient, second: GroupClient) -> list[Any]:
    tasks = [await first.begin_join(), await second.begin_join()]
    second.has_joined(tasks[1].result())
    return [task.result() for task in tasks]


def test_item_48_sessions_begin_anew_after_a_restart() -> None:
    async def story(world: GroupsWorld) -> None:
        first, second = await stable_group(world, "first", "second", session_ms=10_000)
        world.restart()
        assert await first.beat() == ErrorCode.NONE
        for _ in range(4):
            await world.pass_ms(3_000)
            await first.beat()
        assert await second.beat() == ErrorCode.UNKNOWN_MEMBER_ID

    run(story)


def test_item_48_while_it_loads_each_api_says_what_its_clients_survive() -> None:
    async def story(world: GroupsWorld) -> None:
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

    run(story)


def test_item_48_who_waits_when_it_closes_is_told_so() -> None:
    async def story(world: GroupsWorld) -> None:
        first, second = await stable_group(world, "first", "second")
        joining = await first.begin_join()
        await world.groups.close()
        await turns()
        assert joining.result().error_code == ErrorCode.NOT_COORDINATOR
        assert await second.beat() == ErrorCode.NOT_COORDINATOR

    run(story)


def test_item_47_a_group_whose_last_offset_is_deleted_is_empty_and_can_be_deleted() -> None:
    """As kafka-consumer-groups --delete-offsets and then --delete does it."""

    async def story(world: GroupsWorld) -> None:
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

    run(story)
