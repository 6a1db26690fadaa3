"""Items 38 and 40 to 47 of docs/scenarios.md: classic consumer groups, without an initial delay.

Item 39 is in ``test_group_delays``, item 48 in ``test_after_a_crash``.
"""

import time
from collections.abc import Callable
from typing import Any

import pytest

from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.delete_groups import DeleteGroupsRequest
from siltstone.kafka_protocol.messages.describe_groups import DescribeGroupsRequest
from siltstone.kafka_protocol.messages.find_coordinator import FindCoordinatorRequest
from siltstone.kafka_protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from siltstone.kafka_protocol.messages.list_groups import ListGroupsRequest
from siltstone.kafka_protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from support.groups.raw_group import RawMember, assembled, committed, joined, offset_fetch_request
from support.kafka.raw_calls import NOWHERE, RawTopic
from support.kafka.raw_kafka import Address, RawConnection

SESSION_MS = 100
METADATA_BYTES_MAX = 100
BROKER_SETTINGS = {
    "groups.group_min_session_timeout_ms": str(SESSION_MS),
    "groups.group_max_session_timeout_ms": "60000",
    "groups.offset_metadata_max_bytes": str(METADATA_BYTES_MAX),
}

Connect = Callable[[], RawConnection]
NewMember = Callable[..., RawMember]
INCONSISTENT = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
REBALANCE = ErrorCode.REBALANCE_IN_PROGRESS


@pytest.fixture
def member(connect: Connect, free_name: str) -> NewMember:
    """``member(...)``: one more of the test's own group, with a connection of its own."""
    return lambda **more: RawMember(connect(), more.pop("group_id", free_name), **more)


def described(connection: RawConnection, group_id: str, version: int = 5) -> Any:
    (group,) = connection.ask(DescribeGroupsRequest(groups=[group_id]), version).groups
    return group


def state(connection: RawConnection, group_id: str) -> str:
    return str(described(connection, group_id).group_state)


# -- the way there -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(7))
def test_item_38_the_coordinator_of_a_group_is_at_the_address_of_the_listener(
    connection: RawConnection, address: Address, free_name: str, version: int
) -> None:
    asked = FindCoordinatorRequest(key=free_name, coordinator_keys=[free_name])
    answer = connection.ask(asked, version)
    (found,) = answer.coordinators if version >= 4 else [answer]

    assert (found.error_code, found.host, found.port) == (0, *address)


# -- 38: member ids ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(4, 10))
def test_item_38_a_newcomer_is_given_an_id_and_joins_with_it(
    connection: RawConnection, member: NewMember, free_name: str, version: int
) -> None:
    newcomer = member(version=version, client_id="app")
    answer = newcomer.ask_to_join()

    assert (answer.error_code, answer.generation_id) == (ErrorCode.MEMBER_ID_REQUIRED, -1)
    assert answer.member_id.startswith("app-")
    assert state(connection, free_name) == "Empty", "it is no member yet"
    newcomer.member_id = answer.member_id
    newcomer.connection.send(newcomer.join_request(), version)
    assert newcomer.end_join().member_id == answer.member_id


@pytest.mark.parametrize("version", range(4))
def test_item_38_before_version_4_a_newcomer_joins_at_once(member: NewMember, version: int) -> None:
    newcomer = member(version=version)

    joined = newcomer.join()
    assert (joined.generation_id, joined.leader, len(joined.members)) == (1, newcomer.member_id, 1)
    assert newcomer.sync() == newcomer.member_id.encode()


def test_item_38_a_static_member_needs_no_id(member: NewMember) -> None:
    assert member(instance_id="i").join().generation_id == 1


