"""Two nodes with a history from one seed die, and the metadata loses its newest entries: any number of them (rule 13).

After the history each possible end of the metadata log is tried: bucket and logs are as they were at the death, the
metadata log ends earlier, and both nodes are started on it, or one fails the other over. Every record that was
acknowledged and is in a log only must then be in a log still, or be read through the metadata that was started with.
When everything was refused, the whole metadata log is put back, and every acknowledged record is there.
"""

import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random

import msgspec
from msgspec.structs import replace

from siltstone.metadata.client import MetadataClient
from siltstone.metadata.commands import (
    AlterTopicConfigs,
    CreateTopic,
    DeleteTopic,
    FenceNode,
    GiveUpPartitions,
    MovePartitions,
    PartitionEnds,
)
from siltstone.metadata.entities import NodeListener, StreamState
from siltstone.metadata.image import MetadataImage
from siltstone.metadata.log_entry import LogPosition, link_of
from siltstone.metadata.store.memory import MemoryLog
from siltstone.metadata.store_id import store_id_of
from siltstone.model.errors import CorruptData, InvalidRequest, SiltstoneError
from siltstone.model.objects import ObjectState, object_key
from siltstone.model.record_batch import RecordBatch
from siltstone.object_formats.log_file import (
    LOG_FILE_HEADER_BYTES,
    WalRecord,
    decode_log_file_header,
    decode_records,
)
from siltstone.object_formats.wal_object import (
    WAL_PREFIX,
    WalObjectKind,
    decode_bulk,
    decode_wal_object,
    wal_prefix,
)
from siltstone.object_store.buckets import Buckets
from siltstone.object_store.memory import MemoryStore
from siltstone.runtime.clock import ManualClock
from siltstone.stream_engine.components import EngineComponents
from siltstone.stream_engine.failing_over import fail_over
from siltstone.stream_engine.opening import NodeEnrolment
from siltstone.stream_engine.stream import Stream
from siltstone.stream_engine.wal.attached import AttachedLog
from siltstone.stream_engine.wal.opening import open_wal_of
from support.engine.engine_world import SMALL, FreezableCalls, Node, World
from support.engine.objects import read_object

NODES = (0, 1)
ACTIONS = {
    "append": 30, "open": 14, "create": 4, "flush": 2, "trim": 4, "close": 3, "move": 6, "delete": 1, "configure": 2,
    "restart": 3, "failover": 2,
}  # fmt: skip
RARE = {"restart": 0.3, "failover": 0.3}
"""In most histories: each start marks the version of the metadata in the bucket, which refuses all that is older."""

REFUSALS = (CorruptData, InvalidRequest)


class Acknowledged(msgspec.Struct, frozen=True):
    stream_id: int
    base_offset: int
    end_offset: int
    payload: bytes


class State:
    """Everything that outlives the nodes, at one moment."""

    def __init__(self, entries: list[bytes], objects: dict[str, object], logs: Path) -> None:
        self.entries = entries
        self.objects = objects
        self.logs = logs

    def log(self, version: int) -> MemoryLog:
        log = MemoryLog()
        put_entries(log, self.entries[:version])
        return log


