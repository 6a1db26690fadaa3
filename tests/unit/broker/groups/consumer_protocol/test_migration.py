"""A group with members changes from the classic protocol to that of KIP-848, and back (NG18, NG19)."""

import msgspec
import pytest

from siltstone.broker.groups.consumer_protocol.embedded import read_assignment, written_assignment
from siltstone.broker.groups.consumer_protocol.group import ConsumerGroup
from siltstone.broker.groups.offsets_log.consumer_records import EpochRecord
from siltstone.broker.groups.offsets_log.record import GroupRecord
from siltstone.broker.groups.rules.group import Group
from siltstone.broker.groups.rules.requests import BeatAnswer, GroupTimer, TimerKind
from siltstone.broker.groups.rules.states import GroupState
from siltstone.broker.groups.settings import GroupSettings, MigrationPolicy
from siltstone.kafka_protocol.error_code import ErrorCode
from support.groups.classic_member import COOPERATIVE, EAGER, SESSION_MS, PlainClassicMember
from support.groups.consumer_world import AT_ONCE, ConsumerWorld


def classic_pair(
    settings: GroupSettings = AT_ONCE, protocol: str = EAGER
) -> tuple[ConsumerWorld, list[PlainClassicMember]]:
    """A stable classic group of two members with two partitions each."""
    world = ConsumerWorld(settings, t=4)
    members = [PlainClassicMember(world, name, ("t",), protocol) for name in ("x", "y")]
    settle(world, *members)
    assert isinstance(world.any_group, Group) and world.any_group.state is GroupState.STABLE
    assert [len(member.owned) for member in members] == [2, 2]
    return world, members


def settle(world: ConsumerWorld, *members: PlainClassicMember) -> None:
    for _ in range(12):
        for member in members:
            member.step()
        world.let_pass(1_000)


def with_policy(policy: MigrationPolicy) -> GroupSettings:
    return msgspec.structs.replace(AT_ONCE, group_consumer_migration_policy=policy)


@pytest.mark.parametrize("protocol", [EAGER, COOPERATIVE])
def test_ng18_the_group_changes_with_the_first_new_member_and_the_others_go_on(protocol: str) -> None:
    world, (x, y) = classic_pair(protocol=protocol)
    generation, owned = x.generation, {**dict.fromkeys(x.owned, "x"), **dict.fromkeys(y.owned, "y")}
    assert world.join("N") == BeatAnswer("N", generation + 1, frozenset())
    assert isinstance(world.last[0], GroupRecord) and world.last[0].metadata is None
    assert any(isinstance(record, EpochRecord) for record in world.last)
    assert len(world.group.holders) == 4 and not world.member("N").assigned
    assert x.owned | y.owned == owned.keys(), "nobody has lost anything"
    settle(world, x, y)
    world.beat("N", generation + 1)
    settle(world, x, y)
    assert (
        len(world.member("N").assigned) == 1 and x.owned.isdisjoint(y.owned) and len(x.owned | y.owned) == 3
    )


def test_ng19_the_group_is_classic_again_when_the_last_new_member_goes() -> None:
    world, (x, y) = classic_pair()
    world.join("N")
    settle(world, x, y)
    epoch = world.group.epoch
    world.beat("N", -1)
    assert isinstance(world.any_group, Group) and world.any_group.state is GroupState.PREPARING
    assert world.any_group.generation == epoch and set(world.any_group.members) == {
        x.member_id,
        y.member_id,
    }
    assert isinstance(world.last[-1], GroupRecord)
    settle(world, x, y)
    assert world.any_group.state is GroupState.STABLE and x.generation == epoch + 1
    assert x.owned.isdisjoint(y.owned) and len(x.owned | y.owned) == 4


def test_ng19_the_group_is_classic_again_when_the_new_member_is_silent() -> None:
    world, (x, y) = classic_pair()
    world.join("N")
    for _ in range(5):
        settle(world, x, y)
    assert isinstance(world.any_group, Group) and len(x.owned | y.owned) == 4


def test_ng19_without_members_the_group_keeps_its_protocol() -> None:
    world = ConsumerWorld(t=4)
    world.join("N")
    world.beat("N", -1)
    assert isinstance(world.any_group, ConsumerGroup)


def test_ng19_the_last_new_member_is_replaced_by_a_classic_one_with_its_instance_id() -> None:
    world = ConsumerWorld(t=4)
    world.join("N", instance_id="desk")
    classic = PlainClassicMember(world, "x", ("t",), instance_id="desk")
    classic.step()
    assert isinstance(world.any_group, Group) and world.any_group.state is GroupState.STABLE, (
        "it has its target"
    )
    classic.step()
    assert len(classic.owned) == 4
    settle(world, classic)
    assert world.any_group.state is GroupState.STABLE and len(classic.owned) == 4


@pytest.mark.parametrize("policy", MigrationPolicy)
def test_the_policy_allows_each_direction(policy: MigrationPolicy) -> None:
    world, (x, y) = classic_pair(with_policy(policy))
    answer = world.join("N")
    if policy in {MigrationPolicy.DOWNGRADE, MigrationPolicy.DISABLED}:
        assert answer is ErrorCode.GROUP_ID_NOT_FOUND and isinstance(world.any_group, Group)
        return
    assert isinstance(answer, BeatAnswer)
    settle(world, x, y)
    world.beat("N", -1)
    assert isinstance(world.any_group, Group if policy is MigrationPolicy.BIDIRECTIONAL else ConsumerGroup)