def test_item_38_an_id_that_was_not_given_is_unknown(member: NewMember) -> None:
    stranger = member()
    stranger.member_id = "somebody-else"
    assert stranger.ask_to_join().error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_item_38_an_id_that_is_not_used_expires_with_its_session(
    connection: RawConnection, member: NewMember, free_name: str
) -> None:
    newcomer = member(session_ms=SESSION_MS)
    newcomer.member_id = newcomer.ask_to_join().member_id
    time.sleep(3 * SESSION_MS / 1000)

    assert newcomer.ask_to_join().error_code == ErrorCode.UNKNOWN_MEMBER_ID


# -- 40: leader and protocol ---------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(10))
def test_item_40_only_the_leader_is_told_the_members(member: NewMember, version: int) -> None:
    leader, follower = member(version=version), member(version=version)
    joined(leader, follower)

    assert leader.joined.leader == follower.joined.leader == leader.member_id
    assert {each.member_id for each in leader.joined.members} == {leader.member_id, follower.member_id}
    assert all(bytes(each.metadata) for each in leader.joined.members)
    assert follower.joined.members == []
    if version >= 7:
        assert follower.joined.protocol_type == "consumer"


def test_item_40_the_protocol_is_one_that_all_support_by_vote(member: NewMember) -> None:
    members = [
        member(protocols=("sticky", "range", "roundrobin")),
        member(protocols=("roundrobin", "range")),
        member(protocols=("other", "roundrobin", "range")),
        member(protocols=("range", "roundrobin")),
        member(protocols=("roundrobin", "range")),
    ]
    joined(*members)

    assert {each.joined.protocol_name for each in members} == {"roundrobin"}


def test_item_40_who_shares_no_protocol_is_refused(
    connection: RawConnection, member: NewMember, free_name: str
) -> None:
    first = member(protocols=("range", "sticky"))
    assembled(first)

    refused = [member(protocols=("other",)), member(protocol_type="connect"), member(protocols=())]
    assert [each.ask_to_join().error_code for each in refused] == [INCONSISTENT] * 3
    fresh = (
        member(group_id=f"{free_name}-2", protocols=()),
        member(group_id=f"{free_name}-2", protocol_type=""),
    )
    assert [each.ask_to_join().error_code for each in fresh] == [INCONSISTENT] * 2
    assert state(connection, free_name) == "Stable"


def test_item_40_a_sync_of_another_protocol_is_refused(member: NewMember) -> None:
    first = member()
    first.join()
    first.protocol_type = "connect"
    first.begin_sync()
    assert first.connection.receive().error_code == INCONSISTENT


# -- 41: sync and heartbeats ---------------------------------------------------------------------------------


def test_item_41_followers_wait_for_the_leaders_assignment(member: NewMember) -> None:
    leader, follower = member(), member()
    joined(leader, follower)
    follower.begin_sync()
    assert not follower.connection.has_answer_within(0.05)

    assert leader.sync({follower.member_id: b"to the follower", leader.member_id: b"mine"}) == b"mine"
    assert follower.end_sync() == b"to the follower"


def test_item_41_what_a_heartbeat_is_told_in_each_state(
    connect: Connect, connection: RawConnection, member: NewMember, free_name: str
) -> None:
    first, second = member(), member()
    assert first.beat(generation=0) == ErrorCode.UNKNOWN_MEMBER_ID, "there is no group"
    first.join()
    assert (state(connection, free_name), first.beat()) == ("CompletingRebalance", 0)
    first.sync()
    assert (state(connection, free_name), first.beat()) == ("Stable", 0)
    second.begin_join()
    first.await_rebalance()
    assert (state(connection, free_name), first.beat()) == ("PreparingRebalance", REBALANCE)
    assert first.leave() == 0
    second.end_join()
    assert second.leave() == 0
    assert state(connection, free_name) == "Empty"
    assert second.beat() == ErrorCode.UNKNOWN_MEMBER_ID


def test_item_41_a_sync_while_others_join_is_told_so(member: NewMember) -> None:
    first, second = member(), member()
    first.join()
    second.begin_join()
    first.await_rebalance()
    first.begin_sync()

    assert first.connection.receive().error_code == REBALANCE


