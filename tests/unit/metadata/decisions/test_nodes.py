import pytest

from siltstone.metadata.commands import CloseStream, CreateStream, RegisterNode
from support.metadata_world import MetadataWorld


@pytest.fixture
def world() -> MetadataWorld:
    return MetadataWorld()


def test_each_registration_raises_the_epoch(world) -> None:
    assert world.do(RegisterNode(3, "a", "here")).node_epoch == 1
    assert world.do(RegisterNode(3, "b", "there")).node_epoch == 2
    assert world.image.nodes[3].wal_location == "there"


def test_repeating_a_registration_changes_nothing(world) -> None:
    first = world.do(RegisterNode(3, "a", "here"))
    assert world.do(RegisterNode(3, "a", "here")) == first
    assert world.written == 0


def test_it_tells_the_streams_left_open(world) -> None:
    world.register(0)
    world.register(1)
    opened = [world.open_stream() for _ in range(3)]
    world.open_stream(node_id=1)
    world.do(CloseStream(0, 1, opened[1], 0))
    world.do(world.upload((opened[0], 0, 10)))
    registration = world.do(RegisterNode(0, "again", ""))
    assert [stream.stream_id for stream in registration.opened_streams] == [opened[0], opened[2]]
    assert registration.opened_streams[0].end_offset == 10


def test_failover_fences_the_node_and_keeps_its_wal_location(world) -> None:
    world.register(0)
    replayer = world.do(RegisterNode(0, "replayer", "elsewhere", failover=True))
    assert (replayer.node_epoch, world.image.nodes[0].wal_location) == (2, "wal-of-0")
    assert world.outcome(CreateStream(0, 1)) == ("NODE_FENCED", 0)
    assert world.outcome(CreateStream(0, 2)) == ("OK", 1)
    assert world.do(RegisterNode(0, "restarted", "wal-of-0")).node_epoch == 3
    assert world.outcome(CreateStream(0, 2)) == ("NODE_EPOCH_EXPIRED", 0), "the replayer is fenced in turn"


def test_there_is_no_failover_of_a_node_that_never_was(world) -> None:
    assert world.outcome(RegisterNode(0, "replayer", "", failover=True)) == ("NODE_EPOCH_NOT_EXIST", 0)
