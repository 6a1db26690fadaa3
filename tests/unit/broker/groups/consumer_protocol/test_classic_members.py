"""Members of the classic protocol in a group of KIP-848, one request after the other (scenarios NG)."""

from siltstone.broker.groups.consumer_protocol.embedded import read_assignment
from siltstone.broker.groups.consumer_protocol.group import MemberState
from siltstone.broker.groups.offsets_log.record import LogProducer
from siltstone.broker.groups.rules.group import Protocol
from siltstone.broker.groups.rules.requests import (
    Answer,
    Assigned,
    BeatAnswer,
    Commit,
    CommitInTransaction,
    GroupTimer,
    Heartbeat,
    Join,
    Joined,
    MemberIdGiven,
    OffsetErrors,
    OffsetToCommit,
    Sync,
    TimerKind,
)
from siltstone.broker.groups.settings import GroupSettings
from siltstone.kafka_protocol.error_code import ErrorCode
from support.groups.consumer_bytes import subscription
from support.groups.consumer_world import REBALANCE_MS, ConsumerWorld

SESSION_MS = 10_000


def join(
    world: ConsumerWorld,
    member_id: str = "C",
    *,
    owned: dict[str, list[int]] | None = None,
    names: tuple[str, ...] = ("range",),
    kind: str = "consumer",
    instance_id: str | None = None,
    metadata: bytes | None = None,
) -> Answer | None:
    said = subscription("t", owned=owned) if metadata is None else metadata
    return world.ask(
        Join(
            member_id=member_id,
            instance_id=instance_id,
            client_id="client",
            client_host="/127.0.0.1",
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            protocol_type=kind,
            protocols=tuple(Protocol(name, said) for name in names),
            new_member_id="new",
        )
    )


def sync(world: ConsumerWorld, generation: int, name: str = "range", member_id: str = "C") -> Answer | None:
    return world.ask(Sync(member_id, None, generation, "consumer", name))


def beat(world: ConsumerWorld, generation: int, member_id: str = "C") -> Answer | None:
    return world.ask(Heartbeat(member_id, None, generation))


def joined(member_id: str, generation: int) -> Joined:
    return Joined(member_id, generation, "consumer", "range", leader_id="")


def assigned_in(answer: Answer | None) -> set[int]:
    assert isinstance(answer, Assigned)
    found = read_assignment(answer.assignment)
    assert found is not None
    return {number for _, number in found}


def test_ng18_a_classic_member_gets_what_the_others_have_given_back() -> None:
    world = ConsumerWorld(t=4)
    world.join("A")
    assert join(world) == joined("C", 2)
    assert world.member("C").state is MemberState.UNRELEASED
    assert assigned_in(sync(world, 2)) == set()
    assert beat(world, 2) is ErrorCode.NONE, "it has nothing to join for while A has not given back"
    told = world.beat("A", 1)
    assert isinstance(told, BeatAnswer) and told.assigned is not None and len(told.assigned) == 2
    assert beat(world, 2) is ErrorCode.NONE
    world.beat("A", 1, owned=told.assigned)
    assert beat(world, 2) is ErrorCode.REBALANCE_IN_PROGRESS
    assert join(world) == joined("C", 2)
    mine = assigned_in(sync(world, 2))
    assert mine | {number for _, number in told.assigned} == {0, 1, 2, 3} and len(mine) == 2
    assert beat(world, 2) is ErrorCode.NONE


def test_ng18_a_cooperative_member_gives_back_by_joining_again() -> None:
    world = ConsumerWorld(t=4)
    world.join("A")
    world.beat("A", -1)
    world.join("A")
    join(world)
    told = world.beat("A", 3)
    assert isinstance(told, BeatAnswer)
    world.beat("A", 3, owned=told.assigned)
    join(world)
    generation = world.member("C").epoch
    mine = sorted(assigned_in(sync(world, generation)))
    world.join("B")
    assert beat(world, generation) is ErrorCode.REBALANCE_IN_PROGRESS
    join(world, owned={"t": mine})
    member = world.member("C")
    assert member.state is MemberState.UNREVOKED and member.epoch == generation
    assert GroupTimer(TimerKind.REVOCATION, "C") not in world.timers, "it has the time for joining"
    kept = assigned_in(sync(world, generation))
    assert kept < set(mine) and beat(world, generation) is ErrorCode.REBALANCE_IN_PROGRESS
    assert join(world, owned={"t": sorted(kept)}) == joined("C", world.group.epoch)
    assert world.member("C").state is MemberState.STABLE


