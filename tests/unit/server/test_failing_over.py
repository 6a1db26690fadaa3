"""Nodes with their logs in the bucket, in one process: one dies, another has its streams closed and its partitions."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from socket import gethostname

from msgspec.structs import replace

from siltstone.metadata.commands import CreateTopic, FenceNode, OpenPartition
from siltstone.metadata.entities import NO_NODE, NodeListener, StreamState
from siltstone.runtime.blocking import InlineCalls
from siltstone.runtime.randomness import seeded_randomness
from siltstone.server.components import Node, open_node
from siltstone.server.failing_over import NodeFailover
from siltstone.server.settings.store import load_settings
from siltstone.stream_engine.components import EngineComponents
from siltstone.stream_engine.settings import EngineSettings
from support.engine.engine_world import payloads_of

DEAD = 2
ID = f"{7:032x}"
PAYLOADS = [b"%d|" % number * 40 for number in range(10)]


class Nodes:
    """In an ``async with``: nodes of one store, by id. The bucket and the metadata are shared, and nothing else."""

    def __init__(self, folder: Path, location: str) -> None:
        self.folder, self._location = folder, location
        self._opened = AsyncExitStack()
        self.nodes: dict[int, Node] = {}

    async def __aenter__(self) -> "Nodes":
        for node_id in (0, 1, DEAD):
            await self.open(node_id)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._opened.aclose()

    async def open(self, node_id: int) -> Node:
        flags = {"engine.node_id": str(node_id), "engine.wal.location": self._location}
        settings = load_settings(self.folder, environment={}, flags=flags)
        listeners = (NodeListener("PLAINTEXT", "127.0.0.1", 9092 + node_id),)
        self.nodes[node_id] = await self._opened.enter_async_context(open_node(settings, listeners=listeners))
        return self.nodes[node_id]

    async def image(self):
        return await self.nodes[0].metadata.refresh()

    async def failed_over(self):
        """→ The image when node DEAD leads nothing and nobody has a claim on it."""
        while True:
            image = await self.image()
            leaders = {partition.leader for partition in image.topics[ID].partitions}
            if DEAD not in leaders and image.nodes[DEAD].failover and image.nodes[DEAD].claimed_by == NO_NODE:
                return image
            await asyncio.sleep(0.02)

    async def dies(self) -> int:
        """Node DEAD leads two partitions, has acknowledged records of one, and is killed. → The data stream."""
        node = self.nodes[DEAD]
        await node.metadata.execute(CreateTopic(DEAD, 1, "t", ID, 2, leaders=(DEAD, DEAD)))
        opened = await node.metadata.execute(OpenPartition(DEAD, node.engine.node_epoch, ID, 0))
        stream = await node.engine.open_stream(opened.data.stream_id, opened.data.epoch)
        for payload in PAYLOADS:
            await node.engine.append(stream, payload, 1)
        node.engine.abandon("killed")
        await node.place.leave()  # else it beats on, and resumes when it is fenced
        await self.nodes[0].metadata.execute(FenceNode(DEAD, node.engine.node_epoch))
        return stream.stream_id


def run(scenario, folder: Path, location: str = "bucket:0") -> None:
    async def in_nodes() -> None:
        async with Nodes(folder, location) as nodes:
            await scenario(nodes)

    asyncio.run(asyncio.wait_for(in_nodes(), 60))


def test_fo01_fo05_a_dead_nodes_partitions_are_led_by_the_living_and_its_records_are_read_once(tmp_path):
    async def scenario(nodes):
        stream_id = await nodes.dies()
        image = await nodes.failed_over()
        assert image.streams[stream_id].state is StreamState.CLOSED
        assert image.nodes[DEAD].node_epoch == 2, "one node has registered for the dead one"
        leader = nodes.nodes[image.topics[ID].partitions[0].leader]
        await leader.metadata.refresh()
        epoch = image.streams[stream_id].epoch + 1
        stream = await leader.engine.open_stream(stream_id, epoch)
        read: list[bytes] = []
        while len(read) < len(PAYLOADS):
            read += payloads_of(await leader.engine.read(stream, len(read), 1 << 20))
        assert read == PAYLOADS

    run(scenario, tmp_path)


def test_the_dead_node_comes_back_under_a_new_epoch_and_takes_partitions(tmp_path):
    async def scenario(nodes):
        await nodes.dies()
        await nodes.failed_over()
        back = await nodes.open(DEAD)
        found = (await nodes.image()).nodes[DEAD]
        assert (found.node_epoch, found.is_live) == (3, True), "another node had registered for it before"
        stream_id = await back.engine.create_stream()
        stream = await back.engine.open_stream(stream_id, 0)
        assert await back.engine.append(stream, b"again", 1) == 0

    run(scenario, tmp_path)


def test_a_node_that_is_back_at_once_has_its_log_replayed_once_by_whomever(tmp_path):
    """It recovers itself, or waits for the node that was faster."""

    async def scenario(nodes):
        stream_id = await nodes.dies()
        await nodes.open(DEAD)
        stream = (await nodes.image()).streams[stream_id]
        assert (stream.state, stream.end_offset) == (StreamState.CLOSED, len(PAYLOADS))

    run(scenario, tmp_path)


def test_fo03_a_log_in_files_is_left_to_its_node(tmp_path):
    async def scenario(nodes):
        image = await nodes.image()
        components = EngineComponents(
            nodes.nodes[0].metadata, nodes.nodes[0].buckets, None, nodes.nodes[0].reader, None, None
        )
        failover = NodeFailover(components, EngineSettings(), InlineCalls(), seeded_randomness(1))
        assert image.nodes[1].wal_location == f"file://{gethostname()}{tmp_path}/wal/node-1"
        assert not failover.reaches(image.nodes[1])
        in_bucket = replace(image.nodes[1], wal_location="bucket:0/wal/5a/1")
        assert failover.reaches(in_bucket)
        assert not failover.reaches(replace(in_bucket, wal_location="bucket:3/wal/5a/1"))

    run(scenario, tmp_path, location="file")
