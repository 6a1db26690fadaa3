"""Several brokers on one metadata log and one bucket, in one thread and by one manual clock. The access of each node to
the log can fail by itself (``FaultyLog``, ``HeldEntries``); leases are switched by hand."""

import asyncio
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import suppress
from enum import Enum, auto
from pathlib import Path
from random import Random
from typing import Any, NamedTuple, cast

import msgspec

from siltstone.broker.broker import KafkaBroker
from siltstone.broker.groups.settings import GroupSettings
from siltstone.broker.parts import BrokerParts
from siltstone.broker.peers import PeerUnreachable
from siltstone.broker.request import CloseConnection
from siltstone.broker.settings import BrokerSettings
from siltstone.broker.starting import start_broker
from siltstone.broker.topics.creating import NewTopic
from siltstone.broker.topics.registry import Topic
from siltstone.kafka_protocol.announced import ANNOUNCED
from siltstone.kafka_protocol.codec import decode, encode
from siltstone.kafka_protocol.headers import RequestHeader, decode_response_header, encode_request_header
from siltstone.kafka_protocol.notation import Message
from siltstone.metadata.commands import FenceNode, MovePartitions
from siltstone.metadata.entities import NodeListener, PartitionMetadata
from siltstone.metadata.log_entry import LogPosition
from siltstone.metadata.store.memory import MemoryLog
from siltstone.metadata.store.port import READ_BYTES_MAX, AppendUncertain, LogUnavailable, VersionMovedOn
from siltstone.model.access import NODE
from siltstone.object_store.buckets import Buckets
from siltstone.object_store.memory import MemoryStore
from siltstone.runtime.clock import ManualClock
from siltstone.runtime.tasks import TaskGroup
from siltstone.server.failing_over import NodeFailover
from siltstone.server.network.request_pipeline import RequestPipeline
from siltstone.stream_engine.components import EngineComponents
from siltstone.stream_engine.opening import NodeEnrolment
from siltstone.stream_engine.wal.file_wal import FileWriteAheadLog
from support.broker.broker_world import ENGINE, Client, HoldableCalls, response_of
from support.engine.engine_world import World, settled
from support.metadata.faulty_log import FaultyLog


class HeldEntries(FaultyLog):
    """While ``is_holding``, appends have no known outcome: their entries are under way, until ``land``. While
    ``is_unreadable``, nothing is read."""

    def __init__(self, log: MemoryLog) -> None:
        super().__init__(log)
        self.is_holding = self.is_unreadable = False
        self.under_way: list[tuple[bytes, LogPosition]] = []

    def append(self, entry: bytes, expected: LogPosition) -> LogPosition:
        if self.is_holding:
            self.under_way.append((entry, expected))
            raise AppendUncertain("no answer")
        return super().append(entry, expected)

    def read_after(
        self, version: int, limit: int, bytes_max: int = READ_BYTES_MAX
    ) -> list[tuple[int, bytes]]:
        self._refuse_if_unreadable()
        return super().read_after(version, limit, bytes_max)

    def head(self) -> LogPosition:
        self._refuse_if_unreadable()
        return super().head()

    def _refuse_if_unreadable(self) -> None:
        if self.is_unreadable:
            raise LogUnavailable("no answer")

    def land(self) -> int:
        """The entries that are under way arrive, in the order of sending. Returns how many entries were written."""
        landed = 0
        for entry, expected in self.under_way:
            with suppress(VersionMovedOn):
                self.log.append(entry, expected)
                landed += 1
        self.under_way = []
        return landed


class Fate(Enum):
    """What becomes of a question of one node to another."""

    LOST = auto()
    ANSWER_LOST = auto()


class LateAnswer(NamedTuple):
    """The question is asked at once, and the answer comes when the future is done; a future alone keeps the question
    back."""

    waits: "asyncio.Future[None]"


class Question(NamedTuple):
    """Of a node to another one."""

    asks: int
    asked: int
    request: Message


