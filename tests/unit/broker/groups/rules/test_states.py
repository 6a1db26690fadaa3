"""The table: every row is met by a request, leads where it says, and nothing in it is unused."""

from collections.abc import Callable

import pytest

from siltstone.broker.groups.offsets_log.record import LogProducer
from siltstone.broker.groups.rules.deciding import STEPS, decide, event_of
from siltstone.broker.groups.rules.decision import AnswerTo
from siltstone.broker.groups.rules.group import Group, Protocol
from siltstone.broker.groups.rules.requests import (
    Close,
    Commit,
    CommitInTransaction,
    DeleteGroup,
    DeleteOffsets,
    ExpireOffsets,
    ForgetOffsets,
    GroupTimer,
    Heartbeat,
    Leave,
    LeavingMember,
    MoveOffsets,
    OffsetToCommit,
    Request,
    Sync,
    TimerKind,
    TimerRang,
)
from siltstone.broker.groups.rules.states import TABLE, GroupEvent, GroupState, Rule, Step
from support.groups.consumer_bytes import subscription
from support.groups.group_world import NO_DELAY, GroupWorld, join, stable

TICKET = 1_000
OTHER_TOPIC = (Protocol("range", subscription("planes")),)
Situation = tuple[Group, Request]


def group_in(state: GroupState) -> Group:
    """Leader L, follower F, static member T; N has an id and has not joined."""
    world = stable("L", "F", "T", static=("T",))
    if state is GroupState.EMPTY:
        world.pass_ms(10_000_000)
    elif state is GroupState.PREPARING:
        world.rejoin("L")
    elif state is GroupState.COMPLETING:
        for name in ("L", "F", "T"):
            world.rejoin(name)
    world.ask(join(new="N", takes_member_id=True))
    assert world.group.state is state
    return world.group


def deserted(*names: str, static: tuple[str, ...] = ()) -> Group:
    """The join phase, in which none of them has joined: X left."""
    world = stable("X", *names, static=static)
    world.leave("X")
    return world.group


def with_newcomers(_: GroupState) -> Group:
    world = GroupWorld()
    world.ask(join(new="A"))
    world.ask(join(new="B"))
    return world.group


def waiting(state: GroupState) -> Group:
    """F has a request that waits."""
    world = GroupWorld(group=group_in(state))
    world.ask(join("F")) if state is GroupState.PREPARING else world.ask(world.sync("F"))
    return world.group


def on(request: Callable[[Group], Request], group: Callable[[GroupState], Group] = group_in):
    def situation(state: GroupState) -> Situation:
        made = group(state)
        return made, request(made)

    return situation


def of_type_connect(state: GroupState) -> Group:
    world = GroupWorld()
    world.ask(join(new="L", protocol_type="connect"))
    world.pass_ms(0)
    if state is GroupState.STABLE:
        world.all_sync()
    elif state is not GroupState.COMPLETING:
        world.all_sync()
        world.ask(join(new="M", protocol_type="connect"))
        if state is GroupState.EMPTY:
            world.pass_ms(10_000_000)
    assert world.group.state is state
    return world.group


def timer(kind: TimerKind, member_id: str = "") -> Request:
    return TimerRang(GroupTimer(kind, member_id))


OFFSETS = (OffsetToCommit("flights", 0, 5, -1, ""),)

