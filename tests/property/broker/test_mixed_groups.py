"""Random lives of groups whose members speak both protocols, rolled from one to the other and back: no partition ever
has two owners, and at rest every partition is with one of the members (NG18, NG19)."""

from collections import Counter
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from siltstone.broker.groups.consumer_protocol.group import ConsumerGroup, ConsumerGroupState
from siltstone.broker.groups.rules.states import GroupState
from support.groups.classic_member import COOPERATIVE, EAGER, PlainClassicMember
from support.groups.consumer_world import ConsumerWorld, PlainMember
from support.processes.seeds import seed_of_this_run
from support.processes.tried import RecordTried
from support.values.examples import examples

TOPICS = ("a", "b", "c")
AnyMember = PlainMember | PlainClassicMember


def step(member: AnyMember) -> None:
    if isinstance(member, PlainClassicMember):
        member.step()
    else:
        member.beat()


def owners(world: ConsumerWorld, members: list[AnyMember]) -> Counter[tuple[str, int]]:
    """Counts the members that own each partition, as far as the coordinator knows these members."""
    counted: Counter[tuple[str, int]] = Counter()
    for member in members:
        if member.member_id not in world.any_group.members:
            continue
        if isinstance(member, PlainClassicMember):
            counted.update(key for key in member.owned if world.topics.by_name(key[0]))
        elif member.epoch > 0:
            known = ((world.topics.by_id(topic_id), number) for topic_id, number in member.owned)
            counted.update((topic.name, number) for topic, number in known if topic is not None)
    return counted


def newcomer(chance: Random, world: ConsumerWorld, name: str, protocol: str) -> AnyMember:
    topics = tuple(sorted(chance.sample(TOPICS, chance.randrange(1, 4))))
    if chance.random() < 0.5:
        return PlainMember(world, name, topics)
    return PlainClassicMember(world, name, topics, protocol)


def happen(
    chance: Random, world: ConsumerWorld, members: list[AnyMember], number: int, protocol: str
) -> None:
    match chance.randrange(16):
        case 0 | 1 | 2 if len(members) < 6:
            members.append(newcomer(chance, world, f"m{number}", protocol))
        case 3 if members:
            members.pop(chance.randrange(len(members))).leave()
        case 4 if members:
            chance.choice(members).subscribe(tuple(sorted(chance.sample(TOPICS, chance.randrange(1, 4)))))
        case 5:
            world.let_pass(chance.choice([100, 2_000, 9_000]))
        case 6 if chance.random() < 0.3:
            world.move()
        case 7:
            topic = world.topics.by_name("b")
            assert topic is not None
            world.topics.extend("b", topic.partition_count + 1)
        case _ if members:
            step(chance.choice(members))


@settings(max_examples=examples(100))
@given(seed=st.integers(0, 2**32))
def test_ng18_ng19_a_random_life_of_a_mixed_group(seed: int) -> None:
    live(seed)


def live(seed: int) -> None:
    chance = Random(seed)
    world = ConsumerWorld(a=3, b=5, c=1)
    protocol = chance.choice([EAGER, COOPERATIVE])
    members: list[AnyMember] = []
    for number in range(chance.randrange(20, 120)):
        happen(chance, world, members, number, protocol)
        assert max(owners(world, members).values(), default=0) <= 1
    rest(world, members)


SEEDS_AT_NIGHT = 1_000


@pytest.mark.nightly(tried="lives of mixed groups")
def test_ng18_ng19_many_lives(record_tried: RecordTried) -> None:
    first = seed_of_this_run("MIXED_GROUPS_SEED")
    for seed in range(first, first + SEEDS_AT_NIGHT):
        live(seed)
    record_tried("lives", SEEDS_AT_NIGHT)


def rest(world: ConsumerWorld, members: list[AnyMember]) -> None:
    """A leader sees that a topic has more partitions, and joins again; so do all here."""
    for member in members:
        member.subscribe(member.topics)
    for _ in range(80):
        for member in members:
            step(member)
            assert max(owners(world, members).values(), default=0) <= 1
        world.let_pass(1_500)
    if not members:
        return
    group = world.any_group
    if isinstance(group, ConsumerGroup):
        assert group.state is ConsumerGroupState.STABLE
        assert any(isinstance(member, PlainMember) for member in members)
    else:
        assert group.state is GroupState.STABLE
        assert not any(isinstance(member, PlainMember) for member in members)
    names = {name for member in members for name in member.wants(TOPICS)}
    expected = {
        (topic.name, number)
        for topic in world.topics.all()
        if topic.name in names
        for number in range(topic.partition_count)
    }
    owned = owners(world, members)
    assert set(owned) == expected and max(owned.values(), default=1) == 1