def test_ng18_a_member_waits_until_all_that_it_is_to_have_is_free() -> None:
    world = ConsumerWorld(t=6)
    world.join("A")
    world.join("B")
    for _ in range(3):
        for name in ("A", "B"):
            owned = frozenset(world.member(name).assigned)
            world.beat(name, world.member(name).epoch, owned=owned)
    join(world)
    sync(world, 3)
    for name, told in (("A", ErrorCode.NONE), ("B", ErrorCode.REBALANCE_IN_PROGRESS)):
        world.beat(name, 2)
        world.beat(name, 2, owned=frozenset(world.member(name).assigned))
        assert beat(world, 3) is told


def test_ng18_a_member_that_does_not_join_or_sync_in_time_is_removed() -> None:
    world = ConsumerWorld(GroupSettings(group_consumer_session_timeout_ms=10**9), t=4)
    world.join("A")
    join(world)
    for _ in range(REBALANCE_MS // 5_000):  # its heartbeats go on
        assert "C" in world.group.members
        beat(world, 2)
        world.let_pass(5_000)
    assert set(world.group.members) == {"A"}
    join(world)
    generation = world.member("C").epoch
    sync(world, generation)
    world.join("B")
    for _ in range(REBALANCE_MS // 5_000):
        assert beat(world, generation) is ErrorCode.REBALANCE_IN_PROGRESS
        world.let_pass(5_000)
    assert set(world.group.members) == {"A", "B"}


def test_ng18_a_silent_classic_member_is_removed_after_its_own_session_timeout() -> None:
    world = ConsumerWorld(t=4)
    world.join("A")
    join(world)
    world.let_pass(SESSION_MS - 1)
    assert "C" in world.group.members
    world.let_pass(1)
    assert set(world.group.members) == {"A"}


def test_who_may_join() -> None:
    world = ConsumerWorld(
        GroupSettings(group_consumer_max_size=3, group_consumer_assignment_interval_ms=0), t=4
    )
    world.join("A")
    refused = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert join(world, kind="connect") is refused
    assert join(world, names=()) is refused
    assert join(world, metadata=b"\x00") is refused
    assert join(world, "") == MemberIdGiven("new") and "new" not in world.group.members
    assert join(world, owned={"t": [0]}) is ErrorCode.UNKNOWN_MEMBER_ID, "it has lost its partitions"
    assert isinstance(join(world, names=("range", "sticky")), Joined)
    assert join(world, "D", names=("roundrobin",)) is refused
    assert isinstance(join(world, "D", names=("roundrobin", "sticky")), Joined)
    assert join(world, "E", names=("sticky",)) is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_who_may_sync_and_beat() -> None:
    world = ConsumerWorld(t=4)
    world.join("A")
    join(world)
    assert sync(world, 1) is beat(world, 1) is ErrorCode.ILLEGAL_GENERATION
    assert sync(world, 2, member_id="A") is beat(world, 2, "A") is ErrorCode.UNKNOWN_MEMBER_ID
    assert sync(world, 2, member_id="X") is beat(world, 2, "X") is ErrorCode.UNKNOWN_MEMBER_ID
    assert sync(world, 2, "sticky") is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    world.join("B")
    assert sync(world, 2) is ErrorCode.REBALANCE_IN_PROGRESS


def test_ng18_a_static_member_changes_its_protocol_and_keeps_its_partitions() -> None:
    world = ConsumerWorld(t=4)
    world.join("A")
    assert join(world, "", instance_id="desk") == joined("new", 2)
    told = world.beat("A", 1)
    assert isinstance(told, BeatAnswer)
    world.beat("A", 1, owned=told.assigned)
    join(world, "new", instance_id="desk")
    had = set(world.member("new").assigned)
    assert len(had) == 2
    assert join(world, "other", instance_id="desk") is ErrorCode.FENCED_INSTANCE_ID
    answer = world.join("B", instance_id="desk")
    assert isinstance(answer, BeatAnswer) and answer.assigned == had and "new" not in world.group.members
    assert beat(world, 2, "new") is ErrorCode.UNKNOWN_MEMBER_ID
    assert world.group.epoch == 2, "nobody else is disturbed"


def test_ng15_commits_of_classic_members() -> None:
    world = ConsumerWorld(t=4)
    world.join("A")
    join(world)
    offsets = [OffsetToCommit("t", 0, 3, -1, "")]

    def commit(generation: int, *, knows_epochs: bool = False) -> Answer | None:
        return world.ask(Commit("C", None, generation, offsets, knows_epochs=knows_epochs))

    assert commit(2) == OffsetErrors((ErrorCode.NONE,))
    assert commit(1, knows_epochs=True) == OffsetErrors((ErrorCode.ILLEGAL_GENERATION,))
    assert commit(3) is ErrorCode.ILLEGAL_GENERATION
    told = world.ask(CommitInTransaction("C", None, 1, offsets, LogProducer(7, 0)))
    assert told is ErrorCode.ILLEGAL_GENERATION
