"""Questions to a group: which members fit, which protocol is elected, which topics it subscribes to."""

import msgspec
import pytest

from siltstone.broker.groups.rules.group import (
    MEMBER_OVERHEAD_BYTES,
    PENDING_MEMBER_BYTES,
    Group,
    InitialDelay,
    Member,
    Protocol,
    can_work_with,
    elected_protocol,
    member_bytes,
    membership_error,
    subscribed_topics,
)
from siltstone.kafka_protocol.error_code import ErrorCode
from support.groups.consumer_bytes import subscription
from support.values.left_out import numbers_left_out


def member(name: str, *protocols: str, topics: tuple[str, ...] = ()) -> Member:
    known = tuple(Protocol(protocol, subscription(*topics)) for protocol in protocols)
    return Member(name, None, "c", "/h", 1, 1, known)


@pytest.mark.parametrize(
    ("lists", "elected"),
    [
        (["a"], "a"),
        (["ab", "ba", "ba"], "b"),
        (["ab", "ab", "ba"], "a"),
        (["ab", "ba"], "a"),
        (["xab", "yab", "zba"], "a"),
        (["abc", "cb"], "b"),
        (["aab", "ba", "ba"], "b"),
    ],
)
def test_election(lists: list[str], elected: str) -> None:
    assert elected_protocol([member(str(number), *names) for number, names in enumerate(lists)]) == elected


@pytest.mark.parametrize(
    ("type_", "protocols", "but", "fits"),
    [
        ("consumer", "ab", None, True),
        ("consumer", "b", None, True),
        ("consumer", "a", None, False),
        ("consumer", "cb", None, True),
        ("consumer", "c", None, False),
        ("consumer", "a", "second", True),
        ("consumer", "c", "second", False),
        ("connect", "b", None, False),
        ("consumer", "", None, False),
        ("", "b", None, False),
    ],
)
def test_who_fits(type_: str, protocols: str, but: str | None, fits: bool) -> None:
    members = {"first": member("first", "a", "b"), "second": member("second", "b")}
    group = Group("g", protocol_type="consumer", members=members)
    assert can_work_with(group, type_, tuple(Protocol(name, b"") for name in protocols), but) is fits


def test_alone_anybody_with_a_type_and_a_protocol_fits() -> None:
    alone = Group("g", protocol_type="consumer", members={"m": member("m", "a")})
    assert can_work_with(alone, "connect", (Protocol("z", b""),), "m")
    assert can_work_with(Group("g"), "connect", (Protocol("z", b""),), None)
    assert not can_work_with(Group("g"), "connect", (), None)
    assert not can_work_with(Group("g"), "", (Protocol("z", b""),), None)


def test_subscribed_topics_are_those_of_all_or_unknown() -> None:
    both = [member("m", "a", topics=("flights",)), member("n", "a", topics=("planes", "flights"))]
    assert subscribed_topics("consumer", "a", both) == {"flights", "planes"}
    assert subscribed_topics("consumer", "a", []) == frozenset()
    assert subscribed_topics("connect", "a", both) is None
    assert subscribed_topics("consumer", "other", both) is None


@pytest.mark.parametrize(
    ("group", "is_subscribed"),
    [
        (Group("g", protocol_type="consumer", subscribed_topics=frozenset({"flights"})), True),
        (Group("g", protocol_type="consumer", subscribed_topics=frozenset({"planes"})), False),
        (Group("g", protocol_type="consumer", subscribed_topics=None), True),
        (Group("g", protocol_type="connect", subscribed_topics=None), False),
        (Group("g"), False),
    ],
)
def test_in_doubt_a_group_of_consumers_is_subscribed(group: Group, is_subscribed: bool) -> None:
    assert group.is_subscribed_to("flights") is is_subscribed


def group_of(*members: Member) -> Group:
    return Group("g", members={each.member_id: each for each in members})


def changed(name: str, **fields: object) -> Member:
    return msgspec.structs.replace(member(name, "a"), **fields)


def test_everybody_joined_when_all_members_wait_for_the_answer_and_no_given_id_is_left() -> None:
    waiting, late = changed("waiting", join_ticket=0), changed("late")
    assert group_of(waiting).everybody_joined
    assert not group_of(waiting, late).everybody_joined
    given = frozenset({"given"})
    assert not msgspec.structs.replace(group_of(waiting), pending=given).everybody_joined


def test_certain_are_members_that_joined_and_static_members() -> None:
    joined, static = changed("joined", join_ticket=0), changed("static", instance_id="one")
    both = changed("both", join_ticket=1, instance_id="two")
    assert group_of(joined, static, both, changed("late")).certain_members == 3


def test_a_group_awaits_the_sync_of_any_member_that_must() -> None:
    assert group_of(changed("m"), changed("n", must_sync=True)).awaits_syncs
    assert not group_of(changed("m")).awaits_syncs


def test_a_rebalance_takes_as_long_as_the_slowest_member_may() -> None:
    quick, slow = changed("quick", rebalance_timeout_ms=5), changed("slow", rebalance_timeout_ms=9)
    assert group_of(slow, quick).rebalance_timeout_ms == 9
    assert group_of().rebalance_timeout_ms == 0


def test_what_a_member_and_a_given_id_are_charged() -> None:
    """The id counts twice: it is a key of the group's members, too."""
    protocols = (Protocol("range", b"1234"), Protocol("sticky", b"12"))
    plain = Member("id", None, "client", "/host", 1, 1, protocols, assignment=b"123")
    texts = len("idid" + "client" + "/host" + "range" + "1234" + "sticky" + "12" + "123")
    assert member_bytes(plain) == MEMBER_OVERHEAD_BYTES + texts
    assert member_bytes(msgspec.structs.replace(plain, instance_id="one")) == member_bytes(plain) + 3
    group = Group("g", members_bytes=70, pending=frozenset({"a", "b"}))
    assert group.charged_bytes == 70 + 2 * PENDING_MEMBER_BYTES


@pytest.mark.parametrize(
    ("member_id", "instance_id", "error"),
    [
        ("static", "one", None),
        ("plain", None, None),
        ("static", None, None),
        ("nobody", None, ErrorCode.UNKNOWN_MEMBER_ID),
        ("nobody", "other", ErrorCode.UNKNOWN_MEMBER_ID),
        ("plain", "other", ErrorCode.UNKNOWN_MEMBER_ID),
        ("nobody", "one", ErrorCode.FENCED_INSTANCE_ID),
        ("plain", "one", ErrorCode.FENCED_INSTANCE_ID),
    ],
)
def test_who_is_a_member(member_id: str, instance_id: str | None, error: ErrorCode | None) -> None:
    group = group_of(changed("plain"), changed("static", instance_id="one"))
    assert membership_error(group, member_id, instance_id) == error


def test_the_metadata_is_that_of_the_protocol_and_empty_for_another() -> None:
    both = Member("m", None, "c", "/h", 1, 1, (Protocol("a", b"1"), Protocol("b", b"2")))
    assert [both.metadata_of(name) for name in ("a", "b", "c", None)] == [b"1", b"2", b"", b""]
    assert both.supports("b") and not both.supports("c")


def test_what_is_left_out() -> None:
    assert numbers_left_out(Member).items() >= {"is_new": False, "must_sync": False}.items()
    assert numbers_left_out(InitialDelay) == {"newcomers": False}
    assert (
        numbers_left_out(Group).items()
        >= {"generation": 0, "members_bytes": 0, "state_since_ms": -1, "is_saved": False}.items()
    )
