"""Nodes that fall silent, return, are drained and forgotten, and claims on their failover."""

import pytest

from siltstone.metadata.commands import (
    ClaimFailover,
    CloseStream,
    CreateStream,
    CreateTopic,
    DrainNode,
    FenceNode,
    MovePartitions,
    OpenStream,
    PlacePartitions,
    PrepareObjects,
    RegisterNode,
    ResumeNode,
    UnregisterNode,
)
from siltstone.metadata.decisions.membership import FAILOVERS_MAX
from siltstone.model.errors import Fenced, Unavailable
from support.metadata.metadata_world import HOUR_MS, MetadataWorld

ID = "0123456789abcdef" * 2


@pytest.fixture
def world() -> MetadataWorld:
    """Nodes 0 to 4 in their first lives; node 0 has stream 0 open."""
    made = MetadataWorld()
    for node_id in range(5):
        made.register_reachable(node_id, f"life of {node_id}")
    made.open_stream()
    return made


def test_n09_a_node_that_two_others_suspect_is_fenced_once(world) -> None:
    assert world.outcome(FenceNode(0, 1)) == ("OK", 1)
    assert world.outcome(FenceNode(0, 1)) == ("OK", 0)
    assert world.image.nodes[0].is_fenced


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        pytest.param(FenceNode(0, 1), "NODE_EPOCH_EXPIRED", id="an older life"),
        pytest.param(FenceNode(0, 3), "NODE_EPOCH_NOT_EXIST", id="a life to come"),
        pytest.param(FenceNode(77, 1), "NODE_EPOCH_NOT_EXIST", id="a node that never was"),
    ],
)
def test_n10_only_the_present_life_is_fenced(world, command, expected) -> None:
    world.register_reachable(0, "second")
    assert world.outcome(command) == (expected, 0)
    assert world.image.nodes[0].is_live


def test_n03_another_log_folder_is_refused_when_the_first_process_died_with_open_streams(world) -> None:
    world.fence(0)
    assert world.outcome(RegisterNode(0, "second", "another folder", log_epoch=0)) == ("NODE_LOG_BEHIND", 0)
    assert world.outcome(RegisterNode(0, "second", "wal-of-0", log_epoch=1)) == ("OK", 1)


def test_n21_a_recoverer_sends_no_beats_and_is_not_fenced_for_it(world) -> None:
    epoch = world.fail_over(0, by=1)
    assert world.outcome(FenceNode(0, epoch)) == ("FAILOVER_UNDER_WAY", 0)


def test_n11_a_fenced_node_is_told_to_resume_and_then_commits_the_same_ids(world) -> None:
    upload = world.upload((0, 0, 10))
    world.fence(0)
    refusal = world.answer(upload)
    assert (refusal.code, isinstance(refusal, Unavailable), world.written) == ("NODE_SUSPENDED", True, 0)
    assert world.outcome(PrepareObjects(1, HOUR_MS, node_id=0, node_epoch=1)) == ("NODE_SUSPENDED", 0)
    assert world.outcome(ResumeNode(0, 1, "life of 0")) == ("OK", 1)
    assert world.outcome(ResumeNode(0, 1, "life of 0")) == ("OK", 0)
    assert world.outcome(upload)[0] == "OK"
    assert world.ends(0) == (10,)


def test_n11_a_lower_life_of_a_fenced_node_has_to_stop(world) -> None:
    upload = world.upload((0, 0, 10))
    world.register_reachable(0, "second")
    world.fence(0)
    refusal = world.answer(upload)
    assert (refusal.code, isinstance(refusal, Fenced), world.written) == ("NODE_FENCED", True, 0)


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        pytest.param(ResumeNode(0, 1, "a stranger"), "NODE_FENCED", id="another process of the same epoch"),
        pytest.param(ResumeNode(0, 2, "life of 0"), "NODE_EPOCH_NOT_EXIST", id="an epoch to come"),
        pytest.param(ResumeNode(0, 0, "life of 0"), "NODE_FENCED", id="an epoch before"),
        pytest.param(ResumeNode(77, 1, "life of 0"), "NODE_FENCED", id="a node that is not registered"),
    ],
)
def test_who_may_not_resume(world, command, expected) -> None:
    world.fence(0)
    assert world.outcome(command) == (expected, 0)
    assert world.image.nodes[0].is_fenced


