"""Partitions that are moved, by a target and one append that closes both streams and names the new leader."""

import pytest

from siltstone.metadata.commands import (
    AddPartitions,
    AlterTopicConfigs,
    CloseStream,
    CreateTopic,
    DeleteTopic,
    DrainNode,
    GiveUpPartitions,
    MovePartitions,
    OpenPartition,
    PartitionEnds,
    PlacePartitions,
    ResumeNode,
    TopicTrims,
    TrimStreams,
)
from siltstone.metadata.entities import NO_NODE, GivenUpPartition, PartitionMetadata, StreamState
from siltstone.metadata.records import StreamCreated, TopicCreated
from siltstone.model.limits import PARTITIONS_PER_COMMAND_MAX
from support.metadata.metadata_world import MetadataWorld, next_image

ID, OTHER_ID = "0123456789abcdef" * 2, "f" * 32


@pytest.fixture
def world() -> MetadataWorld:
    """Nodes 0, 1, 2. Node 0 leads flights-0 (streams 0 and 1, with ends 10 and 2), which it has open at epoch 0, and
    flights-1, never opened."""
    made = MetadataWorld()
    for node_id in range(3):
        made.register_reachable(node_id, f"life of {node_id}")
    made.do(CreateTopic(0, 1, "flights", ID, 2, leaders=(0, 0)))
    made.do(OpenPartition(0, 1, ID, 0))
    made.do(made.upload((0, 0, 10), (1, 0, 2)))
    return made


def move(target: int, index: int = 0) -> MovePartitions:
    return MovePartitions(((ID, index, target),))


def give_up(*partitions: PartitionEnds, node_epoch: int = 1) -> GiveUpPartitions:
    return GiveUpPartitions(0, node_epoch, partitions or (ENDS,))


ENDS = PartitionEnds(ID, 0, 0, 10, 2)


def partition(world: MetadataWorld, index: int = 0) -> tuple[int, int]:
    found = world.image.topics[ID].partitions[index]
    return found.leader, found.target


def states(world: MetadataWorld) -> set[StreamState]:
    return {world.image.streams[0].state, world.image.streams[1].state}


def test_a_move_names_its_target_and_changes_nothing_else(world) -> None:
    before = world.image.streams[0]
    assert world.outcome(move(1)) == ("OK", 1)
    assert world.outcome(move(1)) == ("OK", 0)
    assert partition(world) == (0, 1)
    assert world.image.streams[0] == before
    assert dict(world.image.leader_counts) == {0: 2}


def test_m12_a_move_to_the_present_leader_or_to_nobody_cancels_it(world) -> None:
    assert world.outcome(move(0)) == ("OK", 0), "it is there already"
    for cancelled in (0, NO_NODE):
        world.do(move(1))
        assert world.outcome(move(cancelled)) == ("OK", 1)
        assert partition(world) == (0, NO_NODE)


def test_only_nodes_that_are_fit_are_targets(world) -> None:
    world.fence(1)
    world.do(DrainNode(2))
    for target in (1, 2, 9):
        assert world.outcome(move(target)) == ("TARGET_UNFIT", 0)
    assert world.outcome(move(1, 7)) == ("PARTITION_NOT_EXIST", 0)
    assert world.outcome(MovePartitions(((OTHER_ID, 0, 1),))) == ("TOPIC_NOT_EXIST", 0)
    assert world.outcome(MovePartitions(((ID, 0, 1), (ID, 0, 2)))) == ("INVALID_REQUEST", 0)


def test_both_streams_are_closed_and_the_leader_is_changed_by_one_append(world) -> None:
    world.do(move(1))
    version = world.image.version
    assert world.do(give_up()) == (GivenUpPartition(ID, 0, 1, 0),)
    assert world.image.version == version + 1
    assert (partition(world), states(world)) == ((1, NO_NODE), {StreamState.CLOSED})
    assert dict(world.image.leader_counts) == {0: 1, 1: 1}
    assert world.do(OpenPartition(1, 1, ID, 0)).data.epoch == 1