# -- 42: joining again ---------------------------------------------------------------------------------------


def test_item_42_a_follower_that_joins_again_unchanged_gets_the_generation_there_is(
    member: NewMember,
) -> None:
    leader, follower = member(), member()
    assembled(leader, follower)

    assert follower.join().generation_id == leader.generation
    assert leader.beat() == 0


def test_item_42_a_leader_that_joins_again_asks_for_a_rebalance(member: NewMember) -> None:
    leader, follower = member(), member()
    assembled(leader, follower)
    before = leader.generation
    leader.begin_join()
    follower.await_rebalance()
    follower.begin_join()

    assert leader.end_join().generation_id == follower.end_join().generation_id == before + 1


def test_item_42_so_does_who_subscribes_to_something_else(member: NewMember) -> None:
    leader, follower = member(), member()
    assembled(leader, follower)
    follower.topics = ("t", "u")
    before = leader.generation
    follower.begin_join()
    leader.await_rebalance()
    leader.begin_join()

    assert leader.end_join().generation_id == follower.end_join().generation_id == before + 1


# -- 43: who is who ------------------------------------------------------------------------------------------


def test_item_43_generations_and_members_are_checked(member: NewMember, topic: RawTopic) -> None:
    first = member()
    assembled(first)

    assert first.beat(generation=first.generation - 1) == ErrorCode.ILLEGAL_GENERATION
    assert first.beat(generation=first.generation + 1) == ErrorCode.ILLEGAL_GENERATION
    assert first.beat(member_id="nobody") == ErrorCode.UNKNOWN_MEMBER_ID
    assert first.commit(topic, 1, generation=7) == ErrorCode.ILLEGAL_GENERATION
    assert first.commit(topic, 1, member_id="nobody") == ErrorCode.UNKNOWN_MEMBER_ID
    first.generation = 7
    first.begin_sync()
    assert first.connection.receive().error_code == ErrorCode.ILLEGAL_GENERATION


def test_item_43_an_instance_with_another_member_id_is_fenced(member: NewMember, topic: RawTopic) -> None:
    first = member(instance_id="i")
    assembled(first)

    assert first.beat(member_id="i-another") == ErrorCode.FENCED_INSTANCE_ID
    assert first.commit(topic, 1, member_id="i-another") == ErrorCode.FENCED_INSTANCE_ID


@pytest.mark.parametrize("session_ms", [SESSION_MS - 1, 60_001, 0, -1, 2**31 - 1])
@pytest.mark.parametrize("version", [0, 5, 9])
def test_item_43_a_session_timeout_out_of_bounds_is_error_26(
    member: NewMember, session_ms: int, version: int
) -> None:
    refused = member(session_ms=session_ms, version=version).ask_to_join()
    assert refused.error_code == ErrorCode.INVALID_SESSION_TIMEOUT


@pytest.mark.parametrize("version", [0, 5, 9])
def test_item_43_a_group_has_a_name(member: NewMember, version: int) -> None:
    refused = member(group_id="", version=version).ask_to_join()
    assert refused.error_code == ErrorCode.INVALID_GROUP_ID


def test_item_43_who_is_silent_for_a_session_is_gone(
    connection: RawConnection, member: NewMember, free_name: str
) -> None:
    first, second = member(session_ms=10_000), member(session_ms=3 * SESSION_MS)
    assembled(first, second)
    first.await_rebalance()

    assert second.beat() == ErrorCode.UNKNOWN_MEMBER_ID
    assert len(described(connection, free_name).members) == 1


# -- 44: static members --------------------------------------------------------------------------------------


def test_item_44_a_static_member_comes_back_under_a_new_id_without_a_rebalance(member: NewMember) -> None:
    leader, follower = member(instance_id="leader"), member(instance_id="follower")
    assembled(leader, follower)
    returned = member(instance_id="follower")
    answer = returned.join()

    assert (answer.generation_id, answer.leader) == (leader.generation, leader.member_id)
    assert answer.member_id != follower.member_id
    assert returned.sync() == follower.member_id.encode(), "the assignment it had"
    assert leader.beat() == 0
    assert follower.beat() == ErrorCode.FENCED_INSTANCE_ID