def test_ng20_a_group_that_cannot_change_stays_as_it_is() -> None:
    world, (x, y) = classic_pair(msgspec.structs.replace(AT_ONCE, group_consumer_max_size=2))
    group, timers = world.any_group, dict(world.timers)
    assert world.join("N") is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert world.beat("N", 3) is ErrorCode.GROUP_ID_NOT_FOUND, "only a member that joins changes the group"
    world.settings = msgspec.structs.replace(AT_ONCE, group_consumer_max_size=1)
    assert world.join("N") is ErrorCode.GROUP_ID_NOT_FOUND
    assert world.any_group is group and world.timers == timers and not world.last
    settle(world, x, y)
    assert len(x.owned | y.owned) == 4


def test_ng20_what_cannot_be_read_or_is_given_twice_is_not_changed() -> None:
    world, _ = classic_pair()
    stable = world.any_group
    for assignment in (b"mine", written_assignment([("t", 0), ("t", 1), ("t", 2), ("t", 3)], 1)):
        world.any_group = changed_first(stable, assignment=assignment)
        assert world.join("N") is ErrorCode.GROUP_ID_NOT_FOUND
    world.any_group = msgspec.structs.replace(stable, protocol_type="connect")
    assert world.join("N") is ErrorCode.GROUP_ID_NOT_FOUND


def changed_first(group: object, **fields: object) -> Group:
    assert isinstance(group, Group)
    first, *others = group.members.values()
    members = {each.member_id: each for each in (msgspec.structs.replace(first, **fields), *others)}
    return msgspec.structs.replace(group, members=members)


def test_ng18_members_that_wait_are_told_to_join_again() -> None:
    world = ConsumerWorld(t=4)
    x = PlainClassicMember(world, "x", ("t",))
    x.step()
    x.step()
    assert not x.is_settled and world.timers.keys() >= {GroupTimer(TimerKind.JOIN)}
    world.join("N")
    assert GroupTimer(TimerKind.JOIN) not in world.timers
    assert world.timers[GroupTimer(TimerKind.SESSION, x.member_id)] == world.now_ms + SESSION_MS
    x.step()  # it hears REBALANCE_IN_PROGRESS
    settle(world, x)
    world.beat("N", 1)
    world.beat("N", 1, owned=frozenset(world.member("N").assigned))
    settle(world, x)
    assert len(x.owned) == 2


def test_ng18_a_member_with_a_member_id_that_has_not_joined_yet_may_join() -> None:
    world = ConsumerWorld(t=4)
    x = PlainClassicMember(world, "x", ("t",))
    x.step()
    assert x.member_id and not world.any_group.members
    world.join("N")
    x.step()
    assert x.member_id in world.group.members


def test_ng19_after_a_crash_nobody_gets_what_another_member_has() -> None:
    """The assignment in the log is what each member has, and not its target."""
    world, (x, y) = classic_pair()
    world.join("N")
    settle(world, x, y)
    world.beat("N", 2)
    settle(world, x, y)
    world.beat("N", -1)
    world.move()
    settle(world, x, y)
    assert x.owned.isdisjoint(y.owned) and len(x.owned | y.owned) == 4


def test_ng18_a_member_that_has_joined_again_has_what_it_owned_then() -> None:
    """An eager member gives up everything before it joins, and a cooperative one goes on with what it owns."""
    for protocol, held in ((EAGER, 0), (COOPERATIVE, 2)):
        world, (x, y) = classic_pair(protocol=protocol)
        x.subscribe(("t", "other"))
        x.step()
        world.join("N")
        assert len(world.member(x.member_id).assigned) == held
        assert len(world.member(y.member_id).assigned) == 2


def test_ng19_what_a_member_still_has_to_give_back_stays_its_own() -> None:
    world, pair = classic_pair(protocol=COOPERATIVE)
    world.join("N")
    for _ in range(2):
        for member in pair:
            member.step()
    (giving,) = [member for member in world.group.members.values() if member.revoking]
    had = set(giving.held)
    world.beat("N", -1)
    assert isinstance(world.any_group, Group)
    given = read_assignment(world.any_group.members[giving.member_id].assignment)
    assert given is not None and {number for _, number in given} == {number for _, number in had}


def test_ng19_a_static_member_joins_in_a_rebalance_if_others_have_a_step_to_take() -> None:
    world = ConsumerWorld(t=4)
    world.join("N", instance_id="desk")
    x, static = (
        PlainClassicMember(world, "x", ("t",)),
        PlainClassicMember(world, "y", ("t",), instance_id="desk"),
    )
    x.step()
    x.step()
    static.step()
    assert isinstance(world.any_group, Group) and world.any_group.state is GroupState.PREPARING
    settle(world, x, static)
    assert x.owned.isdisjoint(static.owned) and len(x.owned | static.owned) == 4
