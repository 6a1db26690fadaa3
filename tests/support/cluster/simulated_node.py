"""A node of a simulated cluster: the parts of a server's node, put together as ``server.components`` does, on a clock,
a metadata log, a lease board and a bucket of its own that fail by chance and can be cut off.

    node (outlives its processes: clock, connections, folder of the log) > life (one process)

``freeze`` is SIGSTOP: the node's clock stands still, no call to the outside begins or answers, and no request reaches
the node; what it had answered before may arrive. ``kill`` is SIGKILL: in addition its tasks end and its files close.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextlib import suppress
from contextvars import ContextVar, copy_context
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, TypeVar

import msgspec

from siltstone.broker.broker import KafkaBroker
from siltstone.broker.groups.settings import GroupSettings
from siltstone.broker.settings import BrokerSettings
from siltstone.broker.starting import start_broker
from siltstone.metadata.buckets import bucket_list_of
from siltstone.metadata.client import MetadataClient
from siltstone.metadata.entities import NodeListener
from siltstone.metadata.leases.board import Beat, BoardUnavailable, MemoryBoard, NodeLoad, NodeSecret
from siltstone.metadata.log_entry import LogPosition
from siltstone.metadata.service import MetadataService
from siltstone.metadata.store.memory import MemoryLog
from siltstone.metadata.store.port import READ_BYTES_MAX, LogUnavailable
from siltstone.metadata.store_id import put_store_id, store_id_of
from siltstone.object_store.buckets import Buckets
from siltstone.object_store.port import ObjectStore, StoreTransient
from siltstone.object_store.retrying import RetryingStore, RetrySettings
from siltstone.runtime.clock import ManualClock
from siltstone.server.bucket_identity import claim_added_buckets, claim_buckets
from siltstone.server.cluster_place import ClusterPlace
from siltstone.server.failing_over import NodeFailover, wal_in_turn
from siltstone.server.kafka_node import hand_over_everything
from siltstone.stream_engine.components import EngineComponents, EngineState
from siltstone.stream_engine.engine import StreamEngine
from siltstone.stream_engine.opening import NodeEnrolment, open_engine
from siltstone.stream_engine.reading.committed_reader import CommittedReader
from siltstone.stream_engine.settings import EngineSettings
from siltstone.stream_engine.wal.file_wal import FileWriteAheadLog
from siltstone.stream_engine.wal.opening import WalPlace, open_wal
from support.broker.broker_world import ENGINE
from support.engine.engine_world import SMALL_READ
from support.engine.faulty_store import Fault, FaultyStore
from support.metadata.chance_log import ChanceLog

T = TypeVar("T")
HAND_OVER_MS_MAX = 10_000

BROKER = BrokerSettings(offsets_topic_num_partitions=3)
SMALL = msgspec.structs.replace(
    ENGINE,
    upload=msgspec.structs.replace(ENGINE.upload, cache_block_bytes_max=16 * 1024, split_size_bytes=4 * 1024),
)

LIFE: ContextVar["Life | None"] = ContextVar("life", default=None)
"""The life that a task belongs to; tasks take it from those that start them."""


class NodeLog(ChanceLog):
    """A node's connection to the metadata log; ``skew_ms``: how far the node's wall clock is ahead of the log's."""

    is_cut = False
    skew_ms = 0

    def append(self, entry: bytes, expected: LogPosition) -> LogPosition:
        self._refuse_when_cut()
        return super().append(entry, expected)

    def read_after(
        self, version: int, limit: int, bytes_max: int = READ_BYTES_MAX
    ) -> list[tuple[int, bytes]]:
        self._refuse_when_cut()
        return super().read_after(version, limit, bytes_max)

    def head(self) -> LogPosition:
        self._refuse_when_cut()
        return super().head()

    def save_snapshot(self, position: LogPosition, chunks: Iterable[bytes]) -> None:
        self._refuse_when_cut()
        super().save_snapshot(position, chunks)

    read_only_note = ""

    def clock_offset_ms(self) -> int:
        return -self.skew_ms

    def _refuse_when_cut(self) -> None:
        if self.is_cut:
            raise LogUnavailable("cut off")


class NodeBoard:
    """A node's connection to the lease board."""

    def __init__(self, board: MemoryBoard, rng: Random, fault_rate: float) -> None:
        self._board = board
        self._rng = rng
        self.fault_rate = fault_rate
        self.is_cut = False

    def beat(self, beat: Beat) -> None:
        self._may_fail()
        self._board.beat(beat)

    def beats(self) -> tuple[Beat, ...]:
        self._may_fail()
        return self._board.beats()

    def put_load(self, load: NodeLoad) -> None:
        self._may_fail()
        self._board.put_load(load)

    def loads(self) -> tuple[NodeLoad, ...]:
        self._may_fail()
        return self._board.loads()

    def put_secret(self, secret: NodeSecret) -> None:
        self._may_fail()
        self._board.put_secret(secret)

    def secrets(self) -> tuple[NodeSecret, ...]:
        self._may_fail()
        return self._board.secrets()

    def forget(self, node_id: int) -> None:
        self._may_fail()
        self._board.forget(node_id)

    def close(self) -> None:
        """The nodes share it."""

    def _may_fail(self) -> None:
        if self.is_cut or self._rng.random() < self.fault_rate:
            raise BoardUnavailable("cut off")


