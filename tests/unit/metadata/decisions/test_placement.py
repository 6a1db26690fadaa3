"""Where partitions get their leaders."""

from collections import Counter

import pytest

from siltstone.metadata.commands import (
    AddPartitions,
    CloseStream,
    CreateTopic,
    DrainNode,
    MovePartitions,
    OpenPartition,
    PlacePartitions,
)
from siltstone.metadata.entities import NO_NODE
from siltstone.model.limits import PARTITIONS_PER_COMMAND_MAX
from support.metadata.metadata_world import MetadataWorld

ID, OTHER_ID = "0123456789abcdef" * 2, "f" * 32


def world_of(*racks: str | None) -> MetadataWorld:
    made = MetadataWorld()
    for node_id, rack in enumerate(racks):
        made.register_reachable(node_id, rack=rack)
    return made


@pytest.fixture
def world() -> MetadataWorld:
    return world_of(None, None, None)


def leaders(world: MetadataWorld, topic_id: str = ID) -> list[int]:
    return [partition.leader for partition in world.image.topics[topic_id].partitions]


def test_each_node_gets_its_share_whoever_is_asked(world) -> None:
    world.do(CreateTopic(1, 1, "flights", ID, 9))
    assert Counter(leaders(world)) == {0: 3, 1: 3, 2: 3}
    assert dict(world.image.leader_counts) == {0: 3, 1: 3, 2: 3}


def test_the_order_of_ids_favours_nobody(world) -> None:
    """One partition for each of 90 topics: ties are decided by the hash."""
    firsts: Counter[int] = Counter()
    for number in range(90):
        fresh = world_of(None, None, None)
        fresh.do(CreateTopic(0, 1, "t", f"{number:032x}", 1))
        firsts[leaders(fresh, f"{number:032x}")[0]] += 1
    assert min(firsts[node_id] for node_id in range(3)) > 15


def test_who_leads_fewest_gets_the_next(world) -> None:
    world.do(CreateTopic(0, 1, "flights", ID, 4, leaders=(0, 0, 0, 1)))
    world.do(CreateTopic(0, 1, "other", OTHER_ID, 5))
    assert Counter(leaders(world, OTHER_ID)) == {1: 2, 2: 3}
    world.do(AddPartitions(0, 1, ID, 7))
    assert Counter(leaders(world)[4:]) == {0: 1, 1: 1, 2: 1}


def test_racks_take_turns() -> None:
    for number in range(8):
        world = world_of("a", "a", "a", "b")
        world.do(CreateTopic(0, 1, "flights", f"{number:032x}", 2))
        assert sum(leader == 3 for leader in leaders(world, f"{number:032x}")) == 1


def test_neither_fenced_nor_draining_nor_failed_over_nodes_get_any(world) -> None:
    world.register_reachable(3)
    world.register_reachable(4)
    world.fence(1)
    world.do(DrainNode(2))
    world.fail_over(3, by=4)
    world.do(CreateTopic(0, 1, "flights", ID, 4))
    assert set(leaders(world)) == {0, 4}


def test_without_a_node_that_takes_any_no_topic_is_made(world) -> None:
    world.do(DrainNode(0))
    world.fence(1)
    world.fence(2)
    assert world.outcome(CreateTopic(0, 1, "flights", ID, 1)) == ("NO_LIVE_NODE", 0)


@pytest.mark.parametrize(
    ("assigned", "expected"),
    [
        pytest.param((2, 0), "OK", id="as assigned"),
        pytest.param((2,), "INVALID_REQUEST", id="too few"),
        pytest.param((2, 0, 0), "INVALID_REQUEST", id="too many"),
        pytest.param((2, 9), "TARGET_UNFIT", id="an unknown node"),
        pytest.param((2, 1), "TARGET_UNFIT", id="a fenced node"),
        pytest.param((3, 0), "TARGET_UNFIT", id="a draining node"),
    ],
)
def test_leaders_as_assigned(world, assigned, expected) -> None:
    world.register_reachable(3)
    world.fence(1)
    world.do(DrainNode(3))
    assert world.outcome(CreateTopic(0, 1, "flights", ID, 2, leaders=assigned))[0] == expected
    if expected == "OK":
        assert leaders(world) == [2, 0]
        world.do(AddPartitions(0, 1, ID, 3, leaders=(2,)))
        assert leaders(world) == [2, 0, 2]
        assert world.outcome(AddPartitions(0, 1, ID, 5, leaders=(2,))) == ("INVALID_REQUEST", 0)


def test_partitions_of_a_gone_node_are_placed_once_their_streams_are_closed(world) -> None:
    world.do(CreateTopic(0, 1, "flights", ID, 3, leaders=(0, 1, 0)))
    world.do(OpenPartition(0, 1, ID, 0))
    every = tuple((ID, index) for index in range(3))
    assert world.outcome(PlacePartitions(1, 1, every)) == ("OK", 0), "its leader is live"
    world.fence(0)
    assert world.outcome(PlacePartitions(1, 1, every)) == ("STREAM_NOT_CLOSED", 0)
    assert world.outcome(PlacePartitions(1, 1, every[1:])) == ("OK", 1), "what it never opened"
    assert leaders(world) == [0, 1, 2]
    epoch = world.fail_over(0, by=2)
    assert world.outcome(PlacePartitions(1, 1, every)) == ("STREAM_NOT_CLOSED", 0)
    for stream_id in (0, 1):
        world.do(CloseStream(0, epoch, stream_id, 0))
    assert world.outcome(PlacePartitions(1, 1, (*every, every[0], (OTHER_ID, 0), (ID, 9)))) == ("OK", 1)
    assert world.outcome(PlacePartitions(1, 1, every)) == ("OK", 0)
    assert leaders(world)[0] in (1, 2)


def test_a_partition_on_its_way_goes_to_its_target_if_that_one_lives(world) -> None:
    world.do(CreateTopic(0, 1, "flights", ID, 1, leaders=(1,)))
    world.do(MovePartitions(((ID, 0, 0),)))
    world.fence(1)
    world.do(PlacePartitions(2, 1, ((ID, 0),)))
    (partition,) = world.image.topics[ID].partitions
    assert (partition.leader, partition.target) == (0, NO_NODE)


def test_a_target_that_is_gone_too_gets_nothing(world) -> None:
    world.do(CreateTopic(0, 1, "flights", ID, 1, leaders=(1,)))
    world.do(MovePartitions(((ID, 0, 0),)))
    for node_id in (0, 1):
        world.fence(node_id)
    world.do(PlacePartitions(2, 1, ((ID, 0),)))
    assert leaders(world) == [2]


def test_a_fenced_node_places_nothing(world) -> None:
    world.do(CreateTopic(0, 1, "flights", ID, 1, leaders=(1,)))
    world.fence(1)
    assert world.outcome(PlacePartitions(1, 1, ((ID, 0),))) == ("NODE_SUSPENDED", 0)


def test_as_many_as_one_command_may_place(world) -> None:
    most = PARTITIONS_PER_COMMAND_MAX
    assert world.outcome(PlacePartitions(0, 1, ((ID, 0),) * most)) == ("OK", 0)
    assert world.outcome(PlacePartitions(0, 1, ((ID, 0),) * (most + 1))) == ("TOO_MANY_PARTITIONS", 0)