class ServingNode:
    """A node; ``holds_lease`` says whether it has its lease."""

    def __init__(self, node_id: int, folder: Path, cluster: "BrokerCluster", listener_name: str) -> None:
        self.node_id = node_id
        self.cluster = cluster
        self.log = HeldEntries(cluster.log)
        self.world = World(
            folder, log=self.log, store=cluster.store, clock=cluster.clock, rng=Random(node_id),
            wal_in_bucket=cluster.wal_in_bucket,
        )  # fmt: skip
        self.is_dead = False
        self.calls = HoldableCalls()
        self.holds_lease = True
        self.listeners = (NodeListener(listener_name, f"node-{node_id}.example", 9092),)
        self.broker: KafkaBroker
        self._connections = 0

    async def start(self) -> None:
        settings = msgspec.structs.replace(ENGINE, node_id=self.node_id)
        self.node = await self.world.open(
            settings, calls=self.calls, enrolment=NodeEnrolment(self.listeners, f"rack-{self.node_id}")
        )
        self.broker = await start_broker(
            self.node.engine, self.node.metadata, self.cluster.settings, GroupSettings(), self.world.clock,
            self.world.rng,
            is_lease_held=lambda: self.holds_lease, peers=ClusterPeers(self, self.cluster),
        )  # fmt: skip

    def die(self) -> None:
        """The node ends like a process that is killed: it makes no further call, and none of its calls is answered. A
        log in files is no longer locked."""
        self.is_dead = self.calls.is_frozen = True
        wal = self.world.newest_log
        if isinstance(wal, FileWriteAheadLog):
            for file in [*wal._live, wal._directory]:
                with suppress(OSError):
                    file.close()

    async def fail_over(self, dead: int) -> None:
        """A node takes the log over, as a server does; the dead node was fenced, and its log is in the bucket."""
        metadata = self.node.metadata
        components = EngineComponents(
            metadata,
            Buckets({0: self.world.store}),
            cast(Any, None),
            self.node.reader,
            self.calls,
            self.world.clock,
        )
        settings = msgspec.structs.replace(ENGINE, node_id=self.node_id)
        failover = NodeFailover(components, settings, self.calls, self.world.rng)
        await self.world.passing(failover.carry_out(metadata.image.nodes[dead]))

    async def stop(self) -> None:
        if self.is_dead:
            return
        await self.world.passing(self._close())  # a log in a bucket waits for its interval

    async def _close(self) -> None:
        await self.broker.close()
        await self.node.close()

    @property
    def parts(self) -> BrokerParts:
        return self.broker.parts

    def client(self) -> Client:
        self._connections += 1
        world: Any = self
        return Client(world, self._connections)


class NodeWay:
    """What a node sends to another one, and what comes back, as a connection between them: the other node begins and
    answers the requests as its network does (``RequestPipeline``)."""

    def __init__(self, other: ServingNode) -> None:
        self._client = other.client()
        self._client.connection.principal = NODE
        connection, handle = self._client.connection, other.broker.handle
        self._pipeline = RequestPipeline(
            lambda frame: handle(connection, frame),
            TaskGroup("way", lambda _: None),
            lambda: True,
            self._advance,
        )
        self._sent = 0
        self._waiting: dict[int, asyncio.Future[bytes]] = {}

    async def ask(self, request: Message) -> Any:
        version = min(type(request).versions[1], ANNOUNCED[request.api_key][1])
        self._sent += 1
        header = RequestHeader(request.api_key, version, self._sent, "a node")
        answer = self._waiting[self._sent] = asyncio.get_running_loop().create_future()
        self._pipeline.add([memoryview(bytearray(encode_request_header(header) + encode(request, version)))])
        self._advance()
        _, body = decode_response_header(request.api_key, version, await answer)
        return decode(response_of(type(request)), version, body)

    def _advance(self) -> None:
        answers: list[Any] = []
        while self._pipeline.advance(answers):
            pass
        sent = b"".join(answers)
        while sent:
            end = 4 + int.from_bytes(sent[:4], "big")
            frame, sent = sent[4:end], sent[end:]
            waiting = self._waiting.pop(int.from_bytes(frame[:4], "big"))
            waiting.done() or waiting.set_result(frame)
        if self._pipeline.failure is not None:
            for waiting in self._waiting.values():
                waiting.done() or waiting.set_exception(self._pipeline.failure)
            self._waiting.clear()


