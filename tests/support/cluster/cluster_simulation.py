"""Simulates a whole cluster in one thread, from one seed: nodes are stopped, killed, started again and cut off; a
metadata log, a lease board and a bucket fail; partitions are moved, and nodes are drained, beside clients and
maintenance.

    world clock (clients, the bucket) > nodes (``simulated_node``, a clock each) > clients (``simulated_clients``)

Afterwards everything is healed, and all partitions must take writes and be readable within HEALING_MS_MAX. The answers
that clients got are then compared with the records in the topics (``cluster_history``), and the store is checked.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import TypeVar

import msgspec

from siltstone.broker.topics.creating import NewTopic
from siltstone.broker.topics.registry import Topic
from siltstone.carrying.pipeline.kind import Budget, Scope
from siltstone.carrying.pipeline.running import run
from siltstone.carrying.pipeline.watch import Watch
from siltstone.maintenance.checking.check import check
from siltstone.maintenance.checking.findings import Severity
from siltstone.maintenance.kinds import chosen_kinds
from siltstone.maintenance.sweep.sweeping import sweep
from siltstone.metadata.buckets import bucket_list_of
from siltstone.metadata.client import MetadataClient
from siltstone.metadata.commands import DrainNode, MovePartitions
from siltstone.metadata.entities import NO_NODE
from siltstone.metadata.leases.board import MemoryBoard
from siltstone.metadata.refusals import JobNotRunning, Refusal
from siltstone.metadata.store.memory import MemoryLog
from siltstone.model.errors import SiltstoneError, Stale, Unavailable
from siltstone.model.limits import HOUR_MS, MINUTE_MS
from siltstone.object_store.buckets import Buckets
from siltstone.object_store.memory import MemoryStore
from siltstone.object_store.port import ObjectStore
from siltstone.offline.context import MaintenanceContext
from siltstone.offline.settings import GcSettings, KindSettings, MaintenanceSettings
from siltstone.offline.tasks import source_bytes as tasks_stores
from siltstone.offline.tasks.runner import RunFailed
from siltstone.runtime.clock import ManualClock
from support.cluster.cluster_history import ClusterHistory, anomalies_in
from support.cluster.simulated_clients import (
    Network,
    SimulatedClient,
    SimulatedConsumer,
    SimulatedProducer,
    read_partition,
)
from support.cluster.simulated_group import GROUP, SimulatedMember
from support.cluster.simulated_node import SMALL, SimulatedNode, task_factory
from support.engine.engine_world import settled
from support.engine.node_workload import COMPACTION, FailingRunner
from support.maintenance.compacting import carry_out, planned_round

T = TypeVar("T")
NODES, PARTITIONS, MEMBERS = 3, 4, 3
HEALING_MS_MAX = 2 * MINUTE_MS
GRACE_PERIOD_MS = 10 * MINUTE_MS
TURNS = 40

DATED = {"retention.ms": "20000", "segment.ms": "5000"}
KEYED = {"cleanup.policy": "compact", "segment.ms": "5000", "min.cleanable.dirty.ratio": "0.01"}
KINDS = KindSettings(
    grace_period_ms=MINUTE_MS // 2,  # longer than a node is frozen or cut off
    compaction=COMPACTION,
    maintenance=MaintenanceSettings(gc=GcSettings(target_size_bytes=16 * 1024)),
)
"""Makes the kinds of maintenance, without table export, which writes elsewhere."""


class ClusterSimulation:
    def __init__(self, seed: int, folder: Path, *, actions: int = 25) -> None:
        self.seed = seed
        self.rng = Random(seed)
        self.actions = actions
        self.clock = ManualClock()
        self.log, self.board = MemoryLog(), MemoryBoard()
        self.bucket = MemoryStore(self.clock, f"cluster-{seed}")
        self.buckets: dict[int, ObjectStore] = self._made_buckets()
        self.wal_in_bucket = self.rng.random() < 0.6
        are_on_one_machine = self.rng.random() < 0.6
        fault_rate = self.rng.choice([0.0, 0.01, 0.05])
        settings = SMALL
        if self.wal_in_bucket:
            settings = msgspec.structs.replace(
                SMALL, wal=msgspec.structs.replace(SMALL.wal, location="bucket:0")
            )
        self.nodes = [
            SimulatedNode(
                node_id, folder / f"node-{node_id}", self.log, self.board, self.buckets, self.clock, settings,
                seed * 100 + node_id * 10, fault_rate, "machine" if are_on_one_machine else f"machine-{node_id}",
            )
            for node_id in range(NODES)
        ]  # fmt: skip
        self.network = Network(self.nodes, self.clock, Random(seed + 1))
        self.history = ClusterHistory()
        self.counts: dict[str, int] = {}
        self.trace: list[str] = []
        self.clients: list[SimulatedClient] = []
        self.topic: Topic
        self.keyed: Topic
        self.keyed_producer: SimulatedProducer
        self._opening: dict[int, asyncio.Task[None]] = {}
        self._stopping: dict[int, asyncio.Task[None]] = {}
        self._restart_at_ms: dict[int, float] = {}
        self._until_ms: dict[int, float] = {}

    def _made_buckets(self) -> dict[int, ObjectStore]:
        return {0: self.bucket}

    def count(self, what: str, detail: object = "") -> None:
        self.counts[what] = self.counts.get(what, 0) + 1
        self.trace.append(f"{self.clock.now_ms() - 1_700_000_000_000} {what} {detail}")

    # -- the whole ---------------------------------------------------------------------------------------

    async def run(self) -> None:
        asyncio.get_running_loop().set_task_factory(task_factory)
        tasks_stores._opened.update({store.url: store for store in self.buckets.values()})
        try:
            await self._begin()
            running = [asyncio.ensure_future(client.run()) for client in self.clients]
            for _ in range(self.actions):
                self._act()
                await self._passes(self.rng.choice([100, 500, 2_000, 6_000]))
                _raise_failures(running)
            await self._disaster()
            await self._heal()
            for client in self.clients:
                client.is_finishing = True
            await self._until(lambda: all(task.done() for task in running), "clients come to their ends")
            _raise_failures(running)
            await self._read_everything()
            found = anomalies_in(self.history)
            assert not found, found[:5]
            await self._end()
        finally:
            for store in self.buckets.values():
                del tasks_stores._opened[store.url]
            for node in self.nodes:
                await node.kill()

    async def _begin(self) -> None:
        for node in self.nodes:
            self._start(node)
        await self._until(lambda: all(node.hears for node in self.nodes), "nodes start")
        self.topic = await self._created("t", PARTITIONS)
        await self._begin_what_maintenance_removes_from()
        details = (self.network, self.topic, self.history)
        for partition in range(PARTITIONS):
            for number in range(2):
                name = f"w{partition}{number}"
                self.clients.append(SimulatedProducer(partition, name, *details, self._another_rng()))
            self.clients.append(SimulatedConsumer(partition, f"c{partition}", *details, self._another_rng()))
        for number in range(MEMBERS):
            self.clients.append(SimulatedMember(f"m{number}", *details, self._another_rng()))

    def _another_rng(self) -> Random:
        return Random(self.rng.getrandbits(64))

    async def _begin_what_maintenance_removes_from(self) -> None:
        """Begins two topics beside the one whose every record is read in the end: a topic with retention, whose records
        are in the same objects, and one whose newest record of each key has to stay."""
        dated = await self._created("dated", 1, DATED)
        self.keyed = await self._created("keyed", 1, KEYED)
        for topic in (dated, self.keyed):
            producer = SimulatedProducer(
                0, topic.name, self.network, topic, ClusterHistory(), self._another_rng()
            )
            self.clients.append(producer)
        self.keyed_producer = producer

    async def _created(self, name: str, partitions: int, configs: Mapping[str, str] | None = None) -> Topic:
        topic = NewTopic(name=name, partition_count=partitions, configs=configs or {})

        async def create() -> Topic:
            life = self.nodes[0].life
            assert life is not None and life.broker is not None
            parts = life.broker.parts
            return parts.topics.by_name(name) or await life.start(parts.creation.create(topic))

        return await self._patiently(create)

    async def _disaster(self) -> None:
        """Does nothing here. Other simulations override it with a disaster, before everything works again."""

    async def _heal(self) -> None:
        """Everything works again, and stays so."""
        self.count("healed")
        for node in self.nodes:
            node.calm()
            if node.is_frozen:
                node.thaw()
            if node.life is not None:
                node.life.calls_left = -1
        self._until_ms.clear()
        self._restart_at_ms = dict.fromkeys(self._restart_at_ms, 0.0)
        written, committed = len(self.history.acknowledged), len(self.history.commits)
        await self._until(lambda: not self._stopping, "nodes that were told to end have ended")
        await self._until(lambda: all(node.hears for node in self.nodes), "all nodes serve again")
        await self._until(
            lambda: {one.place[0] for one in self.history.acknowledged[written:]} == set(range(PARTITIONS)),
            "every partition takes writes again",
        )
        await self._until(
            lambda: {
                one.partition
                for one in self.history.commits[committed:]
                if one.group == GROUP and one.ended_ms is not None
            } == set(range(PARTITIONS)),
            "the group reads and commits every partition again",
        )  # fmt: skip

    async def _read_everything(self) -> None:
        reader = SimulatedClient("reader", self.network, self.topic, self.history, self._another_rng())
        reading = asyncio.ensure_future(self._read_all(reader))
        await self._until(reading.done, "everything is read")
        reading.result()

    async def _read_all(self, reader: SimulatedClient) -> None:
        for partition in range(PARTITIONS):
            await read_partition(reader, partition, MINUTE_MS)
        await self._read_keyed()

    async def _read_keyed(self) -> None:
        history = ClusterHistory()
        reader = SimulatedClient("keyed", self.network, self.keyed, history, self._another_rng())
        await read_partition(reader, 0, MINUTE_MS)
        found = [history.read[place].value for place in sorted(history.read)]
        numbers = [int(value.partition(":")[2]) for value in found]
        assert numbers == sorted(set(numbers)), found
        assert set(self.keyed_producer.last_by_key.values()) <= set(found)

    async def _end(self) -> None:
        """Ends all nodes cleanly. Then maintenance finds nothing wrong, and in time nothing superfluous."""
        for node in self.nodes:
            await self._end_node(node)
        context = self._maintenance()
        for _ in range(2):
            self.clock.advance_ms(25 * HOUR_MS)
            sweep(context, GRACE_PERIOD_MS)
        for (
            bucket_id
        ) in context.buckets.urls:  # the next probe deletes what nodes left that were killed in one
            context.buckets.probe(bucket_id, "end")
        wrong = [one for one in check(context).findings if one.severity >= Severity.WARNING]
        assert not wrong, wrong

    async def _end_node(self, node: SimulatedNode) -> None:
        """Ends a node. A node that learns only now that it was failed over ends because of that, and is started again
        first."""
        while True:
            await self._until(lambda: node.hears, f"node {node.node_id} serves")
            life = node.life
            assert life is not None
            closing = life.start(life.close())
            await self._until(closing.done, f"node {node.node_id} ends")
            if not closing.cancelled():
                closing.result()
                await node.kill()
                self._restart_at_ms[node.node_id] = float("inf")
                return

    def _maintenance(self) -> MaintenanceContext:
        client = MetadataClient(self.log, self.clock, self._another_rng())
        buckets = Buckets(self.buckets)
        buckets.follow(lambda: bucket_list_of(client.image))
        return MaintenanceContext(client, buckets, self.clock, self._another_rng())

    # -- time --------------------------------------------------------------------------------------------

    async def _passes(self, duration_ms: float) -> None:
        end_ms = self.clock.monotonic_ms() + duration_ms
        while (left_ms := end_ms - self.clock.monotonic_ms()) > 0:
            self.clock.advance_ms(min(left_ms, self.rng.choice([20, 50, 100])))
            for node in self.nodes:
                node.keep_time()
            await settled(TURNS)
            await self._supervise()

    async def _until(self, look: Callable[[], object], what: str) -> None:
        deadline_ms = self.clock.monotonic_ms() + HEALING_MS_MAX
        while not look():
            if self.clock.monotonic_ms() > deadline_ms:
                raise AssertionError(f"not in {HEALING_MS_MAX} ms: {what}; {self._state()}")
            await self._passes(100)

    async def _patiently(self, attempt: Callable[[], Awaitable[T]]) -> T:
        for _ in range(50):
            task = asyncio.ensure_future(attempt())
            await self._until(task.done, "an attempt ends")
            with suppress(Unavailable, Refusal):
                return task.result()
        raise AssertionError("50 attempts failed")

    def _state(self) -> str:
        return "; ".join(
            f"node {node.node_id}: life {node.life is not None}, hears {node.hears}, frozen {node.is_frozen}, "
            f"opening {node.node_id in self._opening}"
            for node in self.nodes
        )

    # -- nodes: the supervisor of each machine ------------------------------------------------------------

    def _start(self, node: SimulatedNode) -> None:
        self._opening[node.node_id] = node.begin_life()
        self.count("started", node.node_id)

    async def _supervise(self) -> None:
        now_ms = self.clock.monotonic_ms()
        for node in self.nodes:
            life = node.life
            if node.node_id in self._until_ms and now_ms >= self._until_ms[node.node_id]:
                del self._until_ms[node.node_id]
                self._relieve(node)
            if life is not None and life.is_dead:
                await self._die(node, "at a call", self.rng.choice([500, 3_000, 20_000]))
            elif life is not None and life.has_failed and node.node_id not in self._stopping:
                self.count("failed", f"{node.node_id} {life.engine and life.engine._failure}")
                self._stopping[node.node_id] = life.start(life.close())
            elif life is not None and self._has_stopped(node):
                await self._die(node, "ended", self.rng.choice([500, 3_000, 20_000]))
            elif life is not None and self._has_not_started(node):
                await self._die(node, "did not start", 500)
            elif life is None and now_ms >= self._restart_at_ms.get(node.node_id, 0.0):
                self._start(node)

    def _has_not_started(self, node: SimulatedNode) -> bool:
        opening = self._opening.get(node.node_id)
        if opening is None or not opening.done():
            return False
        del self._opening[node.node_id]
        failure = None if opening.cancelled() else opening.exception()
        if failure is None:
            return False
        if not isinstance(failure, SiltstoneError):
            raise failure
        self.count("not started", f"{node.node_id}: {type(failure).__name__}: {failure}"[:200])
        return True

    def _has_stopped(self, node: SimulatedNode) -> bool:
        stopping = self._stopping.get(node.node_id)
        if stopping is None or not stopping.done():
            return False
        with suppress(SiltstoneError):  # as a process that ends with another exit status
            stopping.result()
        return True

    async def _die(self, node: SimulatedNode, why: str, pause_ms: float) -> None:
        self.count("died", f"{node.node_id} {why}")
        await node.kill()
        self._opening.pop(node.node_id, None)
        self._stopping.pop(node.node_id, None)
        self._restart_at_ms[node.node_id] = self.clock.monotonic_ms() + pause_ms

    def _relieve(self, node: SimulatedNode) -> None:
        self.count("relieved", node.node_id)
        node.reconnect()
        if node.is_frozen:
            node.thaw()

    # -- what happens ------------------------------------------------------------------------------------

    def _act(self) -> None:
        weights = self._weights()
        self.rng.choices(list(weights), list(weights.values()))[0]()

    def _weights(self) -> dict[Callable[[], None], int]:
        return {
            self._freeze: 3, self._kill_soon: 3, self._cut: 3, self._stop: 1, self._move: 6, self._drain: 1,
            self._compact: 2, self._maintain: 3, self._nothing: 2,
        }  # fmt: skip

    def _any_free(self) -> SimulatedNode | None:
        """Returns a node that runs without a fault. At least one node is spared."""
        free = [
            node
            for node in self.nodes
            if node.life is not None
            and not node.life.is_dead
            and node.node_id not in self._until_ms
            and node.node_id not in self._stopping
        ]
        return self.rng.choice(free) if len(free) > 1 else None

    def _freeze(self) -> None:
        node = self._any_free()
        if node is not None:
            self.count("frozen", node.node_id)
            node.freeze()
            self._until_ms[node.node_id] = self.clock.monotonic_ms() + self.rng.choice(
                [500, 3_000, 8_000, 20_000]
            )

    def _kill_soon(self) -> None:
        """Kills a node soon, in the middle of its work."""
        node = self._any_free()
        if node is not None and node.life is not None:
            self.count("to be killed", node.node_id)
            node.life.calls_left = self.rng.choice([1, 5, 20, 100])

    def _stop(self) -> None:
        """Stops a node as SIGTERM does."""
        node = self._any_free()
        if node is not None and node.life is not None and node.hears:
            self.count("told to end", node.node_id)
            self._stopping[node.node_id] = node.life.start(node.life.close())

    def _cut(self) -> None:
        node = self._any_free()
        if node is None:
            return
        what = self.rng.choice(["log", "board", "log and board", "bucket", "clients", "all"])
        self.count(f"cut from {what}", node.node_id)
        node.log.is_cut = what in ("log", "log and board", "all")
        node.board.is_cut = what in ("board", "log and board", "all")
        node.cut_from_buckets(is_cut=what in ("bucket", "all"))
        node.is_cut_from_clients = what in ("clients", "all")
        self._until_ms[node.node_id] = self.clock.monotonic_ms() + self.rng.choice([1_000, 8_000, 20_000])

    def _command(self, name: str, *commands: object) -> None:
        """Executes a command as a client outside the nodes, like the commands at a terminal."""
        client = MetadataClient(self.log, self.clock, self._another_rng())
        for command in commands:
            try:
                client.execute(command)  # type: ignore[type-var]
                self.count(name, command)
            except Refusal as refusal:
                self.count(f"{name} refused", f"{type(refusal).__name__}")

    def _move(self) -> None:
        image = MetadataClient(self.log, self.clock, self._another_rng()).image
        topic_id = self.rng.choice(sorted(image.topics))
        index = self.rng.randrange(len(image.topics[topic_id].partitions))
        target = self.rng.choice([*range(NODES), NO_NODE])
        self._command("moved", MovePartitions(((topic_id, index, target),)))

    def _drain(self) -> None:
        self._command("drained", DrainNode(self.rng.randrange(NODES)))

    def _compact(self) -> None:
        context = self._maintenance()
        settings = msgspec.structs.replace(COMPACTION, force_split_age_ms=self.rng.choice([0, HOUR_MS]))
        plan = planned_round(context, settings)
        try:
            carry_out(context, FailingRunner(self.rng), plan)
            self.count("nothing to compact" if plan.is_empty else "compacted")
        except (Stale, JobNotRunning, RunFailed) as overtaken:
            self.count(f"compaction ended: {type(overtaken).__name__}")

    def _maintain(self) -> None:
        """Runs some kinds of maintenance in their order, as the service does."""
        context = self._maintenance()
        kinds = [
            kind for kind in chosen_kinds(KINDS) if kind.name != "table-export" and self.rng.random() < 0.5
        ]
        for kind in kinds:
            watch, scope = Watch(kind.name, self.clock), Scope(is_forced=self.rng.random() < 0.5)
            try:
                report = run(context, kind, lambda: FailingRunner(self.rng), scope, Budget(), watch)
            except (Unavailable, Refusal) as refusal:
                self.count(f"{kind.name} ended: {type(refusal).__name__}")
            else:
                self.count(kind.name if report.done else f"{kind.name} with nothing done", report.in_one_line)

    def _nothing(self) -> None:
        return None


def _raise_failures(tasks: list["asyncio.Future[None]"]) -> None:
    for task in tasks:
        if task.done():
            task.result()
