"""Random lives of a group of KIP-848: no partition ever has two owners, the log is what memory is, and at rest all
partitions are with their members, as evenly as the assignor promises (NG24)."""

from collections import Counter
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from siltstone.broker.groups.consumer_protocol.assignors import Subscriber, assign_ranges, assign_uniformly
from siltstone.broker.groups.consumer_protocol.group import ConsumerGroupState, PartitionOfId
from support.groups.consumer_world import ConsumerWorld, PlainMember
from support.values.examples import examples

TOPICS = ("a", "b", "c")


def owners(members: list[PlainMember]) -> Counter[PartitionOfId]:
    return Counter(partition for member in members for partition in member.owned)


@settings(max_examples=examples(60))
@given(seed=st.integers(0, 2**32))
def test_ng24_a_random_life(seed: int) -> None:
    chance = Random(seed)
    world = ConsumerWorld(a=3, b=5, c=1)
    members: list[PlainMember] = []
    for number in range(chance.randrange(5, 60)):
        happen(chance, world, members, f"m{number}")
        known = [each for each in members if each.epoch > 0 and each.member_id in world.any_group.members]
        assert max(owners(known).values(), default=0) <= 1
    rest(world, members)


def happen(chance: Random, world: ConsumerWorld, members: list[PlainMember], newcomer: str) -> None:
    match chance.randrange(12):
        case 0 | 1 if len(members) < 6:
            pattern = chance.choice([None, None, ".*", "a|b", "[bc]"])
            members.append(PlainMember(world, newcomer, some_topics(chance), pattern))
        case 2 if members:
            members.pop(chance.randrange(len(members))).leave()
        case 3 if members:
            chance.choice(members).subscribe(some_topics(chance))
        case 4:
            change_a_topic(chance, world)
        case 5:
            world.let_pass(chance.choice([100, 2_000, 20_000]))
        case 6 if members:
            chance.choice(members).beat(loses_answer=True)
        case _ if members:
            chance.choice(members).beat()


def some_topics(chance: Random) -> tuple[str, ...]:
    return tuple(sorted(chance.sample(TOPICS, chance.randrange(1, 4))))


def change_a_topic(chance: Random, world: ConsumerWorld) -> None:
    name = chance.choice(TOPICS)
    topic = world.topics.by_name(name)
    if topic is None:
        world.topics.create(name, 2)
    elif chance.random() < 0.3:
        world.topics.delete(name)
    else:
        world.topics.extend(name, topic.partition_count + 1)


def rest(world: ConsumerWorld, members: list[PlainMember]) -> None:
    """Everybody sends heartbeats until nothing changes; then each partition is owned once."""
    for _ in range(14):
        for member in members:
            member.beat()
        world.let_pass(2_000)
    if not members:
        return
    assert world.group.state is ConsumerGroupState.STABLE
    wanted = {member.member_id: member.wants(TOPICS) for member in members}
    subscribed = {name for names in wanted.values() for name in names if world.topics.by_name(name)}
    expected = {partition for name in subscribed for partition in world.topics.partitions(name)}
    owned = owners(members)
    assert set(owned) == expected and max(owned.values(), default=1) == 1
    for member in members:
        assert set(world.member(member.member_id).assigned) == member.owned
        assert {world.topics.by_id(topic_id).name for topic_id, _ in member.owned} <= wanted[member.member_id]  # type: ignore[union-attr]


# -- assignors -------------------------------------------------------------------------------------------

COUNTS = st.dictionaries(
    st.integers(1, 5).map(lambda number: bytes([number]) * 16), st.integers(0, 12), max_size=5
)


@st.composite
def groups(draw: st.DrawFn, *, alike: bool) -> tuple[list[Subscriber], dict[bytes, int]]:
    counts = draw(COUNTS)
    everything = [(topic_id, number) for topic_id, count in counts.items() for number in range(count + 2)]
    chance = Random(draw(st.integers(0, 2**32)))
    subscribers = [
        Subscriber(
            f"m{number}",
            chance.choice([None, f"i{number}"]),
            frozenset(counts if alike else chance.sample(sorted(counts), chance.randrange(len(counts) + 1))),
            frozenset(chance.sample(everything, chance.randrange(len(everything) + 1))),
        )
        for number in range(draw(st.integers(1, 7)))
    ]
    return subscribers, counts


@pytest.mark.parametrize("assign", [assign_ranges, assign_uniformly])
@pytest.mark.parametrize("alike", [True, False])
@settings(max_examples=examples(80))
@given(data=st.data())
def test_ng24_an_assignment_is_complete_disjoint_and_even(assign, alike: bool, data: st.DataObject) -> None:
    subscribers, counts = data.draw(groups(alike=alike))
    assigned = assign(subscribers, counts)
    given_out = Counter(partition for partitions in assigned.values() for partition in partitions)
    wanted = {topic_id for subscriber in subscribers for topic_id in subscriber.topic_ids}
    assert set(given_out) == {(topic_id, number) for topic_id in wanted for number in range(counts[topic_id])}
    assert max(given_out.values(), default=1) == 1
    by_id = {subscriber.member_id: subscriber for subscriber in subscribers}
    for member_id, partitions in assigned.items():
        assert {topic_id for topic_id, _ in partitions} <= by_id[member_id].topic_ids
    loads = [len(partitions) for partitions in assigned.values()]
    if assign is assign_uniformly and alike:
        assert max(loads) - min(loads) <= 1
    if assign is assign_uniformly:
        for partition in given_out:
            owner = next(member_id for member_id, of in assigned.items() if partition in of)
            sharing = [each for each in subscribers if partition[0] in each.topic_ids]
            least = min(len(assigned[each.member_id]) for each in sharing)
            assert len(assigned[owner]) <= least + 1, "a move would make it more even"


@settings(max_examples=examples(60))
@given(data=st.data())
def test_ng24_a_uniform_assignment_moves_no_more_than_it_must(data: st.DataObject) -> None:
    subscribers, counts = data.draw(groups(alike=True))
    first = assign_uniformly(subscribers, counts)
    again = [
        Subscriber(each.member_id, each.instance_id, each.topic_ids, first[each.member_id])
        for each in subscribers
    ]
    assert assign_uniformly(again, counts) == first
    left = [each for each in again if each.member_id != "m0"]
    if left:
        moved = assign_uniformly(left, counts)
        assert all(first[each.member_id] <= moved[each.member_id] for each in left), (
            "the others keep what they had"
        )
