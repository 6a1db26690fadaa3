"""Flushes that programs ask of a node through the metadata."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from siltstone.metadata.client import MetadataClient
from siltstone.metadata.commands import FenceNode, ResumeNode
from siltstone.metadata.flushes import AskFlush, NodeFlushes, flushes_of
from siltstone.offline.erasures import Erasure, put_erasure
from siltstone.stream_engine.components import EngineState
from support.engine.engine_world import SMALL, Node, World, settled
from support.scenarios import in_loop

PENDING = Erasure(
    erasure_id="e", topic_id="a" * 32, topic="t", hash_key=bytes(16), salt=bytes(16), keys=(), bounds=(3,),
    requested_ms=1,
)  # fmt: skip


def run(folder: Path, scenario: Callable[[World, Node], Awaitable[None]]) -> None:
    async def main() -> None:
        world = World(folder)
        async with world.node(SMALL) as node:
            await scenario(world, node)

    asyncio.run(main())


async def answered(world: World, node: Node, number: int) -> NodeFlushes:
    """Waits until the question is answered."""
    for _ in range(1_000):
        image = await node.metadata.refresh()
        if (found := flushes_of(image, 0)).answered >= number:
            return found
        world.clock.advance_ms(100)
        await settled()
    raise AssertionError(f"question {number} is not answered")


def client_of(world: World) -> MetadataClient:
    """Another process."""
    return MetadataClient(world.log, world.clock, world.rng)


def test_what_was_appended_is_committed_before_the_answer(tmp_path: Path) -> None:
    async def scenario(world: World, node: Node) -> None:
        stream = await node.new_stream()
        await node.append(stream, b"one", 3)
        assert node.metadata.image.streams[stream.stream_id].end_offset == 0
        number = client_of(world).execute(AskFlush(0))
        await answered(world, node, number)
        assert node.metadata.image.streams[stream.stream_id].end_offset == 3

    run(tmp_path, scenario)


def test_questions_that_come_during_a_flush_are_answered_by_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(world: World, node: Node) -> None:
        flushes: list[int] = []
        going = asyncio.Event()

        async def slow() -> None:
            flushes.append(1)
            await going.wait()

        monkeypatch.setattr(node.engine, "flush", slow)
        client = client_of(world)
        client.execute(AskFlush(0))
        await node.metadata.refresh()
        await settled()
        for _ in range(5):
            client.execute(AskFlush(0))
            await node.metadata.refresh()
        going.set()
        assert await answered(world, node, 6) == NodeFlushes(asked=6, answered=6)
        assert len(flushes) == 2

    run(tmp_path, scenario)


def test_a_suspended_node_answers_when_it_has_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(world: World, node: Node) -> None:
        client = client_of(world)
        held = asyncio.Event()
        real = node.engine.flush

        async def waits() -> None:
            await held.wait()
            await real()

        monkeypatch.setattr(node.engine, "flush", waits)
        number = client.execute(AskFlush(0))
        await node.metadata.refresh()
        client.execute(FenceNode(0, node.engine.node_epoch))
        held.set()
        await node.metadata.refresh()
        await settled()
        assert flushes_of(client.refresh(), 0).answered == 0 and node.engine.state is EngineState.RUNNING
        incarnation = client.image.nodes[0].incarnation
        client.execute(ResumeNode(0, node.engine.node_epoch, incarnation))
        assert (await answered(world, node, number)).answered == number

    run(tmp_path, scenario)


@in_loop
async def test_a_question_that_came_while_the_node_was_down_is_answered_at_its_start(tmp_path: Path) -> None:
    world = World(tmp_path)
    async with world.node(SMALL):
        pass
    client_of(world).execute(AskFlush(0))
    async with world.node(SMALL) as node:
        assert (await answered(world, node, 1)).answered == 1


def test_while_an_erasure_is_pending_nothing_of_the_uploaded_batches_is_kept(tmp_path: Path) -> None:
    async def scenario(world: World, node: Node) -> None:
        stream = await node.new_stream()
        await node.append(stream, b"one", 3)
        client = client_of(world)
        await answered(world, node, client.execute(AskFlush(0)))
        assert node.engine.statistics().tail.bytes_used, "readers find it in memory"

        client.execute(put_erasure(client.image, PENDING))
        await answered(world, node, client.execute(AskFlush(0)))
        assert not node.engine.statistics().tail.bytes_used
        assert [bytes(each.payload) for each in await node.engine.read(stream, 0, 1_000)] == [b"one"]

    run(tmp_path, scenario)
