"""``siltstone.Broker``: a real broker inside a Python process, for tests and notebooks.

It runs on an event loop in a thread of its own; whoever holds it never sees that loop. Without a folder it has a
temporary one, which goes with it: then nothing is synced to the disk, since no power failure could be survived.
"""

import asyncio
import threading
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Self

from siltstone.model.errors import InvalidRequest
from siltstone.server.event_loop import run
from siltstone.server.kafka_node import KafkaNode, running_kafka_node
from siltstone.server.network.addresses import parse_addresses
from siltstone.server.settings import load_settings

EMBEDDED_SETTINGS = {"groups.group_initial_rebalance_delay_ms": "0"}
"""A consumer alone in its group begins at once: Kafka waits three seconds for others."""

TEMPORARY_SETTINGS = {"engine.wal.sync": "never"}


class BrokerNotRunning(InvalidRequest):
    """It was not started, or has been stopped."""


class Broker:
    """A Kafka broker on 127.0.0.1 for as long as the ``with`` lasts.

    >>> with siltstone.Broker() as broker:
    ...     Producer({"bootstrap.servers": broker.bootstrap_servers})

    ``folder``: where the store is; kept afterwards. None: a temporary one. ``port`` 0: any free one. ``settings``: any
    by its key, ``{"broker.num_partitions": "4", "topics.retention.ms": "60000"}``. Raises, when it is started,
    SettingRefused, what opening a store raises (WalInUse: somebody has it open), OSError when the port is taken.
    """

    def __init__(
        self,
        folder: Path | str | None = None,
        *,
        port: int = 0,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self._given_folder = None if folder is None else Path(folder)
        self._port = port
        self._settings = dict(settings or {})
        self._temporary: TemporaryDirectory[str] | None = None
        self._thread: threading.Thread | None = None
        self._ready = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None
        self._failure: BaseException | None = None
        self._node: KafkaNode | None = None
        self._bootstrap_servers: str | None = None

    def __repr__(self) -> str:
        return f"<siltstone.Broker {self._bootstrap_servers or 'not running'}>"

    @property
    def bootstrap_servers(self) -> str:
        """HOST:PORT, for every Kafka client. Raises BrokerNotRunning."""
        if self._bootstrap_servers is None:
            raise BrokerNotRunning(
                "this broker is not running: use it as a context manager, or call start() first"
            )
        return self._bootstrap_servers

    @property
    def folder(self) -> Path:
        """Of the store: what ``siltstone streams --store`` takes. Raises BrokerNotRunning."""
        if self._given_folder is not None:
            return self._given_folder
        if self._temporary is None:
            raise BrokerNotRunning(
                "this broker is not running, and a temporary folder lives as long as it does"
            )
        return Path(self._temporary.name)

    def start(self) -> Self:
        """Returns when clients can connect."""
        if self._thread is not None:
            raise BrokerNotRunning("this broker runs already: make another one")
        if self._given_folder is None:
            self._temporary = TemporaryDirectory(prefix="siltstone-")
        self._ready.clear()
        self._failure = None
        self._thread = threading.Thread(target=self._run, name="siltstone-broker", daemon=True)
        self._thread.start()
        self._ready.wait()
        self._raise_failure()
        return self

    def _raise_failure(self) -> None:
        if (failure := self._failure) is not None:
            self.stop()
            raise failure

    def flush(self) -> None:
        """Returns when everything acknowledged so far is in objects, where Spark finds it. Raises BrokerNotRunning."""
        if self._loop is None or self._node is None:
            raise BrokerNotRunning("this broker is not running: there is nothing to flush")
        asyncio.run_coroutine_threadsafe(self._node.node.engine.flush(), self._loop).result()

    def stop(self) -> None:
        """Everything that was acknowledged is committed first. Idempotent."""
        if self._thread is not None:
            if self._loop is not None and self._stopping is not None and self._thread.is_alive():
                self._loop.call_soon_threadsafe(self._stopping.set)
            self._thread.join()
        self._thread = self._loop = self._stopping = self._node = self._bootstrap_servers = None
        if self._temporary is not None:
            self._temporary.cleanup()
            self._temporary = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def _run(self) -> None:
        try:
            run(self._serve())
        except BaseException as failure:
            self._failure = failure
        finally:
            self._ready.set()

    async def _serve(self) -> None:
        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        flags = {**EMBEDDED_SETTINGS, **(TEMPORARY_SETTINGS if self._temporary else {}), **self._settings}
        settings = load_settings(self.folder, flags=flags)
        async with running_kafka_node(settings, parse_addresses([f"127.0.0.1:{self._port}"])) as node:
            self._node = node
            address = node.listeners.listeners[0]
            self._bootstrap_servers = f"{address.advertised_host}:{address.advertised_port}"
            self._ready.set()
            await self._stopping.wait()
