"""The table of retention: for each kind of group, which offsets go and counted from when."""

import pytest

from siltstone.broker.groups.offsets_log.record import CommittedOffset
from siltstone.broker.groups.rules.group import Group
from siltstone.broker.groups.rules.offset_steps import all_expire, expired_offsets
from siltstone.broker.groups.rules.requests import ExpireOffsets
from siltstone.broker.groups.rules.states import GroupState
from siltstone.broker.groups.settings import GroupSettings

SETTINGS = GroupSettings(offsets_retention_minutes=1)
NOW = 1_000_000
OLD, YOUNG = NOW - 60_000, NOW - 59_999
FLIGHTS = frozenset({"flights"})


def group(
    state: str, *, type_: str | None = "consumer", since: int = OLD, topics: frozenset[str] | None = FLIGHTS
) -> Group:
    return Group(
        "g", state=GroupState(state), protocol_type=type_, state_since_ms=since, subscribed_topics=topics
    )


def committed(committed_ms: int, expires_ms: int | None = None) -> CommittedOffset:
    return CommittedOffset(1, -1, "", committed_ms, expires_ms)


@pytest.mark.parametrize(
    ("of", "offset", "expires"),
    [
        # empty, had members: from the moment it became empty, or the commit if later
        (group("Empty", since=OLD), committed(OLD), True),
        (group("Empty", since=YOUNG), committed(0), False),
        (group("Empty", since=0), committed(YOUNG), False),
        (group("Empty", since=-1), committed(OLD), True),
        (group("Empty", type_="connect", topics=None), committed(OLD), True),
        # simple: from the commit
        (group("Empty", type_=None, since=YOUNG, topics=None), committed(OLD), True),
        (group("Empty", type_=None, since=0, topics=None), committed(YOUNG), False),
        # stable and topics known: what nobody subscribes to
        (group("Stable"), committed(0), False),
        (group("Stable", topics=frozenset({"planes"})), committed(OLD), True),
        (group("Stable", topics=frozenset({"planes"})), committed(YOUNG), False),
        # anything else: never
        (group("Stable", topics=None), committed(0), False),
        (group("Stable", type_="connect", topics=None), committed(0), False),
        (group("PreparingRebalance", topics=frozenset()), committed(0), False),
        (group("CompletingRebalance", topics=frozenset()), committed(0), False),
        # a time of its own
        (group("Empty", since=0), committed(0, expires_ms=NOW), True),
        (group("Empty", since=0), committed(0, expires_ms=NOW + 1), False),
        (group("Stable"), committed(0, expires_ms=1), False),
    ],
)  # fmt: skip
def test_retention_table(of: Group, offset: CommittedOffset, expires: bool) -> None:
    request = ExpireOffsets({("flights", 0): offset})
    assert list(expired_offsets(of, request, NOW, SETTINGS)) == ([("flights", 0)] if expires else [])


@pytest.mark.parametrize(
    ("of", "times", "expected"),
    [
        (group("Empty", since=0), [], True),
        (group("Empty", since=0), [OLD, OLD], True),
        (group("Empty", since=0), [OLD, YOUNG], False),
        (group("Stable", topics=frozenset()), [OLD], False),
        (Group("g", pending=frozenset({"m"})), [], False),
    ],
)
def test_a_group_goes_when_nothing_is_left_of_it(of: Group, times: list[int], expected: bool) -> None:
    request = ExpireOffsets({("flights", number): committed(at) for number, at in enumerate(times)})
    assert all_expire(of, request, NOW, SETTINGS) is expected
