"""Groups under whatever anybody may ask, in any order, with stale ids and generations, and time passing in between.

The requests are drawn without regard to what a client would do next; what must hold is held against the group after
each.
"""

from collections import defaultdict
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from siltstone.broker.groups.offsets_log.record import CommittedOffset
from siltstone.broker.groups.rules.decision import JOIN_TIMER, SYNC_TIMER, GroupDecision
from siltstone.broker.groups.rules.group import Protocol, member_bytes
from siltstone.broker.groups.rules.requests import (
    Assigned,
    Commit,
    DeleteGroup,
    DeleteOffsets,
    ExpireOffsets,
    ForgetOffsets,
    Heartbeat,
    Joined,
    Leave,
    LeavingMember,
    MemberIdGiven,
    OffsetToCommit,
    Sync,
    TimerKind,
)
from siltstone.broker.groups.rules.states import GroupState
from siltstone.broker.groups.settings import GroupSettings
from siltstone.kafka_protocol.error_code import ErrorCode
from support.groups.consumer_bytes import subscription
from support.groups.group_world import START_MS, GroupWorld, join
from support.values.examples import examples

SETTINGS = GroupSettings(
    group_initial_rebalance_delay_ms=3_000, group_max_size=4, new_member_join_timeout_ms=50_000
)
PROTOCOLS = [
    (Protocol("range", subscription("flights")),),
    (Protocol("range", subscription("planes")), Protocol("sticky", b"not a subscription")),
    (Protocol("sticky", subscription("flights", "planes")), Protocol("range", subscription("flights"))),
    (Protocol("sticky", b""),),
    (),
]
INSTANCES = ("desk", "shelf")


