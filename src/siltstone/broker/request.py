"""What passes between the sockets and the broker: a connection, its requests as bytes, and answers as bytes.

The network knows a request as a frame and nothing of what is in it; the broker knows no sockets. Each request is
handled when those before it on its connection have been begun, and answers leave in the order of the requests
(Kafka's clients count on it). The network's side: ``server/network``.

What a handler knows of a request besides its message.

A response as it goes over the wire: size, header, body.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, Protocol, TypeAlias

import msgspec

from siltstone.kafka_protocol.headers import response_prefix
from siltstone.model.buffers import Buffer
from siltstone.model.errors import InvalidRequest

Answer: TypeAlias = list[Buffer] | None
"""The complete response, its size of 4 bytes included. None: nothing is sent (a Produce with acks=0)."""


class CloseConnection(InvalidRequest):
    """The peer sent what has no answer but the end of the connection. The text is what the log will say."""


class Listener(msgspec.Struct, frozen=True):
    """Where a connection came in, and under which address its client finds the broker again."""

    name: str
    advertised_host: str
    advertised_port: int


class ConnectionContext(msgspec.Struct, eq=False, weakref=True):
    """One connection as handlers know it; the same object from its first request to ``connection_closed``.

    Handlers write ``client_software_*``, ``sends_records`` and ``is_held``. The second marks a connection that has sent
    records to be stored: while ``wants_pause`` holds, the network takes nothing more from such connections. The third
    is for one connection: its request waits, perhaps for seconds, and nothing more is read until it is answered.
    """

    connection_id: int
    client_host: str
    listener: Listener
    client_software_name: str = ""
    client_software_version: str = ""
    sends_records: bool = False
    is_held: bool = False


class RequestHandler(Protocol):
    @property
    def wants_pause(self) -> bool:
        """Appends wait for room in the store. Asked often, so it must cost nothing."""
        ...

    def handle(
        self, connection: ConnectionContext, frame: memoryview
    ) -> "Answer | asyncio.Future[Answer] | Coroutine[Any, Any, Answer]":
        """Begin one request: ``frame`` is writable, without its size, and belongs to the handler from now on.

        An Answer: it is ready. A Future: the request has been started, the next one follows at once; it is never
        cancelled by the network. A coroutine: it is run to its end before the next request begins, and cancelled when
        the connection is lost. Raises, or what is awaited raises, CloseConnection; any other exception is a bug, which
        is logged and closes this connection.
        """
        ...

    def end_waits(self) -> None:
        """The node closes: requests that wait for others (records to come, members to join) are answered now."""
        ...

    def connection_closed(self, connection: ConnectionContext) -> None:
        """Called once, when the connection has gone; Futures of it may still be under way."""
        ...


class RequestContext(msgspec.Struct, frozen=True):
    connection: ConnectionContext
    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None

    @property
    def client_host(self) -> str:
        return self.connection.client_host


class EncodedBody(msgspec.Struct, frozen=True):
    """A response's body that a handler has as bytes already, in the version that was asked."""

    body: bytes


def frame_of(context: RequestContext, *body: Buffer) -> list[Buffer]:
    size_bytes = sum(len(part) for part in body)
    prefix = response_prefix(context.api_key, context.api_version, context.correlation_id, size_bytes)
    return [prefix, *body]