class NodeStore(FaultyStore):
    """A node's connection to the bucket."""

    is_cut = False

    def _choose(self, name: str) -> Fault | None:
        if self.is_cut:
            raise StoreTransient(f"{name}: cut off", uncertain=False)
        return super()._choose(name)


class NodeClock(ManualClock):
    """Time that a call to the outside spends in ``block_ms`` passes in the call at once, and for everything else
    while the answer of the call is awaited."""

    def __init__(self, now_ms: int) -> None:
        super().__init__(now_ms)
        self.blocked_ms = 0.0

    def now_ms(self) -> int:
        return int(self._now_ms + self.blocked_ms)

    def monotonic_ms(self) -> float:
        return self._now_ms + self.blocked_ms

    def block_ms(self, duration_ms: float) -> None:
        self.blocked_ms += duration_ms


class LifeCalls:
    """Calls of one life, made where they stand; while the node is frozen none begins and none answers."""

    def __init__(self, life: "Life") -> None:
        self._life = life

    async def run(self, call: Callable[..., T], *args: object, **kwargs: object) -> T:
        await asyncio.sleep(0)
        await self._pass()
        clock = self._life.node.clock
        try:
            result = call(*args, **kwargs)
            if isinstance(result, FileWriteAheadLog):  # its own, or that of a node that it fails over
                self._life.logs_in_files.append(result)
            return result
        finally:
            blocked_ms, clock.blocked_ms = clock.blocked_ms, 0.0
            if blocked_ms:
                await clock.sleep_ms(blocked_ms)
            await self._pass()

    async def _pass(self) -> None:
        self._life.count_call()
        while not self._life.runs.is_set():
            await self._life.runs.wait()

    def close(self) -> None:
        return None


