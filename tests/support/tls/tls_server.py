"""One listener with TLS in the event loop of a test, and its clients."""

import asyncio
import ssl
from collections.abc import Callable
from struct import unpack
from typing import Any

from siltstone.runtime.clock import ManualClock, SystemClock
from siltstone.server.network.addresses import parse_addresses
from siltstone.server.network.certificates import Certificates
from siltstone.server.network.handshakes import HandshakeFailure
from siltstone.server.network.listener_settings import ListenerSettings
from siltstone.server.network.listeners import Listeners
from siltstone.server.network.settings import NetworkSettings
from support.kafka.network_world import Handler
from support.tls.authority import Pair


class TlsServer:
    """``async with``: one listener with TLS."""

    def __init__(self, pair: Pair, handler: Handler | None = None, **settings: Any) -> None:
        network = {
            name: value for name, value in settings.items() if name in NetworkSettings.__struct_fields__
        }
        tls = {name: value for name, value in settings.items() if name not in network}
        self.handler = handler or Handler()
        self.clock = ManualClock()
        self.failures: list[BaseException] = []
        listener = ListenerSettings(
            tls_certificate_file=str(pair.certificate), tls_key_file=str(pair.key), **tls
        )
        self.certificates = Certificates({"SSL": listener}, SystemClock())
        self.listeners = Listeners(
            parse_addresses(["SSL://127.0.0.1:0"]),
            self.handler,
            NetworkSettings(**network),
            self.clock,
            self.failures.append,
            settings_of={"SSL": listener},
            certificates=self.certificates,
        )
        self.writers: list[asyncio.StreamWriter] = []

    async def __aenter__(self) -> "TlsServer":
        await self.listeners.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.listeners.abort()
        await self.listeners.close(0)
        for writer in self.writers:
            writer.transport.abort()
        await self.certificates.close()
        assert self.failures == []

    @property
    def port(self) -> int:
        return self.listeners.listeners[0].advertised_port

    async def connect(
        self, context: ssl.SSLContext | None, **options: Any
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if context is not None:
            options["server_hostname"] = "localhost"
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, ssl=context, **options)
        self.writers.append(writer)
        return reader, writer

    async def until(self, condition: Callable[[], bool]) -> None:
        for _ in range(12_000):
            if condition():
                return
            await asyncio.sleep(0.005)
        raise AssertionError("it did not come to pass")

    def failed(self, reason: HandshakeFailure) -> int:
        return self.listeners.statistics().handshakes.failures.get(reason, 0)


async def answer(reader: asyncio.StreamReader) -> bytes:
    (size,) = unpack(">i", await reader.readexactly(4))
    return await reader.readexactly(size)
