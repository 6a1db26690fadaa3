"""A client of the broker of this process, in the name of a visitor of its console.

A change in the console is the same request that Kafka's tools send, answered by the same broker: so it needs the same
rights, and the audit has it under the name of the visitor. The request takes no socket; ``BrokerChannel`` stands where
a connection of ``kafka_client`` has its own, in a thread of the console, while the broker answers in the event loop.

Only this broker is asked. What another node has to answer, such as the coordinator of a group, is refused by name: a
node cannot speak to another one in the name of a visitor.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from typing import Protocol

import msgspec

from siltstone.broker.broker import KafkaBroker
from siltstone.broker.request import ConnectionContext, Listener
from siltstone.console.visitors import Visitor
from siltstone.kafka_client.client_settings import PLAIN
from siltstone.kafka_client.cluster import Cluster
from siltstone.kafka_client.connection import Address, Connection, Security
from siltstone.kafka_client.failures import BrokerElsewhere
from siltstone.model.access import SecurityProtocol
from siltstone.model.errors import InvalidRequest
from siltstone.runtime.clock import Clock
from siltstone.runtime.randomness import Random

SIZE_BYTES = 4
NO_CONNECTION_ID = 0
"""Connections of the network are counted from 1."""


class Answers(Protocol):
    """Answers a frame, whose size is cut off, with the complete response."""

    async def __call__(self, connection: ConnectionContext, frame: memoryview) -> bytes: ...


class BrokerChannel:
    """Asks with each ``sendall``, a whole request, and keeps the response for ``recv_into``."""

    def __init__(self, ask: Callable[[memoryview], "Future[bytes]"]) -> None:
        self._ask = ask
        self._seconds: float | None = None
        self._response = bytearray()

    def settimeout(self, seconds: float | None, /) -> None:
        self._seconds = seconds

    def sendall(self, data: bytes, /) -> None:
        """Raises TimeoutError, ConnectionResetError."""
        answering = self._ask(memoryview(data)[SIZE_BYTES:])
        try:
            self._response += answering.result(self._seconds)
        except TimeoutError:
            answering.cancel()
            raise
        except (CancelledError, InvalidRequest) as closed:
            raise ConnectionResetError(str(closed)) from closed

    def recv_into(self, buffer: memoryview, /) -> int:
        count = min(len(buffer), len(self._response))
        buffer[:count] = self._response[:count]
        del self._response[:count]
        return count

    def close(self) -> None:
        self._response.clear()


class BrokerCalls:
    """Makes clients of one broker. ``listener``: the other nodes are named by their addresses at this one."""

    def __init__(
        self, answers: Answers, listener: Listener, loop: asyncio.AbstractEventLoop, clock: Clock, rng: Random
    ) -> None:
        self._answers = answers
        self._listener = msgspec.structs.replace(
            listener, protocol=SecurityProtocol.PLAINTEXT, mechanisms=(), reauthentication_ms_max=0
        )
        self._loop = loop
        self._clock = clock
        self._rng = rng
        self._under_way: set[Future[bytes]] = set()
        self._is_closed = False

    def cluster(self, visitor: Visitor) -> Cluster:
        address = Address(self._listener.advertised_host, self._listener.advertised_port)

        def opened(asked: Address, clock: Clock, security: Security) -> Connection:
            if asked != address:
                raise BrokerElsewhere(
                    f"the broker at {asked} has to answer this, and the console asks only its own, at {address}: use "
                    "the console of that broker, or the command"
                )
            connection = Connection(address, self._channel(visitor), clock, security)
            connection.ask_versions()
            return connection

        return Cluster([address], self._clock, self._rng, Security(PLAIN, self._rng), opened)

    def _channel(self, visitor: Visitor) -> BrokerChannel:
        connection = ConnectionContext(NO_CONNECTION_ID, visitor.host, self._listener)
        connection.principal = visitor.principal
        return BrokerChannel(lambda frame: self._asked(connection, frame))

    def _asked(self, connection: ConnectionContext, frame: memoryview) -> "Future[bytes]":
        """Called in a thread."""
        if self._is_closed:
            raise ConnectionResetError("the broker ends")
        answering = asyncio.run_coroutine_threadsafe(self._answers(connection, frame), self._loop)
        self._under_way.add(answering)
        answering.add_done_callback(self._under_way.discard)
        return answering

    def close(self) -> None:
        """Ends the requests under way: threads that wait for them would keep the node from its end."""
        self._is_closed = True
        for each in list(self._under_way):
            each.cancel()


def answers_of(broker: KafkaBroker) -> Answers:
    async def answered(connection: ConnectionContext, frame: memoryview) -> bytes:
        """Raises CloseConnection."""
        found = broker.handle(connection, frame)
        if not isinstance(found, list) and found is not None:
            found = await found
        return b"".join(found or ())

    return answered
