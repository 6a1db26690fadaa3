"""Which node fails a dead one over, when, and what becomes of attempts that fail."""

import asyncio
import logging

import pytest

from siltstone.cluster.failovers import Failovers, has_open_streams
from siltstone.metadata.commands import (
    ClaimFailover,
    CloseStream,
    CreateTopic,
    FenceNode,
    OpenPartition,
    RegisterNode,
    ResumeNode,
)
from siltstone.metadata.decisions.nodes import opened_streams
from siltstone.metadata.entities import NO_NODE
from siltstone.metadata.refusals import NodeInUse
from siltstone.metadata.store.port import LogUnavailable
from siltstone.object_formats.log_file import DamagedWal
from support.metadata.cluster_world import ClusterWorld
from support.scenarios import scenario

ID = f"{7:032x}"
DEAD = 1


class Attempts:
    """Fails node DEAD over by the records alone, as ``fail_over`` does; ``failures`` are raised by the next attempts,
    after the claim."""

    def __init__(self, world: ClusterWorld) -> None:
        self.world = world
        self.by: list[int] = []
        self.failures: list[Exception] = []
        self.is_in_reach = True
        self.gives_back = True
        self.is_held_by_a_process = False
        self.held = asyncio.Event()
        self.held.set()
        self.loops = [
            Failovers(node.metadata, node.clock, node.life, lambda _: self.is_in_reach, self.of(node))
            for node in world.nodes
        ]
        for loop in self.loops:
            loop.start()

    def of(self, node):
        async def fail_over(dead):
            if self.is_held_by_a_process:
                raise NodeInUse("in use")
            life = node.life
            await node.metadata.execute(ClaimFailover(life.node_id, life.node_epoch, dead.node_id))
            self.by.append(life.node_id)
            await self.held.wait()
            if self.failures:
                if self.gives_back:
                    await self.back(node)
                raise self.failures.pop(0)
            command = RegisterNode(dead.node_id, life.incarnation, dead.wal_location, failover=True)
            registration = await node.metadata.execute(command)
            for stream in registration.opened_streams:
                await node.metadata.execute(
                    CloseStream(dead.node_id, registration.node_epoch, stream.stream_id, stream.epoch)
                )
            if self.gives_back:
                await self.back(node)

        return fail_over

    async def back(self, node):
        life = node.life
        await node.metadata.execute(ClaimFailover(life.node_id, life.node_epoch, DEAD, gives_back=True))

    async def end(self):
        self.held.set()
        for loop in self.loops:
            await loop.close()


async def in_world(scenario, count=3, is_dead=True):
    async with ClusterWorld(count) as world:
        node = world.nodes[DEAD]
        await node.metadata.execute(CreateTopic(DEAD, 1, "t", ID, 2, leaders=(DEAD, DEAD)))
        await node.metadata.execute(OpenPartition(DEAD, 1, ID, 0))
        await world.passes(200)
        attempts = Attempts(world)
        if is_dead:
            await node.membership.close()
            await attempts.loops[DEAD].close()
            await world.nodes[0].metadata.execute(FenceNode(DEAD, 1))
        await scenario(world, attempts)
        await attempts.end()


@scenario(in_world)
async def test_the_live_node_with_the_lowest_id_fails_a_dead_one_over_once(world, attempts, /) -> None:
    await world.passes(5_000)
    assert attempts.by == [0]
    assert not has_open_streams(world.image, DEAD)
    assert (world.image.nodes[DEAD].claimed_by, world.image.nodes[DEAD].failover) == (NO_NODE, True)


@scenario(in_world)
async def test_fo03_a_node_whose_log_is_out_of_reach_waits(world, attempts, /) -> None:
    attempts.is_in_reach = False
    version = world.image.version
    await world.passes(10_000)
    assert (attempts.by, world.image.version) == ([], version)


@scenario(in_world)
async def test_fo15_a_node_that_resumes_in_time_is_not_failed_over(world, attempts, /) -> None:
    attempts.is_in_reach = False
    await world.passes(500)
    await world.nodes[DEAD].metadata.execute(ResumeNode(DEAD, 1, world.nodes[DEAD].life.incarnation))
    attempts.is_in_reach = True
    await world.passes(3_000)
    assert attempts.by == []
    assert world.image.nodes[DEAD].is_live


@scenario(in_world, is_dead=False)
async def test_fo15_a_node_that_resumes_and_falls_silent_again_in_the_same_life_is_failed_over(
    world, attempts, /
) -> None:
    node = world.nodes[DEAD]
    for stream in opened_streams(world.image, DEAD):
        await node.metadata.execute(CloseStream(DEAD, 1, stream.stream_id, stream.epoch))
    await world.nodes[0].metadata.execute(FenceNode(DEAD, 1))
    await world.passes(1_000)
    attempts.is_in_reach = False
    await node.metadata.execute(ResumeNode(DEAD, 1, node.life.incarnation))
    await node.metadata.execute(OpenPartition(DEAD, 1, ID, 0))
    await node.membership.close()
    await world.nodes[0].metadata.execute(FenceNode(DEAD, 1))
    await world.passes(200)
    assert attempts.by == []
    attempts.is_in_reach = True
    await world.passes(2_000)
    assert attempts.by == [0]
    assert not has_open_streams(world.image, DEAD)