@pytest.mark.parametrize(("version", "skips"), [(8, False), (9, True)])
def test_item_44_a_leader_that_comes_back_is_told_to_keep_the_assignment(
    member: NewMember, version: int, skips: bool
) -> None:
    leader, follower = member(instance_id="leader", version=version), member(instance_id="follower")
    assembled(leader, follower)
    returned = member(instance_id="leader", version=version)
    answer = returned.join()

    assert (answer.generation_id, answer.skip_assignment) == (leader.generation, skips)
    assert (answer.leader == answer.member_id) is skips, "who does not know that it may skip must not assign"
    assert returned.sync({}) == leader.member_id.encode()
    assert follower.beat() == 0


def test_item_44_with_another_subscription_there_is_a_rebalance(member: NewMember) -> None:
    leader, follower = member(instance_id="leader"), member(instance_id="follower")
    assembled(leader, follower)
    returned = member(instance_id="follower", topics=("u",))
    returned.begin_join()
    leader.await_rebalance()
    leader.begin_join()

    assert leader.end_join().generation_id == returned.end_join().generation_id == follower.generation + 1


def test_item_44_an_administrator_removes_a_static_member_by_its_instance(
    connection: RawConnection, member: NewMember, free_name: str
) -> None:
    first = member(instance_id="i")
    assembled(first)
    leaving = [
        MemberIdentity(member_id="", group_instance_id="i"),
        MemberIdentity(member_id="", group_instance_id="unknown"),
        MemberIdentity(member_id="another", group_instance_id=None),
    ]
    answer = connection.ask(LeaveGroupRequest(group_id=free_name, members=leaving), 5)

    unknown = ErrorCode.UNKNOWN_MEMBER_ID
    assert answer.error_code == 0
    assert [(each.group_instance_id, each.error_code) for each in answer.members] == [
        ("i", 0),
        ("unknown", unknown),
        (None, unknown),
    ]
    assert first.beat() == unknown
    assert state(connection, free_name) == "Empty"


@pytest.mark.parametrize("version", range(6))
def test_item_44_leaving_in_every_version(
    connection: RawConnection, member: NewMember, free_name: str, version: int
) -> None:
    first = member()
    assembled(first)
    leaving = MemberIdentity(member_id=first.member_id)
    request = LeaveGroupRequest(group_id=free_name, member_id=first.member_id, members=[leaving])

    assert connection.ask(request, version).error_code == 0
    assert state(connection, free_name) == "Empty"


# -- 45: committing offsets ----------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(2, 11))
def test_item_45_without_a_generation_only_while_nobody_is_a_member(
    connection: RawConnection, member: NewMember, topic: RawTopic, free_name: str, version: int
) -> None:
    outsider = member()
    assert outsider.commit(topic, 5, version=version, metadata="m") == 0
    assert committed(connection, free_name, topic, 0) == {0: (5, "m")}

    first = member()
    assembled(first)
    assert outsider.commit(topic, 6, version=version) == ErrorCode.UNKNOWN_MEMBER_ID
    assert first.commit(topic, 7, version=version) == 0
    assert committed(connection, free_name, topic, 0) == {0: (7, "")}
    first.leave()
    assert outsider.commit(topic, 4, version=version) == 0
    assert committed(connection, free_name, topic, 0) == {0: (4, "")}


def test_item_45_not_between_join_and_sync(
    connection: RawConnection, member: NewMember, topic: RawTopic, free_name: str
) -> None:
    first = member()
    first.join()

    assert first.commit(topic, 1) == REBALANCE
    first.sync()
    assert first.commit(topic, 1) == 0


