"""The loads that nodes have put on the lease board, as the planner takes them: the fresh ones, by partition."""

from collections.abc import Iterable

import msgspec

from siltstone.cluster.balancing.goals import Load
from siltstone.cluster.balancing.measuring import STALE_MS
from siltstone.cluster.balancing.planning import BalancePlan, PartitionKey, plan_balance
from siltstone.metadata.image import MetadataImage
from siltstone.metadata.leases.board import NodeLoad


class NodeLoads(msgspec.Struct, frozen=True):
    """``partitions`` and ``others`` as ``plan_balance`` takes them; ``unmeasured``: nodes without a fresh one."""

    partitions: dict[PartitionKey, Load]
    others: dict[int, Load]
    unmeasured: tuple[int, ...]


def fresh_loads(image: MetadataImage, loads: Iterable[NodeLoad], now_ms: int) -> NodeLoads:
    """``now_ms``: by the clock of the metadata log. A load that a former leader of a partition measured
    counts as well: clients send the present leader as much."""
    fresh = {load.node_id: load for load in loads if abs(now_ms - load.written_ms) <= STALE_MS}
    return NodeLoads(
        partitions={
            (each.topic_id, each.index): Load(each.bytes_in, each.bytes_out, each.requests)
            for load in fresh.values()
            for each in load.partitions
        },
        others={node_id: Load(*load.others) for node_id, load in fresh.items()},
        unmeasured=tuple(node_id for node_id in image.nodes if node_id not in fresh),
    )


def plan_of(
    image: MetadataImage,
    loads: Iterable[NodeLoad],
    now_ms: int,
    resting: frozenset[PartitionKey] = frozenset(),
    more_max: int = 0,
) -> BalancePlan:
    fresh = fresh_loads(image, loads, now_ms)
    return plan_balance(image, fresh.partitions, fresh.others, fresh.unmeasured, resting, more_max)