class LostEntries:
    def __init__(self, seed: int, folder: Path, *, wal_in_bucket: bool, actions: int = 50) -> None:
        self.rng = Random(seed)
        weights = ACTIONS | (RARE if self.rng.random() < 0.7 else {})
        self.names, self.weights = list(weights), list(weights.values())
        self.folder = folder
        self.wal_in_bucket = wal_in_bucket
        self.actions = actions
        self.counts: Counter[str] = Counter()
        self.trace: list[str] = []
        self.acknowledged: list[Acknowledged] = []
        self._topics = 0
        self.tries = 0
        self._nodes: dict[int, Node | None] = dict.fromkeys(NODES)
        self._handles: dict[str, tuple[int, Stream, Stream]] = {}

    async def run(self) -> None:
        history = folder_of(self.folder / "history")
        self.world = self._world(history, MemoryLog(), {})
        for node_id in NODES:
            self._nodes[node_id] = await opened(self.world, node_id)
        await self._create()
        for _ in range(self.actions):
            await self._act()
        for node_id in NODES:
            self._kill(node_id)
        state = State(list(self.world.log._entries), dict(self.world.store._objects), history)
        for version in range(len(state.entries), 0, -1):
            await self._try(state, version)

    def _world(self, folder: Path, log: MemoryLog, objects: dict[str, object]) -> World:
        clock = ManualClock()
        store = MemoryStore(clock)
        store._objects = dict(objects)
        rng = Random(self.rng.random())
        return World(
            folder,
            log=log,
            store=store,
            clock=clock,
            rng=rng,
            wal_in_bucket=self.wal_in_bucket,
            is_guarded=True,
        )

    def _said(self, what: str) -> None:
        self.counts[what.partition(" ")[0]] += 1
        self.trace.append(what)

    # -- the history -------------------------------------------------------------------------------------

    async def _act(self) -> None:
        for node in self._nodes.values():
            if node is not None:
                await node.metadata.refresh()
        name = self.rng.choices(self.names, self.weights)[0]
        await getattr(self, f"_{name}")()

    @property
    def _image(self) -> MetadataImage:
        return self._some_node().metadata.image

    def _some_node(self) -> Node:
        return self.rng.choice([node for node in self._nodes.values() if node is not None])

    async def _create(self) -> None:
        node = self._some_node()
        name, self._topics = f"t{self._topics}", self._topics + 1
        topic_id = f"{self._topics:032x}"
        leader = self.rng.choice([node_id for node_id in NODES if self._nodes[node_id] is not None])
        command = CreateTopic(
            node.engine.node_id, node.engine.node_epoch, name, topic_id, 1, leaders=(leader,)
        )
        await node.metadata.execute(command)
        self._said(f"create {name} at {leader}")

    def _any_topic(self) -> str | None:
        names = sorted(self._image.topic_ids)
        return self.rng.choice(names) if names else None

    async def _open(self) -> None:
        name = self._any_topic()
        if name is None or name in self._handles:
            return
        topic = self._image.topics[self._image.topic_ids[name]]
        partition = topic.partitions[0]
        node = self._nodes.get(partition.leader)
        if node is None:
            return
        ids = (partition.data_stream_id, partition.meta_stream_id)
        data, meta = await node.engine.open_partition(topic.topic_id, 0, ids)
        self._handles[name] = (node.engine.node_id, data, meta)
        self._said(f"open {name} {ids} at {node.engine.node_id} under {data.epoch}")

    def _any_open(self) -> tuple[str, Node, Stream, Stream] | None:
        if not self._handles:
            return None
        name = self.rng.choice(sorted(self._handles))
        node_id, data, meta = self._handles[name]
        node = self._nodes[node_id]
        assert node is not None
        return name, node, data, meta

    async def _append(self) -> None:
        if (found := self._any_open()) is None:
            return
        _, node, data, meta = found
        for _ in range(self.rng.randint(1, 4)):
            stream = data if self.rng.random() < 0.9 else meta
            payload = b"%d-%d|" % (stream.stream_id, len(self.acknowledged)) * self.rng.randint(1, 60)
            count = self.rng.randint(1, 5)
            base = await self.world.passing(node.engine.append(stream, payload, count), step_ms=20)
            self.acknowledged.append(Acknowledged(stream.stream_id, base, base + count, payload))
            self._said(f"append [{base}, {base + count}) of {stream.stream_id} at {node.engine.node_id}")

    async def _flush(self) -> None:
        node = self._some_node()
        await self.world.passing(node.engine.flush())
        self._said(f"flush {node.engine.node_id}")

    async def _trim(self) -> None:
        if (found := self._any_open()) is None:
            return
        _, node, data, _ = found
        offset = self.rng.randint(data.start_offset, data.confirmed_offset)
        await node.engine.trim(data, offset)
        self._said(f"trim {data.stream_id} to {offset}")

    async def _close(self) -> None:
        if (found := self._any_open()) is None:
            return
        name, node, data, meta = found
        await self.world.passing(node.engine.close_streams((data, meta)))
        del self._handles[name]
        self._said(f"close {name}")

    async def _move(self) -> None:
        if (found := self._any_open()) is None or None in self._nodes.values():
            return
        name, node, data, meta = found
        topic_id = node.metadata.image.topic_ids[name]
        await node.metadata.execute(MovePartitions(((topic_id, 0, 1 - node.engine.node_id),)))
        data.hold()
        meta.hold()
        await self.world.passing(node.engine.flush())
        ends = PartitionEnds(topic_id, 0, data.epoch, data.next_offset, meta.next_offset)
        command = GiveUpPartitions(node.engine.node_id, node.engine.node_epoch, (ends,))
        await node.metadata.execute(command)
        node.engine.forget_stream(data)
        node.engine.forget_stream(meta)
        del self._handles[name]
        self._said(f"move {name} from {node.engine.node_id}")

    async def _delete(self) -> None:
        if (found := self._any_open()) is None:
            return
        name, node, data, meta = found
        topic_id = node.metadata.image.topic_ids[name]
        await node.metadata.execute(DeleteTopic(node.engine.node_id, node.engine.node_epoch, topic_id))
        node.engine.forget_stream(data)
        node.engine.forget_stream(meta)
        del self._handles[name]
        self._said(f"delete {name}")

    async def _configure(self) -> None:
        name = self._any_topic()
        if name is not None:
            topic_id = self._image.topic_ids[name]
            await self._some_node().metadata.execute(
                AlterTopicConfigs(topic_id, {"n": str(self.rng.random())})
            )
            self._said(f"configure {name}")

    async def _restart(self) -> None:
        """A node dies, or ends well, and begins again."""
        node_id = self.rng.choice(NODES)
        node = self._nodes[node_id]
        ends_well = node is not None and self.rng.random() < 0.4
        if node is not None and ends_well:
            await self.world.passing(node.close())
            self._forget_handles(node_id)
        else:
            self._kill(node_id)
        self._nodes[node_id] = await opened(self.world, node_id)
        self._said(f"restart {node_id}")

    async def _failover(self) -> None:
        dead, by = self.rng.sample(NODES, 2)
        survivor = self._nodes[by]
        if survivor is None or self._nodes[dead] is None:
            return
        self._kill(dead)
        await fenced_and_failed_over(self.world, survivor, dead)
        if self.rng.random() < 0.7:
            self._nodes[dead] = await opened(self.world, dead)
        self._said(f"failover {dead}")

    def _kill(self, node_id: int) -> None:
        node = self._nodes[node_id]
        if node is not None:
            killed(node)
        self._nodes[node_id] = None
        self._forget_handles(node_id)

    def _forget_handles(self, node_id: int) -> None:
        self._handles = {name: held for name, held in self._handles.items() if held[0] != node_id}

    # -- what is left of it ------------------------------------------------------------------------------

    async def _try(self, state: State, version: int) -> None:
        """Starts both nodes on the metadata up to this version, and then on all of it."""
        self.tries += 1
        folder = self.folder / f"try-{self.tries}"
        shutil.copytree(state.logs, folder)
        world = self._world(folder, state.log(version), state.objects)
        outcomes = []
        first, second = self.rng.sample(NODES, 2)
        if _is_claimed(world, first, second):
            first, second = second, first  # it would wait for the one that was failing it over
        outcomes += await self._started(world, first)
        newest = newest_version_in_log(world, first)
        assert newest <= version or outcomes[0].startswith("refused"), (newest, version, outcomes)
        if _is_claimed(world, second, first):
            outcomes.append("waits")  # for the first one, which was refused
        else:
            outcomes += await self._started(world, second)
        self._check_nothing_is_dropped(world, state, version, outcomes)
        if not any(outcome == "started" for outcome in outcomes) or version == len(state.entries):
            self.counts["all refused" if "started" not in outcomes else "whole"] += 1
            if version == len(state.entries):
                assert "refused" not in " ".join(outcomes), outcomes
            whole = state.log(len(state.entries)) if "started" not in outcomes else world.log
            world = self._world(folder, whole, world.store._objects)
            for node_id in self.rng.sample(NODES, 2):
                killed(await opened(world, node_id))
            self._check_everything_is_there(world)
        shutil.rmtree(folder)

    async def _started(self, world: World, node_id: int) -> list[str]:
        """Starts a node. One that starts fails the other one over, now and then, as a living node does."""
        try:
            node = await opened(world, node_id)
        except REFUSALS as refusal:
            self.counts[f"refused with {type(refusal).__name__}"] += 1
            return [f"refused: {type(refusal).__name__}"]
        outcomes = ["started"]
        try:
            if self.rng.random() < 0.4:
                await fenced_and_failed_over(world, node, 1 - node_id)
                self.counts["failovers"] += 1
        except SiltstoneError as refusal:
            self.counts[f"failover refused with {type(refusal).__name__}"] += 1
            outcomes.append(f"refused: {type(refusal).__name__}")
        finally:
            killed(node)
        return outcomes

    def _check_nothing_is_dropped(
        self, world: World, state: State, version: int, outcomes: list[str]
    ) -> None:
        before = image_of(state.log(len(state.entries)), world)
        found = committed(world, image_of(world.log, world)) | in_logs(world)
        for each in self._needed(before):
            if before.streams[each.stream_id].end_offset >= each.end_offset:
                continue  # committed: the bucket has it, and marks guard the bucket
            assert each in found, (
                f"entries after {version} of {len(state.entries)} lost: {each} is gone, {outcomes}"
            )

    def _check_everything_is_there(self, world: World) -> None:
        image = image_of(world.log, world)
        found = committed(world, image)
        for each in self._needed(image):
            assert each in found, f"{each} is not read with the whole metadata"

    def _needed(self, image: MetadataImage) -> list[Acknowledged]:
        """Returns the acknowledged records that were neither trimmed nor deleted."""
        return [
            each for each in self.acknowledged
            if (stream := image.streams.get(each.stream_id)) is not None
            and stream.state is not StreamState.DELETED
            and each.end_offset > stream.start_offset
        ]  # fmt: skip