class Checked(GroupWorld):
    """A world that is held against the invariants after every decision."""

    def __init__(self) -> None:
        super().__init__(SETTINGS)
        self.ids: list[str] = []
        self.instance_of: dict[str, str | None] = {}
        self.generations: list[int] = [0]
        self.leaders_told: dict[int, set[str]] = defaultdict(set)
        self.assigned: dict[tuple[int, str], bytes] = {}
        self.asked_by: dict[int, str] = {}
        self.made = 0

    def do_something(self, rng: Random) -> None:
        """Mostly what makes sense to somebody, now and then what does not."""
        actions = [self._join, self._sync, self._beat, self._leave, self._commit, self._pass, self._others]
        rng.choices(actions, weights=[8, 10, 2, 1, 2, 3, 1])[0](rng)

    def _somebody(self, rng: Random) -> str:
        present = [*self.group.members, *sorted(self.group.pending)]
        if present and rng.random() < 0.9:
            return rng.choice(present)
        return rng.choice([*self.ids, "nobody"])

    def _generation(self, rng: Random) -> int:
        return self.group.generation - (rng.random() < 0.1)

    def _join(self, rng: Random) -> None:
        self.made += 1
        new = f"m{self.made}"
        member_id = self._somebody(rng) if rng.random() < 0.7 else ""
        instance = rng.choice([None, None, *INSTANCES])
        if member_id and rng.random() < 0.95:
            instance = self.instance_of.get(member_id)
        known = self.group.members.get(member_id)
        if known is None and instance is not None:
            known = self.group.static_member(instance)
        keeps = known is not None and rng.random() < 0.6
        protocols = (
            known.protocols if known is not None and keeps else rng.choices(PROTOCOLS, [6, 3, 3, 1, 1])[0]
        )
        self.ask(
            join(
                member_id, new=new, instance=instance, protocols=protocols,
                takes_member_id=rng.random() < 0.5, can_skip_assignment=rng.random() < 0.5,
            )
        )  # fmt: skip
        if new in self.group.members or new in self.group.pending:
            self.ids.append(new)
            self.instance_of[new] = instance

    def _sync(self, rng: Random) -> None:
        leader_id = self.group.leader_id if rng.random() < 0.4 else None
        member_id, generation = leader_id or self._somebody(rng), self._generation(rng)
        given = {name: f"{generation}:{name}:{self.made}".encode() for name in self.group.members}
        assignments = given if rng.random() < 0.8 else {}
        self.ask(Sync(member_id, self.instance_of.get(member_id), generation, assignments=assignments))

    def _beat(self, rng: Random) -> None:
        member_id, generation = self._somebody(rng), self._generation(rng)
        ticket = self.ask(Heartbeat(member_id, self.instance_of.get(member_id), generation))
        if self.answers[ticket] is ErrorCode.NONE:
            assert member_id in self.group.members and generation == self.group.generation
            assert self.group.state in {GroupState.COMPLETING, GroupState.STABLE}

    def _leave(self, rng: Random) -> None:
        leaving = [self._somebody(rng) for _ in range(rng.choice([1, 1, 2]))]
        self.ask(Leave(tuple(LeavingMember(name, self.instance_of.get(name)) for name in leaving)))
        assert not set(leaving) & (self.group.members.keys() | self.group.pending)

    def _commit(self, rng: Random) -> None:
        member_id = self._somebody(rng) if rng.random() < 0.8 else ""
        generation = self._generation(rng) if member_id else -1
        offset = OffsetToCommit("flights", 0, 5, -1, "")
        before = len(self.records)
        ticket = self.ask(Commit(member_id, self.instance_of.get(member_id), generation, (offset,)))
        is_taken = len(self.records) > before
        assert is_taken is not isinstance(self.answers[ticket], ErrorCode)
        if is_taken:
            assert member_id in self.group.members or self.group.state is GroupState.EMPTY

    def _pass(self, rng: Random) -> None:
        """Mostly members beat meanwhile: else few groups would ever be stable."""
        for _ in range(rng.choice([1, 1, 2, 4, 12])):
            self.pass_ms(rng.choice([1, 3_000, 6_000]))
            if rng.random() < 0.9:
                for name, member in list(self.group.members.items()):
                    if member.join_ticket is None and member.sync_ticket is None:
                        self.ask(Heartbeat(name, member.instance_id, self.group.generation))

    def _others(self, rng: Random) -> None:
        what = rng.choice(["delete", "expire", "delete offsets", "topic deleted"])
        if what == "expire":
            committed = {("flights", 0): CommittedOffset(1, -1, "", START_MS)}
            self.tell(ExpireOffsets(committed))
        elif what == "topic deleted":
            self.tell(ForgetOffsets((("flights", 0),)))
        elif what == "delete offsets":
            self.ask(DeleteOffsets((("flights", 0),), frozenset()))
        elif self.group.state is not GroupState.EMPTY:
            assert self.answer(DeleteGroup(())) is ErrorCode.NON_EMPTY_GROUP

    def _perform(self, decision: GroupDecision) -> None:
        super()._perform(decision)
        self._check()

    # -- what holds --------------------------------------------------------------------------------------

    def _check(self) -> None:
        self._check_nobody_is_forgotten()
        self._check_timers()
        self._check_state()
        self._check_answers()

    def _check_nobody_is_forgotten(self) -> None:
        """Every request that waits belongs to one member, and there is a timer that will end its wait."""
        members = self.group.members.values()
        joins = [member.join_ticket for member in members if member.join_ticket is not None]
        syncs = [member.sync_ticket for member in members if member.sync_ticket is not None]
        assert sorted(joins + syncs) == sorted(self.waiting)
        assert not joins or JOIN_TIMER in self.timers
        assert not syncs or SYNC_TIMER in self.timers

    def _check_timers(self) -> None:
        sessions = {timer.member_id for timer in self.timers if timer.kind is TimerKind.SESSION}
        assert sessions == self.group.members.keys() | self.group.pending
        assert (JOIN_TIMER in self.timers) is (self.group.state is GroupState.PREPARING)
        awaits_syncs = self.group.awaits_syncs or self.group.state is GroupState.COMPLETING
        assert (SYNC_TIMER in self.timers) is awaits_syncs

    def _check_state(self) -> None:
        group = self.group
        members = group.members.values()
        assert group.members_bytes == sum(map(member_bytes, members))
        assert not group.pending & group.members.keys()
        instances = [member.instance_id for member in members if member.instance_id is not None]
        assert len(instances) == len(set(instances))
        assert (not members) == (group.state is GroupState.EMPTY) or group.state is GroupState.PREPARING
        assert (group.initial is None) or group.state is GroupState.PREPARING
        if group.state in {GroupState.COMPLETING, GroupState.STABLE}:
            assert group.leader_id in group.members
            assert all(member.supports(group.protocol_name or "") for member in members)
            assert len(members) <= SETTINGS.group_max_size
        if group.generation != self.generations[-1]:
            assert group.generation == self.generations[-1] + 1
            self.generations.append(group.generation)

    def _check_answers(self) -> None:
        """One leader assigns a generation; nobody gets two assignments in one."""
        for answer in self.answers.values():
            if isinstance(answer, Joined) and answer.members and not answer.skip_assignment:
                self.leaders_told[answer.generation].add(answer.member_id)
        assert all(len(told) == 1 for told in self.leaders_told.values())
        if self.group.state is GroupState.STABLE:
            for member in self.group.members.values():
                place = member.instance_id or member.member_id
                given = self.assigned.setdefault((self.group.generation, place), member.assignment)
                assert given == member.assignment


