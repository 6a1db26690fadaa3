"""GiveUpLog: a person gives up the log of a node that is gone (FO04)."""

import pytest

from siltstone.metadata.commands import (
    ClaimFailover,
    CloseStream,
    FenceNode,
    GiveUpLog,
    OpenStream,
    RegisterNode,
    ResumeNode,
    UnregisterNode,
)
from siltstone.metadata.decisions import nodes
from siltstone.metadata.entities import StreamState
from support.metadata.metadata_world import MetadataWorld


@pytest.fixture
def world() -> MetadataWorld:
    """Node 0 died in its life 2 with three streams open, the first one committed up to offset 10. Node 1 lives."""
    world = MetadataWorld()
    world.register(0, "first")
    world.register(0, "second")
    world.register(1)
    opened = [world.open_stream(node_epoch=2) for _ in range(3)]
    world.do(world.upload((opened[0], 0, 10), node_epoch=2))
    world.open_stream(node_id=1)
    world.do(FenceNode(0, 2))
    return world


LOST = GiveUpLog(0, 2, "by hand")


def states(world: MetadataWorld) -> list[StreamState]:
    return [world.image.streams[stream_id].state for stream_id in sorted(world.image.streams)]


def test_fo04_its_streams_are_closed_at_their_committed_ends_and_no_others(world) -> None:
    assert world.do(LOST).opened_streams == ()
    assert states(world) == [StreamState.CLOSED] * 3 + [StreamState.OPENED]
    assert [world.image.streams[stream_id].end_offset for stream_id in range(3)] == [10, 0, 0]
    assert (world.image.nodes[0].node_epoch, world.image.nodes[0].is_live) == (3, False)
    assert world.outcome(OpenStream(1, 1, 0, 1)) == ("OK", 1), "another node continues"


def test_fo04_the_process_that_was_not_dead_after_all_is_fenced(world) -> None:
    world.do(LOST)
    assert world.outcome(CloseStream(0, 2, 1, 0))[0] == "NODE_FENCED"
    assert world.outcome(ResumeNode(0, 2, "second"))[0] == "NODE_FENCED"


@pytest.mark.parametrize(
    ("log_epoch", "lost_log_epoch", "expected"),
    [
        (1, 0, "NODE_LOG_LOST"),
        (2, 0, "NODE_LOG_LOST"),
        (2, 1, "NODE_LOG_LOST"),
        (2, 2, "OK"),
        (0, 0, "OK"),
        (3, 0, "OK"),
        (None, 0, "OK"),
    ],
)
def test_fo04_it_returns_with_an_empty_log_or_says_that_the_old_one_may_go(
    world, log_epoch: int | None, lost_log_epoch: int, expected: str
) -> None:
    world.do(LOST)
    back = RegisterNode(0, "back", "wal-of-0", log_epoch=log_epoch, lost_log_epoch=lost_log_epoch)
    assert world.outcome(back)[0] == expected
    if expected != "OK":
        assert world.answer(back).log_epoch == 2
        assert world.image.nodes[0].incarnation == "by hand"


def test_the_log_stays_lost_when_the_node_is_forgotten_and_in_its_next_lives(world) -> None:
    old = RegisterNode(0, "back", "wal-of-0", log_epoch=2)
    world.do(LOST)
    world.do(RegisterNode(0, "with an empty log", "wal-of-0", log_epoch=0))
    assert world.outcome(old) == ("NODE_LOG_LOST", 0)
    world.do(FenceNode(0, 4))
    world.do(UnregisterNode(0))
    assert world.outcome(old) == ("NODE_LOG_LOST", 0)


def test_it_is_repeated_with_its_token_until_all_are_closed(world, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nodes, "STREAMS_CLOSED_AT_ONCE_MAX", 2)
    first = world.do(LOST)
    assert ([each.stream_id for each in first.opened_streams], world.written) == ([2], 4)
    assert world.do(LOST).opened_streams == ()
    assert world.written == 1, "neither the epoch nor the lost log is written again"
    assert world.do(LOST).node_epoch == first.node_epoch
    assert world.written == 0


def test_one_that_was_cut_off_in_the_middle_is_ended_by_another(
    world, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nodes, "STREAMS_CLOSED_AT_ONCE_MAX", 2)
    world.do(LOST)
    assert world.do(GiveUpLog(0, 3, "another hand")).opened_streams == ()
    assert world.image.nodes[0].node_epoch == 4
    assert world.outcome(RegisterNode(0, "back", "wal-of-0", log_epoch=2)) == ("NODE_LOG_LOST", 0)


def test_a_node_that_lives_or_was_registered_again_or_is_being_failed_over_is_left_alone(world) -> None:
    assert world.outcome(GiveUpLog(1, 1, "by hand")) == ("NODE_IN_USE", 0)
    assert world.outcome(GiveUpLog(0, 1, "by hand")) == ("NODE_EPOCH_EXPIRED", 0)
    assert world.outcome(GiveUpLog(0, 3, "by hand")) == ("NODE_EPOCH_NOT_EXIST", 0)
    assert world.outcome(GiveUpLog(7, 1, "by hand")) == ("NODE_EPOCH_NOT_EXIST", 0)
    world.do(ClaimFailover(1, 1, 0))
    assert world.outcome(LOST) == ("FAILOVER_UNDER_WAY", 0)
    world.do(ClaimFailover(1, 1, 0, gives_back=True))
    assert world.outcome(LOST) == ("OK", 5)