def test_m11_an_unknown_outcome_is_settled_by_asking_again(world) -> None:
    world.do(move(1))
    world.do(give_up())
    assert world.do(give_up()) == (GivenUpPartition(ID, 0, 1, 0),)
    world.do(OpenPartition(1, 1, ID, 0))
    assert world.do(give_up()) == (GivenUpPartition(ID, 0, 1, 1),)
    assert (world.written, states(world)) == (0, {StreamState.OPENED})


def test_m11_a_late_repetition_does_not_close_what_came_back(world) -> None:
    world.do(move(1))
    world.do(give_up())
    world.fence(1)
    world.do(PlacePartitions(2, 1, ((ID, 0),)))
    leader = partition(world)[0]
    assert world.do(give_up()) == (GivenUpPartition(ID, 0, leader, 0),), "not open, and not to be given up"
    world.do(move(0))
    if leader != 0:
        world.do(GiveUpPartitions(leader, 1, (ENDS,)))
    world.do(OpenPartition(0, 1, ID, 0))
    world.do(move(2))
    assert world.outcome(give_up()) == ("OK", 0)
    assert states(world) == {StreamState.OPENED}
    assert world.outcome(give_up(PartitionEnds(ID, 0, 1, 10, 2))) == ("OK", 3)


@pytest.mark.parametrize(
    "ends",
    [PartitionEnds(ID, 0, 0, 11, 2), PartitionEnds(ID, 0, 0, 9, 2), PartitionEnds(ID, 0, 0, 10, 3)],
    ids=["more in the log", "less", "a snapshot in the log"],
)
def test_rule_1_nothing_is_given_up_while_the_log_alone_holds_records(world, ends) -> None:
    world.do(move(1))
    assert world.outcome(give_up(ends)) == ("OFFSET_NOT_MATCHED", 0)
    assert (partition(world), states(world)) == ((0, 1), {StreamState.OPENED})


def test_m19_a_move_that_was_cancelled_or_whose_target_is_fenced_is_not_carried_out(world) -> None:
    assert world.outcome(give_up()) == ("MOVE_CANCELLED", 0)
    world.do(move(1))
    world.fence(1)
    assert world.outcome(give_up()) == ("TARGET_UNFIT", 0)
    assert (partition(world), states(world)) == ((0, 1), {StreamState.OPENED})
    world.do(ResumeNode(1, 1, "life of 1"))
    world.do(DrainNode(1))
    assert world.outcome(give_up())[0] == "OK", "it gives it up again, in turn"


def test_m20_all_are_given_up_but_those_of_deleted_topics(world) -> None:
    world.do(CreateTopic(0, 1, "other", OTHER_ID, 3, leaders=(0, 0, 0)))
    others = [(OTHER_ID, index) for index in range(3)]
    for topic_id, index in others:
        world.do(OpenPartition(0, 1, topic_id, index))
    world.do(MovePartitions(((ID, 0, 1), *((topic_id, index, 2) for topic_id, index in others))))
    command = give_up(*(PartitionEnds(topic_id, index, 0, 0, 0) for topic_id, index in others), ENDS)
    assert world.outcome(give_up(*command.partitions[:3], PartitionEnds(ID, 0, 0, 7, 2)))[1] == 0
    assert {world.image.streams[each].state for each in range(10) if each not in (2, 3)} == {
        StreamState.OPENED
    }
    world.do(DeleteTopic(0, 1, ID))
    assert [given.leader for given in world.do(command)] == [2, 2, 2]
    assert world.written == 7


def test_m22_a_leader_that_was_fenced_meanwhile_gives_up_after_it_has_resumed(world) -> None:
    world.do(move(1))
    world.fence(0)
    assert world.outcome(give_up()) == ("NODE_SUSPENDED", 0)
    world.do(ResumeNode(0, 1, "life of 0"))
    assert world.outcome(give_up()) == ("OK", 3)


def test_rule_7_an_older_life_gives_nothing_up(world) -> None:
    world.do(move(1))
    world.register_reachable(0, "second")
    assert world.outcome(give_up()) == ("NODE_EPOCH_EXPIRED", 0)