def test_a_node_whose_failover_is_claimed_does_not_resume(world) -> None:
    world.fence(0)
    world.do(ClaimFailover(1, 1, 0))
    assert world.outcome(ResumeNode(0, 1, "life of 0")) == ("NODE_FENCED", 0)
    world.fence(1)
    assert world.outcome(ResumeNode(0, 1, "life of 0")) == ("NODE_FENCED", 0), "the claimer may be back, too"
    world.do(ResumeNode(1, 1, "life of 1"))
    world.do(ClaimFailover(1, 1, 0, gives_back=True))
    assert world.outcome(ResumeNode(0, 1, "life of 0")) == ("OK", 1)


def test_n21_a_claim_is_held_by_one_live_node_and_taken_over_when_that_dies(world) -> None:
    assert world.outcome(ClaimFailover(1, 1, 0)) == ("NODE_IN_USE", 0), "node 0 is live"
    world.fence(0)
    assert world.outcome(ClaimFailover(1, 1, 0)) == ("OK", 1)
    assert world.outcome(ClaimFailover(1, 1, 0)) == ("OK", 0)
    assert world.outcome(ClaimFailover(2, 1, 0)) == ("FAILOVER_UNDER_WAY", 0)
    assert world.outcome(ClaimFailover(2, 1, 0, gives_back=True)) == ("OK", 0), "it is not its own"
    world.fence(1)
    assert world.outcome(ClaimFailover(2, 1, 0)) == ("OK", 1), "its claimer is fenced: taken over"
    world.do(ResumeNode(1, 1, "life of 1"))
    assert world.outcome(ClaimFailover(1, 1, 0)) == ("FAILOVER_UNDER_WAY", 0)


def test_a_claim_ends_with_the_life_of_its_claimer(world) -> None:
    world.fence(0)
    world.do(ClaimFailover(1, 1, 0))
    world.register_reachable(1, "second")
    assert world.outcome(ClaimFailover(2, 1, 0)) == ("OK", 1)


def test_one_failover_for_each_recoverer_and_two_in_all(world) -> None:
    assert FAILOVERS_MAX == 2
    for node_id in (0, 1, 2):
        world.fence(node_id)
    world.register_reachable(5)
    world.do(ClaimFailover(3, 1, 0))
    assert world.outcome(ClaimFailover(3, 1, 1)) == ("FAILOVER_UNDER_WAY", 0)
    world.do(ClaimFailover(4, 1, 1))
    assert world.outcome(ClaimFailover(5, 1, 2)) == ("FAILOVER_UNDER_WAY", 0)
    world.do(ClaimFailover(3, 1, 0, gives_back=True))
    assert world.outcome(ClaimFailover(5, 1, 2)) == ("OK", 1)


def test_a_node_does_not_claim_its_own_failover_nor_a_fenced_one_another_s(world) -> None:
    assert world.outcome(ClaimFailover(0, 1, 0)) == ("INVALID_REQUEST", 0)
    world.fence(0)
    world.fence(1)
    assert world.outcome(ClaimFailover(1, 1, 0)) == ("NODE_SUSPENDED", 0)


def test_only_the_claimer_registers_for_the_dead_node(world) -> None:
    register = RegisterNode(0, "life of 1", "elsewhere", failover=True)
    world.fence(0)
    assert world.outcome(register) == ("CLAIM_LOST", 0), "nobody claimed"
    world.do(ClaimFailover(1, 1, 0))
    assert world.outcome(RegisterNode(0, "life of 2", "", failover=True)) == ("CLAIM_LOST", 0)
    assert world.outcome(RegisterNode(0, "back again", "")) == ("FAILOVER_UNDER_WAY", 0), "the node itself"
    assert world.outcome(register) == ("OK", 1)
    assert world.outcome(register) == ("OK", 0)
    assert world.outcome(RegisterNode(0, "back again", "")) == ("FAILOVER_UNDER_WAY", 0)
    assert world.outcome(CloseStream(0, 2, 0, 0)) == ("OK", 1), "the recoverer closes what was open"


def test_fo22_a_recoverer_that_lost_its_claim_changes_nothing_when_it_wakes(world) -> None:
    world.fail_over(0, by=1)
    world.fence(1)
    world.do(ClaimFailover(2, 1, 0))
    assert world.outcome(RegisterNode(0, "life of 1", "", failover=True)) == ("CLAIM_LOST", 0)
    assert world.do(RegisterNode(0, "life of 2", "", failover=True)).node_epoch == 3
    assert world.outcome(CloseStream(0, 2, 0, 0)) == ("NODE_FENCED", 0), "the first recoverer's epoch"


