"""A Kafka node on an event loop in a thread, as ``siltstone.Broker`` is, and a test may look inside."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from siltstone.server.embedded import EMBEDDED_SETTINGS, TEMPORARY_SETTINGS
from siltstone.server.kafka_node import KafkaNode, running_kafka_node
from siltstone.server.network.addresses import parse_addresses
from siltstone.server.python_process import run
from siltstone.server.settings.node import load_node_settings
from support.kafka.raw_kafka import Address

T = TypeVar("T")


class ServedNode:
    """A node is used in a ``with``. ``addresses`` are those that are advertised, in the order of ``listeners``."""

    def __init__(
        self,
        folder: Path,
        settings: Mapping[str, str] | None = None,
        listeners: Sequence[str] = ("127.0.0.1:0",),
    ) -> None:
        flags = {**EMBEDDED_SETTINGS, **TEMPORARY_SETTINGS, **(settings or {})}
        self._settings = load_node_settings(folder, flags=flags)
        self._listeners = parse_addresses(
            listeners, (), self._settings.listener_security_protocol_map, self._settings.named_listeners
        )
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._loop: asyncio.AbstractEventLoop
        self._stopping: asyncio.Event
        self.node: KafkaNode
        self.addresses: list[Address] = []

    def __enter__(self) -> "ServedNode":
        self._thread.start()
        self._ready.wait()
        assert self.addresses, "it did not start"
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join()

    def on_loop(self, ask: Callable[[KafkaNode], Awaitable[T]]) -> T:
        """Returns the result of ``ask``, awaited on the node's own event loop."""

        async def asked() -> T:
            return await ask(self.node)

        return asyncio.run_coroutine_threadsafe(asked(), self._loop).result(timeout=60)

    def _run(self) -> None:
        try:
            run(self._serve())
        finally:
            self._ready.set()

    async def _serve(self) -> None:
        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        async with running_kafka_node(self._settings, self._listeners) as node:
            self.node = node
            self.addresses = [
                (each.advertised_host, each.advertised_port) for each in node.listeners.listeners
            ]
            self._ready.set()
            await self._stopping.wait()
