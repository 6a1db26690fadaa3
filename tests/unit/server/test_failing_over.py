"""Nodes in one process: one dies, another has its streams closed and its partitions. Their logs are in the bucket, or
in files of one machine; and the start of a node whose log another one has locked."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from socket import gethostname

import pytest
from msgspec.structs import replace

from siltstone.metadata.commands import CreateTopic, FenceNode, OpenPartition
from siltstone.metadata.entities import NO_NODE, NodeListener, NodeMetadata, StreamState
from siltstone.metadata.image import MetadataImage
from siltstone.metadata.refusals import NodeInUse
from siltstone.runtime.blocking import InlineCalls
from siltstone.runtime.clock import ManualClock, SystemClock
from siltstone.runtime.randomness import seeded_randomness
from siltstone.server.components import Node, open_node
from siltstone.server.failing_over import NodeFailover, wal_in_turn
from siltstone.server.settings.node import load_node_settings
from siltstone.stream_engine.components import EngineComponents
from siltstone.stream_engine.settings import EngineSettings
from siltstone.stream_engine.wal.attached import AttachedLog, NotAnAttachedLog
from siltstone.stream_engine.wal.opening import WalOutOfReach
from siltstone.stream_engine.wal.port import WalInUse
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

    async def open(self, node_id: int, recover: tuple[Path, ...] = (), **places: str) -> Node:
        flags = {"engine.node_id": str(node_id), "engine.wal.location": self._location, **places}
        settings = load_node_settings(self.folder, environment={}, flags=flags)
        listeners = (NodeListener("PLAINTEXT", "127.0.0.1", 9092 + node_id),)
        self.nodes[node_id] = await self._opened.enter_async_context(
            open_node(settings, listeners=listeners, recover=recover)
        )
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

    async def lets_go_of_its_log(self) -> None:
        """As the lock of a process that has ended; closing an engine that was abandoned uploads nothing."""
        await self.nodes[DEAD].engine.close()


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


def failover_of(nodes, host):
    node = nodes.nodes[0]
    parts = EngineComponents(node.metadata, node.buckets, None, node.reader, InlineCalls(), SystemClock())
    return NodeFailover(parts, EngineSettings(), InlineCalls(), seeded_randomness(1), host)


def test_fo02_fo03_a_log_in_files_is_reached_on_its_machine_only(tmp_path):
    async def scenario(nodes):
        image = await nodes.image()
        failover = failover_of(nodes, gethostname())
        assert image.nodes[1].wal_location == f"file://{gethostname()}{tmp_path}/wal/node-1"
        assert failover.reaches(image.nodes[1])
        assert not failover_of(nodes, "another").reaches(image.nodes[1])
        without_machine = replace(image.nodes[1], wal_location=f"file://{tmp_path}/wal/node-1")
        assert not failover.reaches(without_machine)
        assert not failover_of(nodes, "").reaches(without_machine)
        in_bucket = replace(image.nodes[1], wal_location="bucket:0/wal/5a/1")
        assert failover.reaches(in_bucket)
        assert not failover.reaches(replace(in_bucket, wal_location="bucket:3/wal/5a/1"))

    run(scenario, tmp_path, location="file")


def test_fo02_a_dead_nodes_log_in_files_is_replayed_by_another_node_of_the_machine(tmp_path):
    async def scenario(nodes):
        stream_id = await nodes.dies()
        await nodes.lets_go_of_its_log()
        image = await nodes.failed_over()
        found = image.streams[stream_id]
        assert (found.state, found.end_offset) == (StreamState.CLOSED, len(PAYLOADS))
        assert image.nodes[DEAD].node_epoch == 2
        await nodes.open(DEAD)
        assert (await nodes.image()).nodes[DEAD].is_live

    run(scenario, tmp_path, location="file")


def test_fo10_a_process_that_is_only_stopped_keeps_its_log_and_nobody_the_claim(tmp_path):
    async def scenario(nodes):
        await nodes.dies()
        image = await nodes.image()
        with pytest.raises(NodeInUse, match=r"node 2 may still run: the write-ahead log in .* is in use"):
            await failover_of(nodes, gethostname()).carry_out(image.nodes[DEAD])
        await asyncio.sleep(0.5)  # the loops of the others look meanwhile
        node = (await nodes.image()).nodes[DEAD]
        assert (node.node_epoch, node.claimed_by, node.failover) == (1, NO_NODE, False)

    run(scenario, tmp_path, location="file")


def test_a_log_whose_folder_is_gone_is_out_of_reach(tmp_path):
    async def scenario(nodes):
        image = await nodes.image()
        gone = replace(image.nodes[DEAD], wal_location=f"file://here{tmp_path}/gone")
        failover = failover_of(nodes, "here")
        assert failover.reaches(gone)
        with pytest.raises(WalOutOfReach, match="start that node"):
            await failover.carry_out(gone)
        assert not (tmp_path / "gone").exists()

    run(scenario, tmp_path, location="file")


HERE, GONE = gethostname(), "a-machine-that-is-gone"


def test_fo03_fo25_the_log_on_an_attached_disk_is_recovered_by_the_node_that_was_given_it(
    tmp_path, monkeypatch, caplog
):
    """Node DEAD was on another machine. Its partitions wait until a node is started with its disk, and the node starts
    again on its own machine with another disk."""

    async def scenario(nodes):
        stream_id = await nodes.dies()
        await nodes.lets_go_of_its_log()
        attached = tmp_path / "attached"
        (tmp_path / "wal" / f"node-{DEAD}").rename(attached)
        await asyncio.sleep(0.3)  # the loops of the others look meanwhile
        image = await nodes.image()
        assert image.nodes[DEAD].wal_location.startswith(f"file://{GONE}/")
        assert image.streams[stream_id].state is StreamState.OPENED
        assert image.nodes[DEAD].claimed_by == NO_NODE
        await nodes.open(3, recover=(attached,))
        found = (await nodes.failed_over()).streams[stream_id]
        assert (found.state, found.end_offset) == (StreamState.CLOSED, len(PAYLOADS))
        assert f"the write-ahead log of node {DEAD} in {attached} is replayed now" in caplog.text
        await nodes.open(DEAD, wal_folder="another-disk")
        assert (await nodes.image()).nodes[DEAD].is_live

    hosts = iter((HERE, HERE, GONE))  # of the nodes 0, 1 and DEAD
    monkeypatch.setattr("siltstone.server.components.gethostname", lambda: next(hosts, HERE))
    run(scenario, tmp_path, location="file")


def test_fo25_an_attached_log_is_not_reached_when_the_node_has_had_another_since(tmp_path):
    async def scenario(nodes):
        node, image = nodes.nodes[0], await nodes.image()
        gone = replace(image.nodes[DEAD], wal_location=f"file://{GONE}/wal", log_epoch=4)
        parts = EngineComponents(node.metadata, node.buckets, None, node.reader, InlineCalls(), SystemClock())

        def reaches(epoch):
            attached = {DEAD: AttachedLog(tmp_path, DEAD, epoch)}
            failover = NodeFailover(
                parts, EngineSettings(), InlineCalls(), seeded_randomness(1), "here", attached
            )
            return failover.reaches(gone)

        assert [reaches(epoch) for epoch in (3, 4, 5)] == [False, True, True]

    run(scenario, tmp_path, location="file")


def test_fo25_a_start_that_names_a_wrong_log_is_refused_before_anything_is_registered(tmp_path):
    async def scenario(nodes):
        with pytest.raises(NotAnAttachedLog, match="holds no write-ahead log"):
            await nodes.open(3, recover=(tmp_path,))
        assert 3 not in (await nodes.image()).nodes

    run(scenario, tmp_path, location="file")


class LockedLog:
    """What opens a log that another process has locked, until ``is_free``."""

    def __init__(self):
        self.is_free, self.tries = False, 0

    def __call__(self):
        self.tries += 1
        if not self.is_free:
            raise WalInUse("in use")
        return "the log"


async def passes(clock, duration_ms):
    for _ in range(duration_ms // 100 + 1):
        await asyncio.sleep(0)
        clock.advance_ms(100)
        await asyncio.sleep(0)


async def a_start(is_live, claimed_by, scenario):
    """A node starts whose log is locked."""
    clock, log = ManualClock(), LockedLog()
    claimer = NodeMetadata(1, 7, "other", failover=False, wal_location="file://here/other")
    node = replace(
        claimer,
        node_id=DEAD,
        is_fenced=not is_live,
        claimed_by=claimed_by,
        claimed_by_epoch=claimer.node_epoch,
    )
    images = [MetadataImage(nodes={DEAD: node, 1: claimer})]

    async def refresh():
        return images[-1]

    starting = asyncio.ensure_future(wal_in_turn(log, InlineCalls(), refresh, DEAD, clock))
    await passes(clock, 0)
    await scenario(clock, log, images, starting)


def test_a_start_waits_while_another_node_of_the_machine_has_its_log_for_the_failover():
    async def scenario(clock, log, images, starting):
        await passes(clock, 60_000)
        assert not starting.done()
        log.is_free = True
        await passes(clock, 1_000)
        assert await starting == "the log"

    asyncio.run(a_start(is_live=False, claimed_by=1, scenario=scenario))


def test_a_start_waits_a_little_for_a_log_that_is_locked_before_the_claim():
    async def scenario(clock, log, images, starting):
        await passes(clock, 4_000)
        assert not starting.done()
        log.is_free = True
        await passes(clock, 1_000)
        assert await starting == "the log"

    asyncio.run(a_start(is_live=False, claimed_by=NO_NODE, scenario=scenario))


def test_a_start_is_refused_when_a_process_that_nobody_fails_over_has_the_log():
    async def scenario(clock, log, images, starting):
        await passes(clock, 10_000)
        with pytest.raises(WalInUse):
            await starting
        assert log.tries > 2

    asyncio.run(a_start(is_live=False, claimed_by=NO_NODE, scenario=scenario))


def test_a_start_is_refused_at_once_while_the_node_lives():
    async def scenario(clock, log, images, starting):
        with pytest.raises(WalInUse):
            await starting
        assert log.tries == 1

    asyncio.run(a_start(is_live=True, claimed_by=NO_NODE, scenario=scenario))