@scenario(in_world, is_dead=False)
async def test_nobody_is_failed_over_while_all_live(world, attempts, /) -> None:
    await world.passes(5_000)
    assert attempts.by == []


@scenario(in_world, is_dead=False)
async def test_a_node_that_ended_cleanly_needs_no_failover(world, attempts, /) -> None:
    node = world.nodes[DEAD]
    for stream in opened_streams(world.image, DEAD):
        await node.metadata.execute(CloseStream(DEAD, 1, stream.stream_id, stream.epoch))
    await node.metadata.execute(FenceNode(DEAD, 1))
    await world.passes(3_000)
    assert attempts.by == []


@scenario(in_world)
async def test_fo05_fo06_a_claimer_that_is_silent_is_followed_by_another_and_does_not_go_on(
    world, attempts, /
) -> None:
    attempts.held.clear()
    await world.passes(1_000)
    assert attempts.by == [0]
    await world.passes(3_000)
    assert attempts.by == [0], "while the claimer lives nobody else tries"
    world.freeze(0)
    await world.passes(9_000)
    assert attempts.by == [0, 2]
    attempts.held.set()
    await world.passes(1_000)
    assert world.image.nodes[DEAD].node_epoch == 2, "one of the two has registered"
    assert not has_open_streams(world.image, DEAD)


@scenario(in_world)
async def test_fo14_fo23_a_node_that_fails_leaves_the_dead_one_to_the_others(
    world, attempts, /, caplog
) -> None:
    attempts.failures = [DamagedWal("object 3 is damaged")]
    await world.passes(3_000)
    assert attempts.by == [0, 2]
    assert not has_open_streams(world.image, DEAD)
    (message,) = [each.getMessage() for each in caplog.records if each.levelno == logging.ERROR]
    assert "node 1 could not be failed over" in message and "object 3 is damaged" in message


@scenario(in_world, count=2)
async def test_an_only_node_tries_again_after_a_minute(world, attempts, /, caplog) -> None:
    attempts.failures = [DamagedWal("damaged")]
    await world.passes(55_000)
    assert attempts.by == [0]
    await world.passes(10_000)
    assert attempts.by == [0, 0]
    assert not has_open_streams(world.image, DEAD)


@scenario(in_world, count=2)
async def test_fo20_when_the_metadata_log_is_out_the_failover_is_tried_again_at_once(
    world, attempts, /, caplog
) -> None:
    attempts.failures = [LogUnavailable("the log is out")]
    await world.passes(3_000)
    assert attempts.by == [0, 0]
    assert not has_open_streams(world.image, DEAD)
    assert [each for each in caplog.records if each.levelno >= logging.ERROR] == []


@scenario(in_world, count=2)
async def test_a_bug_is_logged_and_does_not_end_the_loop(world, attempts, /, caplog) -> None:
    attempts.failures = [ValueError("a bug")]
    await world.passes(65_000)
    assert attempts.by == [0, 0]
    assert not has_open_streams(world.image, DEAD)
    assert "a bug" in caplog.text


@pytest.mark.parametrize("count", [2, 3])
def test_a_claim_whose_end_was_not_recorded_is_given_back(count):
    async def scenario(world, attempts):
        attempts.gives_back = False
        await world.passes(500)
        assert world.image.nodes[DEAD].claimed_by == 0
        await world.passes(2_500)
        assert attempts.by == [0]
        assert world.image.nodes[DEAD].claimed_by == NO_NODE

    asyncio.run(in_world(scenario, count))


@scenario(in_world, count=2)
async def test_fo10_no_claim_is_kept_while_a_process_holds_the_log(world, attempts, /) -> None:
    """The process may be the node itself, which waits for the end of the claim."""
    attempts.failures = [LogUnavailable("the answer was lost")]
    attempts.gives_back = False
    attempts.held.clear()
    await world.passes(500)
    assert world.image.nodes[DEAD].claimed_by == 0
    attempts.is_held_by_a_process = True
    attempts.held.set()
    await world.passes(3_000)
    assert world.image.nodes[DEAD].claimed_by == NO_NODE
    assert attempts.by == [0]


@scenario(in_world, count=2)
async def test_an_earlier_life_of_a_node_claims_nothing(world, attempts, /) -> None:
    node = world.nodes[0]
    await node.metadata.execute(RegisterNode(0, "newer", "wal-of-0"))
    await world.passes(3_000)
    assert attempts.by == []