class ClusterPeers:
    """The way from one node to the others. What ``cluster.between_nodes`` returns for a question says what becomes of
    it; None: it is asked and answered."""

    def __init__(self, node: ServingNode, cluster: "BrokerCluster") -> None:
        self._node = node
        self._cluster = cluster
        self._ways: dict[int, NodeWay] = {}
        self._late: set[asyncio.Task[Any]] = set()

    async def ask(self, node_id: int, request: Message, answer: Any, time_limit_ms: float = 10_000) -> Any:
        question = Question(self._node.node_id, node_id, request)
        self._cluster.questions.append(question)
        fate = self._cluster.between_nodes(question)
        if isinstance(fate, asyncio.Future):
            await self._held(fate, node_id, request, time_limit_ms)
        other = self._cluster.nodes[node_id]
        if fate is Fate.LOST or other.is_dead:
            raise PeerUnreachable(node_id, "it does not answer")
        asked = asyncio.ensure_future(self._way_to(node_id).ask(request))
        late = asyncio.get_running_loop().create_future()
        timer = self._cluster.clock.call_after_ms(time_limit_ms, lambda: late.done() or late.set_result(None))
        try:
            await asyncio.wait({asked, late}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            timer.cancel()
        if isinstance(fate, LateAnswer):
            await fate.waits
        if fate is Fate.ANSWER_LOST or not asked.done() or self._node.is_dead:
            raise PeerUnreachable(node_id, "it does not answer in time")
        try:
            return asked.result()
        except CloseConnection as closed:
            raise PeerUnreachable(node_id, str(closed)) from closed

    async def _held(
        self, arrives: "asyncio.Future[None]", node_id: int, request: Message, time_limit_ms: float
    ) -> None:
        """The question is on its way. If that takes longer than the node waits, it arrives all the same, and nobody
        hears the answer."""
        late = asyncio.get_running_loop().create_future()
        timer = self._cluster.clock.call_after_ms(time_limit_ms, lambda: late.done() or late.set_result(None))
        await asyncio.wait({arrives, late}, return_when=asyncio.FIRST_COMPLETED)
        timer.cancel()
        if arrives.done():
            return

        def deliver(_: object) -> None:
            if not self._cluster.nodes[node_id].is_dead:
                answer = asyncio.ensure_future(self._way_to(node_id).ask(request))
                self._late.add(answer)
                answer.add_done_callback(self._late.discard)

        arrives.add_done_callback(deliver)
        raise PeerUnreachable(node_id, "it does not answer in time")

    def _way_to(self, node_id: int) -> NodeWay:
        if node_id not in self._ways:
            self._ways[node_id] = NodeWay(self._cluster.nodes[node_id])
        return self._ways[node_id]


class BrokerCluster:
    def __init__(
        self,
        folder: Path,
        count: int,
        listener_names: dict[int, str],
        *,
        wal_in_bucket: bool = False,
        settings: BrokerSettings = BrokerSettings(),  # noqa: B008
    ) -> None:
        self.settings = settings
        self.wal_in_bucket = wal_in_bucket
        self.clock = ManualClock()
        self.questions: list[Question] = []
        self.between_nodes: Callable[[Question], Fate | LateAnswer | asyncio.Future[None] | None] = lambda _: (
            None
        )
        self.log = MemoryLog()
        self.store = MemoryStore(self.clock)
        self.nodes = [
            ServingNode(node_id, folder / f"node-{node_id}", self, listener_names.get(node_id, "PLAINTEXT"))
            for node_id in range(count)
        ]

    async def topic(self, name: str = "t", leaders: tuple[int, ...] = (0,), **configs: str) -> Topic:
        """Makes a topic whose partitions are led by these nodes; every node knows it."""
        dotted = {key.replace("_", "."): value for key, value in configs.items()}
        made = await self.nodes[0].parts.creation.create(
            NewTopic(name=name, partition_count=len(leaders), leaders=leaders, configs=dotted)
        )
        await self.known()
        return made

    async def known(self) -> None:
        """Lets every node read the log to its head."""
        for node in self.nodes:
            if not node.is_dead:
                await node.node.metadata.refresh()
        await settled()

    async def dies(self, dead: int, by: int) -> None:
        """A node is killed, and another one fences it and fails it over; all other nodes know it then."""
        self.nodes[dead].die()
        living = self.nodes[by]
        await living.node.metadata.refresh()
        await living.node.metadata.execute(FenceNode(dead, living.node.metadata.image.nodes[dead].node_epoch))
        await living.fail_over(dead)
        await self.known()

    async def move(self, topic: Topic, target: int, index: int = 0) -> None:
        """The target is recorded, and known to all. What follows from it without time passing has happened when this
        returns."""
        await self.nodes[target].node.metadata.execute(MovePartitions(((topic.id, index, target),)))
        await self.known()

    async def passes(self, duration_ms: int, step_ms: int = 100) -> None:
        for _ in range(0, duration_ms, step_ms):
            self.clock.advance_ms(step_ms)
            await settled(120)

    async def until(self, look: Callable[[], object], limit_ms: int = 120_000) -> None:
        for _ in range(0, limit_ms, 100):
            if look():
                await self.known()
                return
            await self.passes(100)
        raise AssertionError(f"not in {limit_ms} ms")

    def partition(self, topic: Topic, index: int = 0) -> PartitionMetadata:
        """Returns the leader in the newest image of all nodes."""
        newest = max((node.node.metadata.image for node in self.nodes), key=lambda image: image.version)
        return newest.topics[topic.id].partitions[index]


def in_broker_cluster(
    scenario: Callable[[BrokerCluster], Awaitable[None]],
    count: int = 2,
    listener_names: dict[int, str] | None = None,
    *,
    wal_in_bucket: bool = False,
    settings: BrokerSettings = BrokerSettings(),  # noqa: B008
) -> None:
    async def main(folder: Path) -> None:
        cluster = BrokerCluster(
            folder, count, listener_names or {}, wal_in_bucket=wal_in_bucket, settings=settings
        )
        for node in cluster.nodes:
            await node.start()
        await cluster.known()
        await scenario(cluster)
        for node in cluster.nodes:
            await node.stop()

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(Path(folder)))
