"""The loop that balances by itself, under manual clocks; the test does the leaders' part of a move."""

import asyncio
import logging

from siltstone.cluster.balancing.balancer import (
    BALANCER_INTERVAL_MS,
    LOOKS_MIN,
    MOVES_AT_A_TIME,
    ON,
    REST_MS,
    SWITCH_KEY,
    YOUNG_MS,
    Balancer,
    moves_in_turns,
)
from siltstone.cluster.balancing.goals import Load
from siltstone.cluster.balancing.planning import PlannedMove
from siltstone.metadata.commands import (
    CreateTopic,
    FenceNode,
    GiveUpPartitions,
    PartitionEnds,
    PutKey,
    RegisterNode,
    RemoveKey,
)
from siltstone.metadata.entities import NO_NODE, NodeLife, NodeListener
from siltstone.metadata.leases.board import NodeLoad
from siltstone.metadata.records import PartitionsMoving
from support.metadata.cluster_world import ClusterWorld
from support.scenarios import scenario

ID, OTHER_ID = f"{7:032x}", f"{8:032x}"
PARTITIONS = 9


class Balanced:
    """Nodes that all balance, and whose partitions have no traffic. All partitions are led by node 0."""

    def __init__(self, world: ClusterWorld) -> None:
        self.world = world
        self.loops = [Balancer(node.membership, node.metadata, node.clock, node.life) for node in world.nodes]
        for node, loop in zip(world.nodes, self.loops, strict=True):
            node.membership.measure = lambda node=node: NodeLoad(node.life.node_id, 1, node.clock.now_ms())
            loop.start()

    async def passes(self, duration_ms: int) -> None:
        """Lets time pass. Leaders give up partitions with a target at once."""
        for _ in range(duration_ms // 1_000):
            await self.world.passes(1_000)
            image = self.world.image
            for topic in image.topics.values():
                for index, partition in enumerate(topic.partitions):
                    if partition.target != NO_NODE:
                        stream = image.streams[partition.data_stream_id]
                        ends = PartitionEnds(topic.topic_id, index, stream.epoch, stream.end_offset, 0)
                        leader = self.world.nodes[partition.leader]
                        await leader.metadata.execute(GiveUpPartitions(partition.leader, 1, (ends,)))

    @property
    def counts(self) -> list[int]:
        return [self.world.image.leader_counts.get(node_id, 0) for node_id in range(3)]

    @property
    def turns(self) -> list[int]:
        """How many partitions each record moves."""
        return [len(record.targets) for record in self.world.written(PartitionsMoving)]


def in_world(scenario, *, is_on: bool = True) -> None:
    async def main() -> None:
        async with ClusterWorld(3) as world:
            node = world.nodes[0]
            await node.metadata.execute(CreateTopic(0, 1, "t", ID, PARTITIONS, leaders=(0,) * PARTITIONS))
            if is_on:
                await node.metadata.execute(PutKey(SWITCH_KEY, ON))
            balanced = Balanced(world)
            await asyncio.wait_for(scenario(balanced), 60)
            for loop in balanced.loops:
                await loop.close()

    asyncio.run(main())


@scenario(in_world, is_on=False)
async def test_it_is_off_until_it_is_switched_on_and_ends_when_it_is_switched_off(balanced: Balanced) -> None:
    node = balanced.world.nodes[2]
    await balanced.passes(LOOKS_MIN * BALANCER_INTERVAL_MS + 5_000)
    assert balanced.counts == [9, 0, 0]
    assert balanced.world.nodes[0].membership.loads == (), "nobody reads what nobody needs"
    await node.metadata.execute(PutKey(SWITCH_KEY, ON))
    await balanced.passes(2 * BALANCER_INTERVAL_MS)
    assert len(balanced.world.nodes[0].membership.loads) == 3
    assert node.membership.loads == ()
    await node.metadata.execute(RemoveKey(SWITCH_KEY))
    await balanced.passes(2 * BALANCER_INTERVAL_MS)
    assert balanced.counts == [9, 0, 0]


def test_it_looks_three_times_then_moves_a_few_at_a_time_and_tells_why(caplog) -> None:
    caplog.set_level(logging.WARNING, "siltstone.cluster.balancing")

    async def scenario(balanced: Balanced) -> None:
        await balanced.passes((LOOKS_MIN - 1) * BALANCER_INTERVAL_MS + 5_000)
        assert balanced.counts == [9, 0, 0]
        await balanced.passes(BALANCER_INTERVAL_MS + 20_000)
        assert balanced.counts == [4, 3, 2], "one more or less than the mean is in band"
        assert balanced.turns == [MOVES_AT_A_TIME, MOVES_AT_A_TIME, 1]
        assert len(caplog.records) == 5, "one balancer acts, and says each move"
        assert (
            "moves from broker 0 to broker 1 for balance, partitions: broker 0 has 9, broker 1 0"
            in caplog.text
        )

    in_world(scenario)


def test_while_brokers_are_started_again_one_after_the_other_nothing_is_moved(caplog) -> None:
    caplog.set_level(logging.INFO, "siltstone.cluster.balancing")

    async def scenario(balanced: Balanced) -> None:
        await balanced.passes((LOOKS_MIN - 1) * BALANCER_INTERVAL_MS + 5_000)
        node = balanced.world.nodes[2]
        listeners = (NodeListener("PLAINTEXT", "host-2", 9092),)
        await node.metadata.execute(RegisterNode(2, "another life", "wal-of-2", listeners=listeners))
        node.membership._life = NodeLife(2, 2, "another life")
        await balanced.passes(YOUNG_MS)
        assert balanced.counts == [9, 0, 0]
        assert "no partition is moved for balance: broker 2 has run for less than a minute" in caplog.messages
        await balanced.passes((LOOKS_MIN + 1) * BALANCER_INTERVAL_MS)
        assert balanced.counts == [4, 3, 2]

    in_world(scenario)


@scenario(in_world)
async def test_it_rests_after_a_plan_and_leaves_alone_what_it_moved(balanced: Balanced) -> None:
    world = balanced.world
    await balanced.passes((LOOKS_MIN + 1) * BALANCER_INTERVAL_MS)
    assert balanced.counts == [4, 3, 2]
    await world.nodes[0].metadata.execute(CreateTopic(0, 1, "u", OTHER_ID, 6, leaders=(1,) * 6))
    turns = len(balanced.turns)
    await balanced.passes(REST_MS)
    assert len(balanced.turns) == turns, "it rests"
    await balanced.passes(LOOKS_MIN * BALANCER_INTERVAL_MS)
    moved = {record.topic_id for record in world.written(PartitionsMoving)[turns:]}
    assert moved == {OTHER_ID}, "those of topic t have moved lately"


@scenario(in_world)
async def test_the_next_broker_balances_when_the_first_one_is_gone(balanced: Balanced) -> None:
    world = balanced.world
    await world.nodes[0].metadata.execute(CreateTopic(0, 1, "u", OTHER_ID, 6, leaders=(1,) * 6))
    await balanced.loops[0].close()
    await world.nodes[0].membership.close()
    await world.nodes[1].metadata.execute(FenceNode(0, 1))
    await balanced.passes((LOOKS_MIN + 1) * BALANCER_INTERVAL_MS)
    targets = [target for record in world.written(PartitionsMoving) for _, target in record.targets]
    assert set(targets) == {2}


def move(index: int, source: int, target: int) -> PlannedMove:
    return PlannedMove(ID, "t", index, source, target, Load(), "why")


def test_in_a_turn_each_broker_has_few_moves_and_none_is_left_out() -> None:
    moves = [move(index, 0, 1 + index % 2) for index in range(5)]
    moves += [move(index, 3, 4) for index in (5, 6, 7)]
    turns = [[each.partition for each in turn] for turn in moves_in_turns(moves)]
    assert turns == [[0, 1, 5, 6], [2, 3, 7], [4]]
    assert list(moves_in_turns([])) == []