def test_item_45_while_others_join_a_member_may_still_commit(member: NewMember, topic: RawTopic) -> None:
    first, second = member(), member()
    assembled(first)
    second.begin_join()
    first.await_rebalance()

    assert first.commit(topic, 3) == 0


def test_item_45_too_much_metadata_is_error_12(
    connection: RawConnection, member: NewMember, topic: RawTopic, free_name: str
) -> None:
    outsider = member()

    assert outsider.commit(topic, 1, metadata="x" * METADATA_BYTES_MAX) == 0
    assert (
        outsider.commit(topic, 2, metadata="x" * (METADATA_BYTES_MAX + 1))
        == ErrorCode.OFFSET_METADATA_TOO_LARGE
    )
    assert (
        outsider.commit(topic, 3, metadata="é" * (METADATA_BYTES_MAX // 2 + 1))
        == ErrorCode.OFFSET_METADATA_TOO_LARGE
    )
    assert committed(connection, free_name, topic, 0)[0][0] == 1


def test_item_45_of_an_unknown_topic_is_error_3_or_100(
    connection: RawConnection, member: NewMember, topic: RawTopic, free_name: str
) -> None:
    outsider = member()

    assert outsider.commit(NOWHERE, 1) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert outsider.commit(topic, 1, partition=9) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert outsider.commit(NOWHERE, 1, version=10) == ErrorCode.UNKNOWN_TOPIC_ID
    assert outsider.commit(topic, 1) == 0
    assert committed(connection, free_name, topic, 0, 9) == {0: (1, ""), 9: (-1, "")}


@pytest.mark.parametrize(
    ("version", "error"), [(8, ErrorCode.ILLEGAL_GENERATION), (9, ErrorCode.GROUP_ID_NOT_FOUND)]
)
def test_item_45_to_a_group_that_is_not_there_with_a_generation(
    member: NewMember, topic: RawTopic, version: int, error: ErrorCode
) -> None:
    assert member().commit(topic, 1, version=version, generation=3, member_id="m") == error


# -- 46: fetching offsets ------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(1, 11))
def test_item_46_what_nobody_committed_is_no_error(
    connection: RawConnection, member: NewMember, topic: RawTopic, free_name: str, version: int
) -> None:
    assert committed(connection, free_name, topic, 0, 3, version=version) == {0: (-1, ""), 3: (-1, "")}
    member().commit(topic, 9)
    assert committed(connection, free_name, topic, 0, 3, version=version) == {0: (9, ""), 3: (-1, "")}
    if version < 10:
        assert committed(connection, free_name, NOWHERE, 0, version=version) == {0: (-1, "")}


@pytest.mark.parametrize("version", range(2, 11))
def test_item_46_null_means_all(
    connection: RawConnection, member: NewMember, topic: RawTopic, free_name: str, version: int
) -> None:
    assert committed(connection, free_name, None, version=version) == {}
    member().commit(topic, 9)
    assert committed(connection, free_name, None, version=version) == {0: (9, "")}


@pytest.mark.parametrize("version", [7, 8, 9, 10])
def test_item_46_every_offset_is_stable(
    connection: RawConnection, member: NewMember, topic: RawTopic, free_name: str, version: int
) -> None:
    member().commit(topic, 2)
    request = offset_fetch_request(free_name, topic, [0], version, require_stable=True)
    answer = connection.ask(request, version)
    topics = answer.topics if version < 8 else answer.groups[0].topics

    assert [(row.error_code, row.committed_offset) for each in topics for row in each.partitions] == [(0, 2)]


def test_item_46_several_groups_at_once(
    connection: RawConnection, member: NewMember, topic: RawTopic, free_name: str
) -> None:
    names = [f"{free_name}-{number}" for number in range(3)]
    member(group_id=names[1]).commit(topic, 8)
    groups = [offset_fetch_request(name, topic, [0], 9).groups[0] for name in names]
    answer = connection.ask(type(offset_fetch_request("", None, [], 9))(groups=groups), 9)

    assert [
        (each.group_id, each.error_code, each.topics[0].partitions[0].committed_offset)
        for each in answer.groups
    ] == [(names[0], 0, -1), (names[1], 0, 8), (names[2], 0, -1)]


# -- 47: the life of a group ---------------------------------------------------------------------------------


def deleted(connection: RawConnection, group_id: str) -> ErrorCode:
    (result,) = connection.ask(DeleteGroupsRequest(groups_names=[group_id]), 2).results
    return ErrorCode(result.error_code)


def test_item_47_a_group_is_deleted_with_its_offsets_and_not_while_it_lives(
    connection: RawConnection, member: NewMember, topic: RawTopic, free_name: str
) -> None:
    assert deleted(connection, free_name) == ErrorCode.GROUP_ID_NOT_FOUND
    first = member()
    assembled(first)
    first.commit(topic, 3)
    assert deleted(connection, free_name) == ErrorCode.NON_EMPTY_GROUP
    first.leave()
    assert committed(connection, free_name, topic, 0) == {0: (3, "")}

    assert deleted(connection, free_name) == 0
    assert committed(connection, free_name, topic, 0) == {0: (-1, "")}
    assert deleted(connection, free_name) == ErrorCode.GROUP_ID_NOT_FOUND


@pytest.mark.parametrize("version", range(7))
def test_item_47_an_unknown_group_is_dead_and_from_version_6_on_an_error(
    connection: RawConnection, free_name: str, version: int
) -> None:
    group = described(connection, free_name, version)

    assert group.group_state == "Dead"
    assert group.error_code == (ErrorCode.GROUP_ID_NOT_FOUND if version >= 6 else 0)


@pytest.mark.parametrize("version", range(7))
def test_item_47_a_group_is_described(
    connection: RawConnection, member: NewMember, free_name: str, version: int
) -> None:
    first = member(instance_id="i", client_id="app")
    assembled(first)
    group = described(connection, free_name, version)
    (row,) = group.members

    assert (group.error_code, group.group_state, group.protocol_type, group.protocol_data) == (
        0,
        "Stable",
        "consumer",
        "range",
    )
    assert (row.member_id, row.client_id, row.client_host) == (first.member_id, "app", "/127.0.0.1")
    assert bytes(row.member_assignment) == first.member_id.encode()
    assert row.group_instance_id == ("i" if version >= 4 else None)


@pytest.mark.parametrize("version", range(6))
def test_item_47_groups_are_listed(
    connection: RawConnection, member: NewMember, topic: RawTopic, free_name: str, version: int
) -> None:
    first = member()
    assembled(first)
    member(group_id=f"{free_name}-empty").commit(topic, 1)
    listed = {
        group.group_id: group.protocol_type for group in connection.ask(ListGroupsRequest(), version).groups
    }
    assert listed[free_name] == "consumer"
    assert listed[f"{free_name}-empty"] == ""
    if version >= 4:
        stable = connection.ask(ListGroupsRequest(states_filter=["stable"]), version).groups
        names = {group.group_id for group in stable}
        assert free_name in names
        assert f"{free_name}-empty" not in names


def test_item_47_offsets_of_topics_that_are_read_are_not_deleted(
    connection: RawConnection, member: NewMember, topic: RawTopic, free_name: str
) -> None:
    first = member(topics=(topic.name,))
    assembled(first)
    first.commit(topic, 3)
    rows = [OffsetDeleteRequestPartition(partition_index=index) for index in (0, 7)]
    request = OffsetDeleteRequest(
        group_id=free_name, topics=[OffsetDeleteRequestTopic(name=topic.name, partitions=rows)]
    )

    def errors() -> list[int]:
        answer = connection.ask(request, 0)
        assert answer.error_code == 0
        return [row.error_code for row in answer.topics[0].partitions]

    assert errors() == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    first.leave()
    assert errors() == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert committed(connection, free_name, topic, 0) == {0: (-1, "")}
