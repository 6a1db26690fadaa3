"""Item 39 of docs/scenarios.md: how long a rebalance takes. Also what a client without any patience does."""

import time
from collections.abc import Callable

import pytest

from siltstone.kafka_protocol.error_code import ErrorCode
from support.groups.raw_group import RawMember
from support.kafka.raw_kafka import RawConnection

DELAY_MS = 200
BROKER_SETTINGS = {"groups.group_initial_rebalance_delay_ms": str(DELAY_MS)}

Connect = Callable[[], RawConnection]
NewMember = Callable[..., RawMember]


@pytest.fixture
def member(connect: Connect, free_name: str) -> NewMember:
    return lambda **more: RawMember(connect(), free_name, **more)


def test_item_39_the_first_members_of_a_group_wait_for_others(member: NewMember) -> None:
    members = [member() for _ in range(3)]
    began = time.monotonic()
    for each in members:
        each.begin_join()
    for each in members:
        each.end_join()

    assert time.monotonic() - began >= DELAY_MS / 1000
    assert {each.generation for each in members} == {1}, "one rebalance, not three"


def test_item_39_a_newcomer_extends_the_delay(member: NewMember) -> None:
    first, second = member(), member()
    began = time.monotonic()
    first.begin_join()
    time.sleep(0.3 * DELAY_MS / 1000)
    second.begin_join()
    first.end_join(), second.end_join()

    assert time.monotonic() - began >= 2 * DELAY_MS / 1000
    assert first.generation == second.generation == 1


def test_item_39_but_not_beyond_the_rebalance_timeout(member: NewMember) -> None:
    first, second = member(rebalance_ms=DELAY_MS), member(rebalance_ms=DELAY_MS)
    began = time.monotonic()
    first.begin_join()
    time.sleep(0.5 * DELAY_MS / 1000)
    second.begin_join()
    first.end_join(), second.end_join()

    assert time.monotonic() - began < 2 * DELAY_MS / 1000


def test_item_39_a_later_rebalance_ends_as_soon_as_all_have_joined_again(member: NewMember) -> None:
    first, second = member(), member()
    first.join(), first.sync()
    second.begin_join()
    first.await_rebalance()
    began = time.monotonic()
    first.begin_join()
    first.end_join(), second.end_join()

    assert time.monotonic() - began < DELAY_MS / 1000
    assert first.generation == second.generation == 2


def test_item_39_who_does_not_join_again_in_time_is_dropped(member: NewMember) -> None:
    first, second = member(rebalance_ms=200), member(rebalance_ms=200)
    first.join(), first.sync()
    began = time.monotonic()
    second.join()

    assert 0.2 <= time.monotonic() - began < 2
    assert [each.member_id for each in second.joined.members] == [second.member_id]
    assert first.beat() == ErrorCode.UNKNOWN_MEMBER_ID