def folder_of(path: Path) -> Path:
    path.mkdir()
    return path


async def opened(world: World, node_id: int) -> Node:
    """Opens a node that others find. With its log in files it has a folder of its own."""
    listeners = (NodeListener("PLAINTEXT", f"host-{node_id}", 9092),)
    settings = replace(SMALL, node_id=node_id)
    folder, enrolment = world.folder / f"node-{node_id}", NodeEnrolment(listeners=listeners)
    return await world.passing(world.open(settings, wal=folder, enrolment=enrolment))


async def fenced_and_failed_over(world: World, node: Node, dead: int) -> None:
    """The node fences the dead one, which may not be registered, and fails it over."""
    metadata, calls = node.metadata, FreezableCalls()
    image = await metadata.refresh()
    if (registered := image.nodes.get(dead)) is None:
        return
    if registered.is_live:
        await metadata.execute(FenceNode(dead, registered.node_epoch))
    buckets, settings = Buckets({0: world.store}), replace(SMALL, node_id=node.engine.node_id)
    folder, store_id = world.folder / f"node-{dead}", store_id_of(image) or ""
    attached = None if world.wal_in_bucket else AttachedLog(folder, dead, registered.node_epoch)
    wal = open_wal_of(
        registered, SMALL.wal, buckets, store_id, calls, world.clock, world.rng, attached=attached
    )
    components = EngineComponents(metadata, buckets, wal, node.reader, calls, world.clock)
    try:
        await world.passing(fail_over(components, settings, dead, registered.wal_location))
    finally:
        await world.passing(wal.close())


