"""A partition is opened by its leader, and by nobody else."""

import pytest

from siltstone.metadata.commands import (
    CloseStream,
    CreateStream,
    CreateTopic,
    GiveUpPartitions,
    MovePartitions,
    OpenPartition,
    OpenStream,
    PartitionEnds,
)
from siltstone.metadata.entities import NO_NODE, PartitionMetadata, StreamState
from siltstone.metadata.records import StreamCreated, TopicCreated
from siltstone.model.errors import Stale
from support.metadata.metadata_world import MetadataWorld, next_image

ID = "0123456789abcdef" * 2


@pytest.fixture
def world() -> MetadataWorld:
    """Nodes 0 and 1, which clients reach; topic flights, led by 0 (streams 0, 1) and 1 (streams 2, 3)."""
    made = MetadataWorld()
    made.register_reachable(0)
    made.register_reachable(1)
    made.do(CreateTopic(0, 1, "flights", ID, 2, leaders=(0, 1)))
    return made


def test_the_leader_opens_both_streams_at_once(world) -> None:
    opened = world.do(OpenPartition(0, 1, ID, 0))
    assert world.written == 2
    assert (opened.data, opened.meta) == (world.image.streams[0], world.image.streams[1])
    assert (opened.data.state, opened.data.epoch, opened.data.owner) == (StreamState.OPENED, 0, 0)
    assert world.do(OpenPartition(0, 1, ID, 0)) == opened
    assert world.written == 0


def test_each_opening_raises_the_epochs(world) -> None:
    world.do(OpenPartition(0, 1, ID, 0))
    world.do(CloseStream(0, 1, 0, 0))
    half_open = world.do(OpenPartition(0, 1, ID, 0))
    assert (half_open.data.epoch, half_open.meta.epoch) == (1, 0), "the meta stream was open all the time"


def test_a_new_life_of_the_leader_says_that_its_log_holds_records(world) -> None:
    world.do(OpenPartition(0, 1, ID, 0))
    world.register_reachable(0, "second")
    world.do(OpenPartition(0, 2, ID, 0))
    assert world.image.nodes[0].log_epoch == 2


@pytest.mark.parametrize(
    "command",
    [OpenPartition(1, 1, ID, 0), OpenStream(1, 1, 0, 0), OpenStream(1, 1, 1, 5)],
    ids=["the partition", "its data stream", "its meta stream"],
)
def test_no_other_node_opens_it(world, command) -> None:
    refusal = world.answer(command)
    assert (refusal.code, isinstance(refusal, Stale), world.written) == ("NOT_LEADER", True, 0)


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (OpenPartition(0, 1, ID, 2), "PARTITION_NOT_EXIST"),
        (OpenPartition(0, 1, ID, -1), "PARTITION_NOT_EXIST"),
        (OpenPartition(0, 1, "f" * 32, 0), "TOPIC_NOT_EXIST"),
        (OpenPartition(0, 0, ID, 0), "NODE_EPOCH_EXPIRED"),
    ],
)
def test_what_is_not_there_is_not_opened(world, command, expected) -> None:
    assert world.outcome(command) == (expected, 0)


def test_m16_an_old_leader_with_a_stale_image_cannot_append_nor_open_again(world) -> None:
    world.do(OpenPartition(0, 1, ID, 0))
    late = world.upload((0, 0, 10))
    world.do(MovePartitions(((ID, 0, 1),)))
    world.do(GiveUpPartitions(0, 1, (PartitionEnds(ID, 0, 0, 0, 0),)))
    for command in (OpenPartition(0, 1, ID, 0), OpenStream(0, 1, 0, 0), OpenStream(0, 1, 0, 1)):
        assert world.outcome(command) == ("NOT_LEADER", 0)
    world.do(OpenPartition(1, 1, ID, 0))
    assert world.outcome(late) == ("STREAM_FENCED", 0)
    assert world.outcome(OpenStream(0, 1, 0, 0)) == ("STREAM_FENCED", 0)
    assert world.outcome(OpenStream(0, 1, 0, 2))[0] != "OK"
    assert world.image.streams[0].owner == 1


def test_a_recoverer_closes_the_dead_leader_s_streams_and_opens_none(world) -> None:
    world.do(OpenPartition(0, 1, ID, 0))
    epoch = world.fail_over(0, by=1)
    assert world.outcome(OpenPartition(0, epoch, ID, 0)) == ("NOT_LEADER", 0)
    assert world.outcome(CloseStream(0, epoch, 0, 0)) == ("OK", 1)
    assert world.outcome(OpenStream(0, epoch, 0, 1)) == ("NOT_LEADER", 0)


def test_a_stream_of_no_topic_has_no_leader(world) -> None:
    stream_id = world.do(CreateStream(0, 1, {"topic": "flights", "partition": "1", "kind": "data"}))
    assert world.outcome(OpenStream(0, 1, stream_id, 0)) == ("OK", 1), "its tags prove nothing"
    beyond = world.do(CreateStream(0, 1, {"topic": "flights", "partition": "9"}))
    assert world.outcome(OpenStream(0, 1, beyond, 0)) == ("OK", 1)


# -- stores from before there were leaders --------------------------------------------------------------------


@pytest.fixture
def older() -> MetadataWorld:
    """What a store of one node holds: node 0 without listeners, a topic without a leader."""
    made = MetadataWorld()
    made.register(0)
    streams = [StreamCreated(each, {"topic": "old", "partition": "0", "kind": "data"}) for each in (0, 1)]
    topic = TopicCreated(ID, "old", (PartitionMetadata(0, 1),), {}, 1, 0, False)
    made.image = next_image(made.image, [*streams, topic])
    return made


def test_a_partition_without_a_leader_is_taken_by_the_node_that_opens_it(older) -> None:
    assert older.outcome(OpenStream(0, 1, 0, 0)) == ("OK", 2)
    assert older.outcome(OpenStream(0, 1, 1, 0)) == ("OK", 1), "it is the leader now"
    assert older.image.topics[ID].partitions[0].leader == 0
    assert dict(older.image.leader_counts) == {0: 1}


def test_taking_and_opening_a_partition_are_one_append(older) -> None:
    assert older.outcome(OpenPartition(0, 1, ID, 0)) == ("OK", 3)
    assert older.outcome(OpenPartition(0, 1, ID, 0)) == ("OK", 0)


def test_the_only_node_goes_on_under_another_id_as_before(older) -> None:
    older.do(OpenPartition(0, 1, ID, 0))
    older.register(7)
    assert older.outcome(OpenPartition(7, 1, ID, 0)) == ("STREAM_NOT_CLOSED", 0)
    for stream_id in (0, 1):
        older.do(CloseStream(0, 1, stream_id, 0))
    assert older.do(OpenPartition(7, 1, ID, 0)).data.epoch == 1
    assert older.image.topics[ID].partitions[0].leader == 7


def test_a_leader_that_clients_reach_is_not_replaced_by_opening(older) -> None:
    older.register_reachable(0, "second")
    older.do(OpenPartition(0, 2, ID, 0))
    for stream_id in (0, 1):
        older.do(CloseStream(0, 2, stream_id, 0))
    older.register(7)
    assert older.outcome(OpenPartition(7, 1, ID, 0)) == ("NOT_LEADER", 0)


def test_a_single_node_of_today_leads_what_it_creates_and_other_old_ids_get_nothing(older) -> None:
    older.register(7)
    topic = older.do(CreateTopic(7, 1, "new", "f" * 32, 3))
    assert [partition.leader for partition in topic.partitions] == [7, 7, 7]
    assert {partition.target for partition in topic.partitions} == {NO_NODE}