def test_a_partition_that_was_never_opened_moves_without_being_opened(world) -> None:
    world.do(move(2, 1))
    assert world.do(give_up(PartitionEnds(ID, 1, -1, 0, 0))) == (GivenUpPartition(ID, 1, 2, -1),)
    assert (world.written, partition(world, 1)) == (1, (2, NO_NODE))


def test_what_another_node_leads_is_answered_as_it_stands(world) -> None:
    world.do(move(1))
    command = GiveUpPartitions(2, 1, (ENDS,))
    assert world.do(command) == (GivenUpPartition(ID, 0, 0, 0),)
    assert world.written == 0


def test_a_half_open_partition_closes_what_is_open(world) -> None:
    world.do(move(1))
    world.do(CloseStream(0, 1, 1, 0))
    assert world.outcome(give_up()) == ("OK", 2)


def test_a_partition_that_nobody_leads_is_placed_at_once_unless_it_is_open(world) -> None:
    streams = [StreamCreated(each, {"topic": "old", "partition": "0"}) for each in (4, 5)]
    topic = TopicCreated(OTHER_ID, "old", (PartitionMetadata(4, 5),), {}, 1, 0, False)
    world.image = next_image(world.image, [*streams, topic])
    assert world.outcome(MovePartitions(((OTHER_ID, 0, NO_NODE),))) == ("OK", 0)
    assert world.outcome(MovePartitions(((OTHER_ID, 0, 2),))) == ("OK", 1)
    assert world.image.topics[OTHER_ID].partitions[0].leader == 2


def test_as_many_as_one_command_may_name(world) -> None:
    beyond = PARTITIONS_PER_COMMAND_MAX + 1
    assert world.outcome(MovePartitions(((ID, 0, 1),) * beyond)) == ("TOO_MANY_PARTITIONS", 0)
    assert world.outcome(give_up(*[ENDS] * beyond)) == ("TOO_MANY_PARTITIONS", 0)
    assert world.outcome(give_up(*[ENDS] * (beyond - 1))) == ("INVALID_REQUEST", 0), "it is named twice"


def test_m09_when_the_target_dies_before_it_opens_the_partition_another_node_leads_it(world) -> None:
    world.do(move(1))
    world.do(give_up())
    world.fence(1)
    assert world.outcome(PlacePartitions(0, 1, ((ID, 0),))) == ("OK", 1)
    assert partition(world) == (2, NO_NODE), "the one that leads fewest; no log had to be replayed"


def test_m15_what_is_done_with_the_topic_meanwhile_is_done_as_ever(world) -> None:
    world.do(move(1))
    world.do(AddPartitions(2, 1, ID, 3))
    world.do(AlterTopicConfigs(ID, {"retention.ms": "1000"}))
    assert partition(world) == (0, 1)
    world.do(give_up())
    assert partition(world) == (1, NO_NODE)
    assert world.image.topics[ID].configs["retention.ms"] == "1000"
    world.do(move(2))
    world.do(DeleteTopic(2, 1, ID))
    assert world.outcome(give_up()) == ("OK", 0), "the topic is passed over"


@pytest.mark.parametrize("is_given_up_first", [True, False])
def test_m18_compactions_and_trims_commit_during_a_move_and_the_end_stays(world, is_given_up_first) -> None:
    world.do(world.upload((0, 10, 20)))
    first, second = (held[0] for held in world.held(0))
    compaction = world.compaction(world.start_job(), (first, second), (0, 0, 20), (1, 0, 2))
    world.do(move(1))
    ends = PartitionEnds(ID, 0, 0, 20, 2)
    if is_given_up_first:
        world.do(give_up(ends))
    trim = TrimStreams(world.start_job("retention"), (TopicTrims(ID, {}, ((0, 5),)),))
    assert world.do(trim) == (0,)
    world.do(compaction)
    if not is_given_up_first:
        world.do(give_up(ends))
    assert world.ends(0, 1) == (20, 2)
    assert partition(world) == (1, NO_NODE)
    opened = world.do(OpenPartition(1, 1, ID, 0))
    assert (opened.data.start_offset, opened.data.end_offset, opened.data.epoch) == (5, 20, 1)