def _is_claimed(world: World, node_id: int, by: int) -> bool:
    """Returns whether the metadata was cut in the middle of a failover of the node."""
    known = image_of(world.log, world).nodes.get(node_id)
    return known is not None and known.claimed_by == by


def put_entries(log: MemoryLog, entries: list[bytes]) -> None:
    """The metadata log ends with the last of these entries."""
    log._entries = list(entries)
    log._head = LogPosition(len(entries), link_of(entries[-1]).append_id)


def killed(node: Node) -> None:
    """The process is no more, and its lock is free."""
    node.calls.is_frozen = True
    directory = getattr(node.engine._wal, "_directory", None)
    if directory is not None:
        directory.close()


def image_of(log: MemoryLog, world: World) -> MetadataImage:
    return MetadataClient(log, world.clock, Random(1)).image


def _known(batch: RecordBatch) -> Acknowledged:
    return Acknowledged(batch.stream_id, batch.base_offset, batch.end_offset, bytes(batch.payload))


def committed(world: World, image: MetadataImage) -> set[Acknowledged]:
    """Returns what is read through this metadata."""
    found: set[Acknowledged] = set()
    for each in image.objects.values():
        if each.state is not ObjectState.COMMITTED:
            continue
        ranges = {(held.stream_id, held.start_offset, held.end_offset) for held in each.ranges}
        stored = world.store._objects.get(object_key(each.object_id))
        for batch in [] if stored is None else read_object(stored.content):
            if any(
                stream_id == batch.stream_id and start <= batch.base_offset and batch.end_offset <= end
                for stream_id, start, end in ranges
            ):
                found.add(_known(batch))
    return found


def in_logs(world: World) -> set[Acknowledged]:
    """Returns what the write-ahead logs hold, in files and in the bucket."""
    return {_known(record.batch) for record in _records_of_logs(world.folder, WAL_PREFIX, world)}


def newest_version_in_log(world: World, node_id: int) -> int:
    """Returns the newest version of the metadata with which a record in the node's log was appended."""
    records = _records_of_logs(world.folder / f"node-{node_id}", wal_prefix(node_id), world)
    return max((record.metadata_version for record in records), default=0)


def _records_of_logs(folder: Path, prefix: str, world: World) -> Iterator[WalRecord]:
    for path in folder.rglob("*.wal"):
        data = path.read_bytes()
        if any(data[:LOG_FILE_HEADER_BYTES]):
            position = decode_log_file_header(data).first_position
            yield from decode_records(memoryview(data)[LOG_FILE_HEADER_BYTES:], position)
    for key, stored in world.store._objects.items():
        if key.startswith(prefix):
            header, body = decode_wal_object(stored.content)
            if header.kind is WalObjectKind.BULK:
                yield from decode_bulk(header, body)