def test_fo21_when_the_claimer_is_dead_the_node_recovers_itself(world) -> None:
    world.fence(0)
    world.do(ClaimFailover(1, 1, 0))
    world.fence(1)
    assert world.do(RegisterNode(0, "back again", "")).node_epoch == 2
    assert world.image.nodes[0].claimed_by == -1
    assert world.image.nodes[0].is_live


@pytest.mark.parametrize("is_compacted_first", [True, False])
def test_fo19_a_failover_and_a_compaction_of_the_dead_node_s_objects_both_commit(
    world, is_compacted_first
) -> None:
    world.do(world.upload((0, 0, 10)))
    world.do(world.upload((0, 10, 20)))
    compaction = world.compaction(world.start_job(), tuple(held[0] for held in world.held(0)), (0, 0, 20))
    epoch = world.fail_over(0, by=1)
    upload = world.upload((0, 20, 30), node_epoch=epoch)
    for command in (compaction, upload) if is_compacted_first else (upload, compaction):
        world.do(command)
    assert world.ends(0) == (30,)
    assert sorted((start, end) for _, start, end in world.held(0)) == [(0, 20), (20, 30)]


def test_a_new_life_ends_fence_and_drain(world) -> None:
    world.do(DrainNode(0))
    world.fence(0)
    world.register_reachable(0, "second")
    node = world.image.nodes[0]
    assert (node.is_fenced, node.is_draining, node.is_live) == (False, False, True)


def test_a_drain_is_recorded_once_and_taken_back(world) -> None:
    assert world.outcome(DrainNode(0)) == ("OK", 1)
    assert world.outcome(DrainNode(0)) == ("OK", 0)
    assert world.image.nodes[0].is_draining
    assert world.outcome(DrainNode(0, False)) == ("OK", 1)
    assert not world.image.nodes[0].is_draining
    assert world.outcome(DrainNode(77)) == ("NODE_EPOCH_NOT_EXIST", 0)


def test_n14_the_last_node_is_not_drained(world) -> None:
    for node_id in (1, 2):
        world.do(DrainNode(node_id))
    for node_id in (3, 4):
        world.fence(node_id)
    assert world.outcome(DrainNode(0)) == ("LAST_NODE", 0)


def test_n17_unregistered_is_who_is_dead_has_no_open_stream_and_leads_nothing(world) -> None:
    world.do(CreateTopic(0, 1, "flights", ID, 1, leaders=(0,)))
    assert world.outcome(UnregisterNode(0)) == ("NODE_IN_USE", 0), "live"
    world.fence(0)
    assert world.outcome(UnregisterNode(0)) == ("NODE_IN_USE", 0), "with an open stream"
    epoch = world.fail_over(0, by=1)
    world.do(CloseStream(0, epoch, 0, 0))
    assert world.outcome(UnregisterNode(0)) == ("FAILOVER_UNDER_WAY", 0)
    world.do(ClaimFailover(1, 1, 0, gives_back=True))
    assert world.outcome(UnregisterNode(0)) == ("NODE_IN_USE", 0), "it leads a partition"
    world.do(PlacePartitions(1, 1, ((ID, 0),)))
    assert world.outcome(UnregisterNode(0))[0] == "OK"
    assert 0 not in world.image.nodes
    assert world.outcome(UnregisterNode(0)) == ("OK", 0)


def test_rule_7_the_epochs_of_a_forgotten_node_are_not_given_out_again(world) -> None:
    for life in ("second", "third"):
        world.register_reachable(3, life)
    world.fence(3)
    world.do(UnregisterNode(3))
    assert world.outcome(CreateStream(3, 3)) == ("NODE_EPOCH_NOT_EXIST", 0)
    assert world.register_reachable(3, "fourth") == 4
    assert world.outcome(CreateStream(3, 3)) == ("NODE_EPOCH_EXPIRED", 0), "the zombie of its third life"
    assert world.register_reachable(7) == 4, "no node begins below"
    world.fence(4)
    world.do(UnregisterNode(4))
    assert world.register_reachable(8) == 4, "a lower epoch than before takes nothing back"


def test_a_fenced_node_opens_nothing_and_is_no_place_for_partitions(world) -> None:
    world.do(CreateTopic(0, 1, "flights", ID, 1, leaders=(1,)))
    world.fence(1)
    assert world.outcome(OpenStream(1, 1, 1, 0)) == ("NODE_SUSPENDED", 0)
    assert world.outcome(MovePartitions(((ID, 0, 2),))) == ("OK", 1), "it gives it up when it is back"
