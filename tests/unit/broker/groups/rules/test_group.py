"""Questions to a group: who fits, which protocol is elected, what is subscribed to."""

import pytest

from siltstone.broker.groups.rules.group import (
    Group,
    Member,
    Protocol,
    can_work_with,
    elected_protocol,
    subscribed_topics,
)
from support.groups.consumer_bytes import subscription


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