@settings(max_examples=examples(40))
@given(st.integers(0, 2**32))
def test_whatever_is_asked(seed: int) -> None:
    world, rng = Checked(), Random(seed)
    for _ in range(200):
        world.do_something(rng)
    world.pass_ms(10_000_000)
    assert not world.waiting
    assert world.group.state is GroupState.EMPTY and not world.timers


@settings(max_examples=examples(60))
@given(
    st.lists(
        st.tuples(st.sampled_from(["join", "leave", "pass", "stall"]), st.integers(0, 3)),
        max_size=25,
    )
)
def test_well_behaved_members_end_up_with_one_assignment_each(happenings: list[tuple[str, int]]) -> None:
    """Clients join, leave, and are silent for a while. When nothing more happens, the group of the remaining members is
    stable, and each member has what its leader assigned to it in the newest generation."""
    world = Checked()
    clients: list[Client] = []
    for what, number in happenings:
        if what == "join" and len(clients) < SETTINGS.group_max_size:
            clients.append(Client(world))
        elif what == "leave" and clients:
            clients.pop(number % len(clients)).leave()
        elif what == "stall" and clients:
            clients[number % len(clients)].stalls_until_ms = world.now_ms + 15_000
        for _ in range(10 if what == "pass" else 1):
            settle(world, clients)
    for _ in range(200):
        settle(world, clients)
    assert world.group.members.keys() == {client.member_id for client in clients}
    if clients:
        assert world.group.state is GroupState.STABLE
        assert {client.generation for client in clients} == {world.group.generation}
        assert all(
            client.assignment == f"{world.group.generation}:{client.member_id}".encode() for client in clients
        )


def settle(world: "Checked", clients: "list[Client]") -> None:
    for client in clients:
        client.act()
    world.pass_ms(1_000)


class Client:
    """Does what answers say, a step at a time."""

    def __init__(self, world: Checked) -> None:
        self.world = world
        self.member_id = ""
        self.generation = -1
        self.assignment: bytes | None = None
        self.ticket: int | None = None
        self.stalls_until_ms = 0

    def act(self) -> None:
        if self.world.now_ms < self.stalls_until_ms:
            return
        if self.ticket is None:
            self._ask()
        elif self.ticket in self.world.answers:
            ticket, self.ticket = self.ticket, None
            self._hear(self.world.answers[ticket])

    def leave(self) -> None:
        if self.member_id:
            self.world.ask(Leave((LeavingMember(self.member_id),)))

    def _ask(self) -> None:
        if self.assignment is not None:
            self.ticket = self.world.ask(Heartbeat(self.member_id, None, self.generation))
        elif self.generation < 0:
            self.world.made += 1
            new = f"m{self.world.made}"
            self.ticket = self.world.ask(join(self.member_id, new=new, takes_member_id=True))

    def _hear(self, answer: Any) -> None:
        match answer:
            case MemberIdGiven(member_id):
                self.member_id = member_id
                self._ask()
            case Joined():
                self.member_id, self.generation = answer.member_id, answer.generation
                names = [member.member_id for member in answer.members]
                given = {name: f"{answer.generation}:{name}".encode() for name in names}
                self.ticket = self.world.ask(Sync(self.member_id, None, self.generation, assignments=given))
            case Assigned():
                self.assignment = answer.assignment
            case ErrorCode.NONE:
                pass
            case ErrorCode.UNKNOWN_MEMBER_ID:
                self.member_id, self.generation, self.assignment = "", -1, None
            case ErrorCode.REBALANCE_IN_PROGRESS | ErrorCode.ILLEGAL_GENERATION:
                self.generation, self.assignment = -1, None
            case _:
                raise AssertionError(answer)