class Life:
    """A process. ``calls_left``: it dies at a call to the outside, after so many more calls."""

    def __init__(self, node: "SimulatedNode") -> None:
        self.node = node
        self.runs = asyncio.Event()
        self.runs.set()
        self.is_dead = False
        self.tasks: dict[asyncio.Task[Any], None] = {}
        self.calls_left = -1
        self.logs_in_files: list[FileWriteAheadLog] = []
        self.engine: StreamEngine | None = None
        self.broker: KafkaBroker | None = None
        self.close_parts: list[Callable[[], Coroutine[Any, Any, None]]] = []

    def count_call(self) -> None:
        self.calls_left -= 1
        if self.calls_left == 0:
            self.is_dead = True
            self.runs.clear()

    def start(self, work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        """A task of this life, with all that it starts."""
        context = copy_context()
        context.run(LIFE.set, self)
        return asyncio.get_running_loop().create_task(work, context=context)

    async def open(self) -> None:
        node, calls = self.node, LifeCalls(self)
        settings = msgspec.structs.replace(node.settings, node_id=node.node_id)
        try:
            client = MetadataClient(node.log, node.clock, node.rng)
            client.execute(put_store_id(node.rng))
        finally:
            node.clock.blocked_ms = 0.0
        buckets = Buckets(node.stores)
        buckets.follow(lambda: bucket_list_of(client.image))
        guards = await calls.run(claim_buckets, buckets, client)
        metadata = MetadataService(client, calls, node.clock)
        self.close_parts.append(metadata.close)
        await metadata.start()
        reader = CommittedReader(
            buckets, lambda: metadata.image, metadata.refresh, calls, node.clock, SMALL_READ
        )
        self.close_parts.append(reader.close)
        place = WalPlace(settings, node.folder, node.host)
        store_id = store_id_of(metadata.image)
        assert store_id is not None
        wal = await wal_in_turn(
            partial(open_wal, place, buckets, store_id, calls, node.clock, node.rng),
            calls, metadata.refresh, settings.node_id, node.clock,
        )  # fmt: skip
        components = EngineComponents(metadata, buckets, wal, reader, calls, node.clock, guards)
        seat = ClusterPlace(
            node.board, calls, metadata, node.clock, Random(node.node_id), node.clock.monotonic_ms
        )
        self.close_parts.append(seat.leave)
        enrolment = NodeEnrolment(
            node.listeners, f"rack-{node.node_id}", before=seat.wait_until_free, after=seat.take
        )
        engine = await open_engine(components, settings, node.rng, place.location, enrolment)
        engine.run_beside("claim-buckets", claim_added_buckets(buckets, client, guards, calls, node.clock))
        seat.begin(engine, NodeFailover(components, settings, calls, node.rng, node.host))
        self.close_parts.append(engine.close)
        broker = await start_broker(
            engine, metadata, BROKER, GroupSettings(), node.clock, node.rng, is_lease_held=seat.is_lease_held
        )
        seat.measure(broker.parts.partitions.counts)
        self.engine, self.broker = engine, broker
        self.close_parts.append(broker.close)
        self.close_parts.append(
            lambda: hand_over_everything(engine, metadata, broker, HAND_OVER_MS_MAX, node.clock)
        )

    async def close(self) -> None:
        """Ends the process as SIGTERM does."""
        for close in reversed(self.close_parts):
            await close()

    async def end(self) -> None:
        """Ends all tasks of the process and closes its files."""
        self.is_dead = True
        self.runs.clear()
        for _ in range(100):
            left = [task for task in self.tasks if not task.done()]
            if not left:
                break
            for task in left:
                task.cancel()
            await asyncio.sleep(0)
        for wal in self.logs_in_files:
            for file in [*wal._live, wal._directory]:
                with suppress(OSError):
                    file.close()

    @property
    def has_failed(self) -> bool:
        return self.engine is not None and self.engine.state is EngineState.FAILED


def task_factory(loop: asyncio.AbstractEventLoop, work: Any, **options: Any) -> Any:
    """Notes each task at the life that it belongs to."""
    task = asyncio.Task(work, loop=loop, **options)
    context = options.get("context")
    life = LIFE.get() if context is None else context.get(LIFE)
    if life is not None:
        life.tasks[task] = None
        task.add_done_callback(lambda done: life.tasks.pop(done, None))
    return task


class SimulatedNode:
    def __init__(
        self, node_id: int, folder: Path, log: MemoryLog, board: MemoryBoard, buckets: Mapping[int, ObjectStore],
        world_clock: ManualClock, settings: EngineSettings, seed: int, fault_rate: float, host: str,
    ) -> None:  # fmt: skip
        self.node_id = node_id
        self.folder = folder
        self.host = host
        self.settings = settings
        self.rng = Random(seed)
        self._world_clock = world_clock
        self.skew_ms = self.rng.choice([0, -20_000, 20_000])
        self.clock = NodeClock(world_clock.now_ms() + self.skew_ms)
        self.log = NodeLog(log, Random(seed + 1), fault_rate / 2)
        self.log.skew_ms = self.skew_ms
        self.board = NodeBoard(board, Random(seed + 2), fault_rate / 2)
        retry = RetrySettings(attempts_max=3, backoff_ms_max=200)
        self.connections: list[NodeStore] = []
        self.stores: dict[int, ObjectStore] = {}
        for number, (bucket_id, bucket) in enumerate(sorted(buckets.items())):
            connection = NodeStore(bucket, Random(seed + 3 + 2 * number), fault_rate=fault_rate)
            self.connections.append(connection)
            self.stores[bucket_id] = RetryingStore(
                connection, self.clock, Random(seed + 4 + 2 * number), retry
            )
        self.listeners = (NodeListener("PLAINTEXT", f"node-{node_id}.example", 9092),)
        self.life: Life | None = None
        self.is_frozen = False
        self.is_cut_from_clients = False

    @property
    def hears(self) -> bool:
        """Returns whether requests reach the node now."""
        life = self.life
        return (
            life is not None
            and life.broker is not None
            and not self.is_frozen
            and not self.is_cut_from_clients
        )

    def keep_time(self) -> None:
        if not self.is_frozen:
            self.clock.advance_ms(
                max(0.0, self._world_clock.now_ms() + self.skew_ms - self.clock.monotonic_ms())
            )

    def begin_life(self) -> "asyncio.Task[None]":
        assert self.life is None
        self.life = Life(self)
        return self.life.start(self.life.open())

    def freeze(self) -> None:
        self.is_frozen = True
        if self.life is not None:
            self.life.runs.clear()

    def thaw(self) -> None:
        self.is_frozen = False
        self.keep_time()  # its clock continued; everything that was due is due at once
        if self.life is not None and not self.life.is_dead:
            self.life.runs.set()

    async def kill(self) -> None:
        life, self.life, self.is_frozen = self.life, None, False
        if life is not None:
            await life.end()

    def reconnect(self) -> None:
        self.log.is_cut = self.board.is_cut = self.is_cut_from_clients = False
        self.cut_from_buckets(is_cut=False)

    def cut_from_buckets(self, *, is_cut: bool) -> None:
        for connection in self.connections:
            connection.is_cut = is_cut

    def calm(self) -> None:
        self.reconnect()
        self.log.calm()
        for connection in self.connections:
            connection.calm()
        self.board.fault_rate = 0.0
