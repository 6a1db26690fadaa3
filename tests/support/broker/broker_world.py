"""A broker on a real engine, a store in memory and a manual clock, asked with frames as clients write them.

    world (metadata log, bucket, WAL folder, time) > life (one engine, one broker) > client (one connection)

A life ends by ``restart`` or by ``crash``. Calls to the outside can be held by name, so that appends stay on their way
to the disk (``WRITE``) and reads on theirs from the bucket (``READ``) for as long as a test wants.
"""

import asyncio
import tempfile
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from siltstone.broker.broker import KafkaBroker
from siltstone.broker.groups.settings import GroupSettings
from siltstone.broker.partitions.partition import Partition
from siltstone.broker.parts import BrokerParts
from siltstone.broker.request import Answer, ConnectionContext, Listener
from siltstone.broker.security.node_logins import NodeLogins
from siltstone.broker.settings import BrokerSettings
from siltstone.broker.starting import start_broker
from siltstone.broker.topics.creating import NewTopic
from siltstone.broker.topics.registry import Topic
from siltstone.kafka_protocol.codec import decode, encode
from siltstone.kafka_protocol.headers import RequestHeader, decode_response_header, encode_request_header
from siltstone.kafka_protocol.messages import produce
from siltstone.kafka_protocol.messages.catalogue import CATALOGUE
from siltstone.kafka_protocol.notation import Message
from siltstone.metadata.entities import NodeLife
from siltstone.model.buffers import Buffer
from siltstone.model.secret import Secret
from siltstone.runtime.clock import ManualClock
from siltstone.stream_engine.settings import EngineSettings, UploadSettings, WalSettings
from support.engine.engine_world import FreezableCalls, Node, World, settled

T = TypeVar("T")
KIB = 1024
NODE_ID = 7
WRITE, READ = "_write_group", "read_blocks"
"""The calls of the write-ahead log and of the readers of objects."""

ENGINE = EngineSettings(
    node_id=NODE_ID,
    tail_cache_bytes_max=2048 * KIB,
    append_bytes_max=256 * KIB,
    waiting_bytes_max=512 * KIB,
    wal=WalSettings(segment_bytes=512 * KIB, capacity_bytes=4096 * KIB, group_bytes_max=128 * KIB),
    upload=UploadSettings(
        cache_block_bytes_max=512 * KIB, split_size_bytes=64 * KIB, block_size_bytes=8 * KIB
    ),
)
SMALL_TAIL = msgspec.structs.replace(
    ENGINE,
    tail_cache_bytes_max=16 * KIB,
    append_bytes_max=8 * KIB,
    waiting_bytes_max=16 * KIB,
    upload=msgspec.structs.replace(ENGINE.upload, cache_block_bytes_max=4 * KIB),
)
"""Little is kept in memory, and a few appends that cannot be written are too many."""


class HoldableCalls(FreezableCalls):
    """Calls of a name wait while they are held."""

    def __init__(self) -> None:
        super().__init__()
        self._gates: dict[str, asyncio.Event] = {}

    def hold(self, name: str) -> None:
        self._gates[name] = asyncio.Event()

    def release(self, name: str) -> None:
        self._gates.pop(name).set()

    def fail(self, name: str, failure: Exception) -> None:
        """Lets every later call of that name fail."""

        def refuse(called: str) -> None:
            if called == name:
                raise failure

        self.before_call = refuse

    async def run(self, call: Callable[..., T], *args: object, **kwargs: object) -> T:
        gate = self._gates.get(getattr(call, "__name__", ""))
        if gate is not None:
            await gate.wait()
        return await super().run(call, *args, **kwargs)


NODES_LISTENER = "NODES"
"""The name of the listener by which other nodes come."""


FOR_EVER_MS = 1 << 50


class WorldSecrets:
    """What the broker of a world has read from the lease board; ``on_board``: what it will read next."""

    def __init__(self, world: "BrokerWorld") -> None:
        self._world = world
        self.known: dict[NodeLife, Secret] = {}
        self.on_board: dict[NodeLife, Secret] = {}

    @property
    def own(self) -> NodeLife:
        engine = self._world.node.engine
        return self._world.node.metadata.image.nodes[engine.node_id].life

    def secret_of(self, life: NodeLife) -> Secret | None:
        return self.known.get(life)

    async def read_again(self) -> None:
        self.known |= self.on_board


