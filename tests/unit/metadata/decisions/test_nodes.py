import pytest

from siltstone.metadata.commands import (
    ClaimFailover,
    CloseStream,
    CreateStream,
    OpenStream,
    RegisterNode,
)
from support.metadata.metadata_world import MetadataWorld


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
    assert (world.fail_over(0), world.image.nodes[0].wal_location) == (2, "wal-of-0")
    assert world.outcome(CreateStream(0, 1)) == ("NODE_FENCED", 0)
    assert world.outcome(CreateStream(0, 2)) == ("OK", 1)
    world.do(ClaimFailover(99, 1, 0, gives_back=True))
    assert world.do(RegisterNode(0, "restarted", "wal-of-0")).node_epoch == 3
    assert world.outcome(CreateStream(0, 2)) == ("NODE_EPOCH_EXPIRED", 0), "the replayer is fenced in turn"


def test_there_is_no_failover_of_a_node_that_never_was(world) -> None:
    assert world.outcome(RegisterNode(0, "replayer", "", failover=True)) == ("NODE_EPOCH_NOT_EXIST", 0)


@pytest.fixture
def with_log(world) -> MetadataWorld:
    """Node 0 in its life 3; stream 0 open since its life 2."""
    world.register(0, "first")
    world.register(0, "second")
    world.open_stream(node_epoch=2)
    world.register(0, "third")
    assert world.image.nodes[0].log_epoch == 2
    return world


def again(log_epoch: int | None, lost_log_epoch: int = 0) -> RegisterNode:
    return RegisterNode(0, "again", "wal", log_epoch=log_epoch, lost_log_epoch=lost_log_epoch)


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        pytest.param(again(0), ("NODE_LOG_BEHIND", 0), id="a log never used"),
        pytest.param(again(1), ("NODE_LOG_BEHIND", 0), id="a log of an older life"),
        pytest.param(again(2), ("OK", 1), id="the log of the life that opened streams"),
        pytest.param(again(3), ("OK", 1), id="a log used since"),
        pytest.param(again(None), ("OK", 1), id="no log to look at"),
        pytest.param(again(0, 2), ("OK", 1), id="given up"),
        pytest.param(again(1, 2), ("OK", 1), id="given up, with an older one in hand"),
        pytest.param(again(0, 1), ("NODE_LOG_BEHIND", 0), id="another life's given up"),
        pytest.param(again(0, 3), ("NODE_LOG_BEHIND", 0), id="one given up that nobody missed"),
    ],
)
def test_rule_1_a_node_with_open_streams_begins_with_the_log_it_had(with_log, command, expected) -> None:
    before = with_log.image.nodes[0]
    assert with_log.outcome(command) == expected
    if expected[0] != "OK":
        assert with_log.image.nodes[0] == before, "whoever comes with another log fences nobody"


def test_the_refusal_names_the_life_whose_log_is_wanted(with_log) -> None:
    assert with_log.answer(again(0)).log_epoch == 2


def test_after_a_good_end_any_log_will_do(with_log) -> None:
    with_log.do(CloseStream(0, 3, 0, 0))
    assert with_log.outcome(again(0)) == ("OK", 1)


def test_a_registration_that_was_done_is_not_refused_when_it_is_repeated(with_log) -> None:
    with_log.do(again(0, 2))
    with_log.do(OpenStream(0, 4, with_log.do(CreateStream(0, 4)), 0))
    assert with_log.outcome(again(0, 2)) == ("OK", 0)


def test_another_node_s_streams_do_not_matter(with_log) -> None:
    with_log.do(CloseStream(0, 3, 0, 0))
    with_log.register(1)
    with_log.open_stream(node_id=1)
    assert with_log.outcome(again(0)) == ("OK", 1)


def test_only_opening_a_stream_moves_the_log_epoch(with_log) -> None:
    assert with_log.image.nodes[0].node_epoch == 3
    with_log.do(CreateStream(0, 3))
    assert with_log.image.nodes[0].log_epoch == 2
    with_log.open_stream(node_epoch=3)
    assert with_log.image.nodes[0].log_epoch == 3