SITUATIONS: dict[GroupEvent, Callable[[GroupState], Situation]] = {
    GroupEvent.MEMBER_ID_WANTED: on(lambda _: join(takes_member_id=True)),
    GroupEvent.MEMBER_JOINS: on(lambda _: join()),
    GroupEvent.FOLLOWER_REJOINS: on(lambda _: join("F")),
    GroupEvent.LEADER_REJOINS: on(lambda _: join("L")),
    GroupEvent.MEMBER_REJOINS_CHANGED: on(lambda _: join("F", protocols=OTHER_TOPIC)),
    GroupEvent.STATIC_MEMBER_RETURNS: on(lambda _: join(instance="T")),
    GroupEvent.STATIC_MEMBER_RETURNS_CHANGED: on(lambda _: join(instance="T", protocols=OTHER_TOPIC)),
    GroupEvent.NEWCOMERS_DURING_DELAY: on(lambda _: timer(TimerKind.JOIN), with_newcomers),
    GroupEvent.JOIN_ENDS: on(lambda _: timer(TimerKind.JOIN)),
    GroupEvent.JOIN_ENDS_DESERTED: on(
        lambda _: timer(TimerKind.JOIN), lambda _: deserted("F", "T", static=("T",))
    ),
    GroupEvent.JOIN_ENDS_WITHOUT_MEMBERS: on(lambda _: timer(TimerKind.JOIN), lambda _: deserted("F")),
    GroupEvent.FOLLOWER_SYNCS: on(lambda group: Sync("F", None, group.generation)),
    GroupEvent.LEADER_SYNCS: on(lambda group: Sync("L", None, group.generation, assignments={"F": b"f"})),
    GroupEvent.SYNC_TIME_ENDS: on(lambda _: timer(TimerKind.SYNC)),
    GroupEvent.MEMBER_BEATS: on(lambda group: Heartbeat("F", None, group.generation)),
    GroupEvent.WAITING_MEMBER_IS_SILENT: on(lambda _: timer(TimerKind.SESSION, "F"), waiting),
    GroupEvent.MEMBERS_GO: on(lambda _: Leave((LeavingMember("F"),))),
    GroupEvent.NEWCOMERS_GO: on(lambda _: timer(TimerKind.SESSION, "N")),
    GroupEvent.MEMBER_COMMITS: on(lambda group: Commit("F", None, group.generation, OFFSETS)),
    GroupEvent.OUTSIDER_COMMITS: on(lambda _: Commit("", None, -1, OFFSETS)),
    GroupEvent.COMMITTED_IN_TRANSACTION: on(
        lambda _: CommitInTransaction("", None, -1, OFFSETS, LogProducer(1, 0))
    ),
    GroupEvent.OFFSETS_DELETED: on(lambda _: DeleteOffsets((("flights", 0),), frozenset())),
    GroupEvent.OFFSETS_DELETED_OF_OTHER_TYPE: on(
        lambda _: DeleteOffsets((("flights", 0),), frozenset()), of_type_connect
    ),
    GroupEvent.OFFSETS_EXPIRE: on(lambda _: ExpireOffsets({})),
    GroupEvent.LAST_OFFSET_EXPIRES: on(
        lambda _: ExpireOffsets({}), lambda state: Group("g", state=state, is_saved=True)
    ),
    GroupEvent.OFFSETS_OUTLIVED: on(lambda _: MoveOffsets({("flights", 0): 5}, {}, spares_members=True)),
    GroupEvent.BACKLOG_EVICTED: on(lambda _: MoveOffsets({("flights", 0): 5}, {}, spares_members=False)),
    GroupEvent.TOPIC_DELETED: on(lambda _: ForgetOffsets((("flights", 0),))),
    GroupEvent.GROUP_DELETED: on(lambda _: DeleteGroup(())),
    GroupEvent.COORDINATOR_CLOSES: on(lambda _: Close()),
}
ROWS = [
    pytest.param(event, state, rule, id=f"{event.name}-{state.name}")
    for event, rules in TABLE.items()
    for state, rule in rules.items()
]


@pytest.mark.parametrize(("event", "state", "rule"), ROWS)
def test_every_row_is_met_and_leads_where_it_says(event: GroupEvent, state: GroupState, rule: Rule) -> None:
    group, request = SITUATIONS[event](state)
    assert group.state is state
    assert event_of(group, request, 0, NO_DELAY) is event
    decision = decide(group, request, TICKET, 7, NO_DELAY)
    assert decision.group.state is rule.to
    if rule.to is not state:
        assert decision.group.state_since_ms == 7
    if rule.refusal is not None:
        assert decision.actions == (AnswerTo(TICKET, rule.refusal),)
        assert decision.group == group and decision.records == ()


def test_every_event_has_rules_and_every_step_is_used_and_done() -> None:
    assert set(TABLE) == set(GroupEvent)
    used = {step for rules in TABLE.values() for rule in rules.values() for step in rule.steps}
    assert used == set(Step) == set(STEPS)


def test_states_can_be_reached_from_one_another_as_in_kafka() -> None:
    ways = {(state, rule.to) for rules in TABLE.values() for state, rule in rules.items()}
    e, p, c, s, dead = GroupState
    assert ways - {(state, state) for state in GroupState} == {
        (e, p), (p, c), (p, e), (c, s), (c, p), (s, p), (e, dead), (p, dead), (c, dead), (s, dead),
    }  # fmt: skip


@pytest.mark.parametrize("event", GroupEvent)
def test_nothing_happens_to_the_dead(event: GroupEvent) -> None:
    assert GroupState.DEAD not in TABLE[event]