class BrokerWorld:
    def __init__(self, folder: Path, settings: BrokerSettings, engine: EngineSettings) -> None:
        self.world = World(folder)
        self.settings = settings
        self._engine_settings = engine
        self._connections = 0
        self.secrets = WorldSecrets(self)
        self.has_logins = True

    # -- lives -------------------------------------------------------------------------------------------

    async def start(self) -> None:
        self.calls = HoldableCalls()
        self.node: Node = await self.world.open(self._engine_settings, calls=self.calls)
        self.broker: KafkaBroker = await start_broker(
            self.node.engine, self.node.metadata, self.settings, GroupSettings(), self.clock, self.world.rng,
            password_calls=self.calls if self.has_logins else None,
            node_logins=NodeLogins(
                self.secrets, lambda: self.node.metadata.image, lambda each: each.name == NODES_LISTENER,
                self.world.rng,
            ),
        )  # fmt: skip

    async def stop(self) -> None:
        await self.broker.close()
        await self.node.close()

    async def restart(self) -> None:
        await self.stop()
        await self.start()

    async def crash(self) -> None:
        """Nothing is written any more; the next life begins with what the disk has."""
        self.world.crash(self.calls)
        await self.start()

    # -- parts -------------------------------------------------------------------------------------------

    @property
    def clock(self) -> ManualClock:
        return self.world.clock

    @property
    def parts(self) -> BrokerParts:
        return self.broker.parts

    async def topic(self, name: str = "t", partitions: int = 1, **configs: str) -> Topic:
        """``cleanup_policy`` stands for cleanup.policy."""
        dotted = {key.replace("_", "."): value for key, value in configs.items()}
        return await self.parts.creation.create(
            NewTopic(name=name, partition_count=partitions, configs=dotted)
        )

    async def partition(self, topic: Topic, index: int = 0) -> Partition:
        return await self.parts.partitions.open(topic, index)

    def opened(self, topic: Topic, index: int = 0) -> Partition:
        partition = self.parts.partitions.opened(topic.id, index)
        assert partition is not None
        return partition

    def client(self, listener: Listener | None = None) -> "Client":
        self._connections += 1
        return Client(self, self._connections, listener or PLAIN_LISTENER)

    async def pass_ms(self, duration_ms: float) -> None:
        """Runs the timers that are due; everything that follows from them has happened when this returns."""
        self.clock.advance_ms(duration_ms)
        await settled()


PLAIN_LISTENER = Listener("PLAINTEXT", "kafka.example", 9092)


class Client:
    """A connection without a network: no request waits for those before it."""

    def __init__(self, world: BrokerWorld, connection_id: int, listener: Listener = PLAIN_LISTENER) -> None:
        self._world = world
        self.connection = ConnectionContext(connection_id, "client.example", listener)
        self._correlation_id = 0

    def begin(
        self, request: Message, version: int
    ) -> "Answer | asyncio.Future[Answer] | Coroutine[Any, Any, Answer]":
        """Returns the answer of KafkaBroker.handle to the request."""
        self._correlation_id += 1
        header = RequestHeader(type(request).api_key, version, self._correlation_id, "a client")
        frame = bytearray(encode_request_header(header) + encode(request, version))
        return self._world.broker.handle(self.connection, memoryview(frame))

    def send(self, request: Message, version: int | None = None) -> "asyncio.Task[Any]":
        """Begins a request as far as a call can; the task returns what the client reads."""
        version = type(request).versions[1] if version is None else version
        handled = self.begin(request, version)
        return asyncio.ensure_future(self._read(type(request), version, self._correlation_id, handled))

    async def ask(self, request: Message, version: int | None = None) -> Any:
        return await self.send(request, version)

    async def _read(self, request: type[Message], version: int, correlation_id: int, handled: Any) -> Any:
        answer = handled if handled is None or isinstance(handled, list) else await handled
        if answer is None:
            return None
        frame = b"".join(answer)
        assert int.from_bytes(frame[:4], "big") == len(frame) - 4
        answered_id, body = decode_response_header(request.api_key, version, frame[4:])
        assert answered_id == correlation_id
        return decode(response_of(request), version, body)


def response_of(request: type[Message]) -> type[Message]:
    if request is produce.ProduceRequest:
        return produce.ProduceResponse
    return CATALOGUE[request.api_key][1]


def in_broker_world(
    scenario: Callable[[BrokerWorld], Awaitable[None]],
    settings: BrokerSettings = BrokerSettings(),  # noqa: B008
    engine: EngineSettings = ENGINE,
    *,
    grows_stale: bool = False,
) -> None:
    """``grows_stale``: what it knows of users and rights does, as in a real broker. Otherwise a test may let days pass
    at once."""
    if not grows_stale:
        settings = msgspec.structs.replace(settings, security_stale_ms_max=FOR_EVER_MS)

    async def main(folder: Path) -> None:
        world = BrokerWorld(folder, settings, engine)
        await world.start()
        await scenario(world)
        await world.stop()

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(Path(folder)))


def joined(pieces: list[Buffer]) -> bytes:
    return b"".join(pieces)
