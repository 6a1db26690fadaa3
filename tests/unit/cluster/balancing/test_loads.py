"""From the rows of the lease board to what the planner takes."""

from siltstone.cluster.balancing.goals import Load
from siltstone.cluster.balancing.loads import fresh_loads, plan_of
from siltstone.cluster.balancing.measuring import STALE_MS
from siltstone.metadata.leases.board import NodeLoad, PartitionLoad
from support.metadata.metadata_world import MetadataWorld

NOW_MS = 1_700_000_000_000


def image():
    world = MetadataWorld()
    for node_id in range(3):
        world.register_reachable(node_id)
    return world.image


def test_fresh_words_are_taken_and_old_ones_are_missing() -> None:
    load = PartitionLoad("t", 4, 1.0, 2.0, 3.0)
    loads = [
        NodeLoad(0, 1, NOW_MS - STALE_MS, (load,), (7.0, 8.0, 9.0)),
        NodeLoad(1, 1, NOW_MS - STALE_MS - 1, (PartitionLoad("t", 5, 1.0, 1.0, 1.0),)),
        NodeLoad(9, 1, NOW_MS + STALE_MS),
    ]
    fresh = fresh_loads(image(), loads, NOW_MS)
    assert fresh.partitions == {("t", 4): Load(1.0, 2.0, 3.0)}
    assert fresh.others == {0: Load(7.0, 8.0, 9.0), 9: Load()}
    assert fresh.unmeasured == (1, 2)


def test_a_plan_of_them_says_whose_word_is_missing() -> None:
    loads = [NodeLoad(node_id, 1, NOW_MS) for node_id in (0, 2)]
    assert (
        plan_of(image(), loads, NOW_MS).why_empty
        == "the load of broker 1 was not measured in the last half minute"
    )
    loads.append(NodeLoad(1, 1, NOW_MS))
    assert (
        plan_of(image(), loads, NOW_MS).why_empty
        == "every broker is within a fifth, or one partition, of the mean"
    )
