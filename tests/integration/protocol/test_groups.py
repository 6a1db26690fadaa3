"""Items 38 to 47 of docs/scenarios.md, one way through each family of requests, and time that really passes.

Every case of them is in tests/unit/broker/groups; item 48 is in ``test_after_a_crash``.
"""

import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import siltstone
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.delete_groups import DeleteGroupsRequest
from siltstone.kafka_protocol.messages.describe_groups import DescribeGroupsRequest
from siltstone.kafka_protocol.messages.list_groups import ListGroupsRequest
from support.groups.raw_group import RawMember, assembled, committed, joined
from support.kafka.raw_calls import RawTopic
from support.kafka.raw_kafka import RawConnection, address_of

SESSION_MS, DELAY_MS = 100, 200
BROKER_SETTINGS = {
    "groups.group_min_session_timeout_ms": str(SESSION_MS),
}

Connect = Callable[[], RawConnection]
NewMember = Callable[..., RawMember]
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


# -- 39: the initial delay ------------------------------------------------------------------------------------


def test_item_39_the_first_members_of_a_group_wait_for_others(tmp_path: Path) -> None:
    settings = {"groups.group_initial_rebalance_delay_ms": str(DELAY_MS)}
    with ExitStack() as opened:
        broker = opened.enter_context(siltstone.Broker(tmp_path, settings=settings))
        address = address_of(broker.bootstrap_servers)
        members = [RawMember(opened.enter_context(RawConnection(address)), "g") for _ in range(3)]
        began = time.monotonic()
        for each in members:
            each.begin_join()
        for each in members:
            each.end_join()

        assert time.monotonic() - began >= DELAY_MS / 1000
        assert {each.generation for each in members} == {1}, "one rebalance, not three"


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


# -- 43: who is who ------------------------------------------------------------------------------------------


def test_item_43_who_is_silent_for_a_session_is_gone(
    connection: RawConnection, member: NewMember, free_name: str
) -> None:
    first, second = member(session_ms=10_000), member(session_ms=3 * SESSION_MS)
    assembled(first, second)
    first.await_rebalance()

    assert second.beat() == ErrorCode.UNKNOWN_MEMBER_ID
    assert len(described(connection, free_name).members) == 1


# -- 45: committing offsets ----------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [2, 10])
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


def test_item_47_a_group_is_described_and_listed(
    connection: RawConnection, member: NewMember, free_name: str
) -> None:
    first = member(instance_id="i", client_id="app")
    assembled(first)
    group = described(connection, free_name)
    (row,) = group.members

    assert (group.error_code, group.group_state, group.protocol_type, group.protocol_data) == (
        0,
        "Stable",
        "consumer",
        "range",
    )
    assert (row.member_id, row.client_id, row.client_host) == (first.member_id, "app", "/127.0.0.1")
    assert bytes(row.member_assignment) == first.member_id.encode()
    stable = connection.ask(ListGroupsRequest(states_filter=["stable"]), 4).groups
    assert free_name in {each.group_id for each in stable}
