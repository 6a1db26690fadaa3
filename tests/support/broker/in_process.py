"""Commands that are clients of a broker, on a broker in the same thread: no sockets, and no time passes by itself."""

import asyncio
from collections import deque
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest

from siltstone.broker.settings import BrokerSettings
from siltstone.cli import cluster_options
from siltstone.kafka_client import cluster
from siltstone.kafka_client.connection import Address, Security, SpokenVersions
from siltstone.kafka_protocol.messages.api_versions import ApiVersionsRequest
from siltstone.kafka_protocol.notation import Message
from siltstone.model.version import VERSION
from siltstone.runtime.clock import Clock
from support.broker.broker_world import ENGINE, BrokerWorld, Client
from support.engine.engine_world import settled
from support.processes.cli import Outcome, run

T = TypeVar("T")
STEP_MS = 50


class InProcessBroker:
    """A broker on an event loop that runs while it is asked. ``topic`` and ``client`` of ``world`` need ``wait``."""

    def __init__(self, folder: Path) -> None:
        self._loop = asyncio.new_event_loop()
        self.world = BrokerWorld(folder, BrokerSettings(), ENGINE)
        self.wait(self.world.start())

    def wait(self, awaited: Coroutine[Any, Any, T]) -> T:
        """Returns the result of ``awaited``. Time passes while it waits for time."""
        return self._loop.run_until_complete(self._finished(awaited))

    async def _finished(self, awaited: Coroutine[Any, Any, T]) -> T:
        task = asyncio.ensure_future(awaited)
        while not task.done():
            await settled()
            if not task.done():
                self.world.clock.advance_ms(STEP_MS)
        return task.result()

    def siltstone(self, *words: object, stdin: bytes | None = None, **environment: str) -> Outcome:
        """Runs a command against this broker."""
        return run(*words, stdin=stdin, SILTSTONE_BOOTSTRAP="kafka.example:9092", **environment)

    def connect(self, address: Address, clock: Clock, security: Security) -> "InProcessConnection":
        """Opens a connection as ``open_connection`` does; a broker in this process answers at once."""
        del clock, security
        return InProcessConnection(self, self.world.client(), address)

    def close(self) -> None:
        self.wait(self.world.stop())
        self._loop.close()


class InProcessConnection:
    """A connection with the methods of ``siltstone.kafka_client.connection.Connection``."""

    def __init__(self, broker: InProcessBroker, client: Client, address: Address) -> None:
        self.address = address
        self._broker = broker
        self._client = client
        self._answers: deque[Message] = deque()
        asked = ApiVersionsRequest(client_software_name="siltstone", client_software_version=VERSION)
        rows = broker.wait(client.ask(asked)).api_keys
        self._spoken = SpokenVersions(str(address), rows)

    is_to_be_renewed = False

    @property
    def under_way(self) -> int:
        return len(self._answers)

    def version_for(self, request: type[Message]) -> int:
        return self._spoken.version_for(request)

    def send(self, request: Message) -> None:
        version = self._spoken.version_for(type(request))
        self._answers.append(self._broker.wait(self._client.ask(request, version)))

    def receive(self, _: type[Message], time_limit_ms: float = 0) -> Message:
        return self._answers.popleft()

    def call(self, request: Message, answer: type[Message]) -> Message:
        self.send(request)
        return self.receive(answer)

    def close(self) -> None:
        self._answers.clear()


@contextmanager
def broker_in_process(folder: Path) -> Iterator[InProcessBroker]:
    """Lets every command inside the block use this broker, whatever its --bootstrap is."""
    broker = InProcessBroker(folder)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(cluster, "open_connection", broker.connect)
        patched.setattr(cluster_options, "SystemClock", lambda: broker.world.clock)
        yield broker
    broker.close()
