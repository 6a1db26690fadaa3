"""``siltstone.Broker``: a real broker inside a Python process, for tests and notebooks.

Whoever holds it never sees an event loop: ``broker_thread`` has it. Without a folder it has a temporary one, which goes
with it: then nothing is synced to the disk, since no power failure could be survived.
"""

import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Self
from weakref import WeakSet

from siltstone.server.broker_thread import BrokerNotRunning, BrokerThread
from siltstone.server.kafka_node import KafkaNode, KafkaNodeStatistics
from siltstone.server.network.addresses import parse_addresses
from siltstone.server.settings.store import load_settings

EMBEDDED_SETTINGS = {"groups.group_initial_rebalance_delay_ms": "0"}
"""A consumer alone in its group begins at once: Kafka waits three seconds for others."""

TEMPORARY_SETTINGS = {"engine.wal.sync": "never"}

EXIT_SECONDS_MAX = 5.0
"""For a program that ends without stop(): what was acknowledged is in the write-ahead log, giving up loses nothing."""


class Broker:
    """A Kafka broker on 127.0.0.1 for as long as the ``with`` lasts. Every thread may use it.

    >>> with siltstone.Broker() as broker:
    ...     Producer({"bootstrap.servers": broker.bootstrap_servers})

    ``folder``: where the store is; kept afterwards. None: a temporary one. ``port`` 0: any free one. ``settings``: any
    by its key, ``{"broker.num_partitions": "4", "topics.retention.ms": "60000"}``. Raises, when it is started,
    SettingRefused, what opening a store raises (WalInUse: somebody has it open), CannotListen (the port is taken).
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
        self._changing = threading.Lock()
        self._temporary: TemporaryDirectory[str] | None = None
        self._running: BrokerThread | None = None
        self._bootstrap_servers: str | None = None

    def __repr__(self) -> str:
        return f"<siltstone.Broker {self._bootstrap_servers or 'not running'}>"

    @property
    def bootstrap_servers(self) -> str:
        """HOST:PORT, for every Kafka client. Raises BrokerNotRunning."""
        if (address := self._bootstrap_servers) is None:
            raise BrokerNotRunning(
                "this broker is not running: use it as a context manager, or call start() first"
            )
        return address

    @property
    def folder(self) -> Path:
        """Of the store: what ``siltstone streams --store`` takes. Raises BrokerNotRunning."""
        if self._given_folder is not None:
            return self._given_folder
        if (temporary := self._temporary) is None:
            raise BrokerNotRunning(
                "this broker is not running, and a temporary folder lives as long as it does"
            )
        return Path(temporary.name)

    def start(self) -> Self:
        """Returns when clients can connect. After ``stop`` it can be started again; without a folder that is a new and
        empty one."""
        with self._changing:
            if self._running is not None:
                raise BrokerNotRunning("this broker runs already: make another one")
            try:
                self._start()
            except BaseException:
                self._forget()
                raise
        return self

    def _start(self) -> None:
        if self._given_folder is None:
            # Cleaning may come upon files of a thread that was not stopped: a program that ends without stop().
            self._temporary = TemporaryDirectory(prefix="siltstone-", ignore_cleanup_errors=True)
        defaults = {**EMBEDDED_SETTINGS, **(TEMPORARY_SETTINGS if self._temporary else {})}
        settings = load_settings(
            self.folder, defaults=defaults, flags=self._settings, origin="Broker(settings=…)"
        )
        running = BrokerThread(settings, parse_addresses([f"127.0.0.1:{self._port}"]))
        self._bootstrap_servers = running.start()
        self._running = running
        _running.add(self)

    def stop(self) -> None:
        """Everything that was acknowledged is committed first. Any number of times, from any thread. Raises what went
        wrong in the broker's thread, if anything."""
        self._stop(None)

    def _stop(self, seconds_max: float | None) -> None:
        with self._changing:
            running = self._running
            try:
                if running is not None:
                    running.stop(seconds_max)
            finally:
                self._forget()

    def _forget(self) -> None:
        _running.discard(self)
        self._running = self._bootstrap_servers = None
        temporary, self._temporary = self._temporary, None
        if temporary is not None:
            temporary.cleanup()

    def flush(self) -> None:
        """Returns when everything acknowledged so far is in objects, where Spark finds it. Raises BrokerNotRunning,
        EngineNotRunning with the reason when the disk or the bucket failed."""

        async def flushed(node: KafkaNode) -> None:
            await node.node.engine.flush()

        self._thread().ask(flushed)

    def statistics(self) -> KafkaNodeStatistics:
        """What it does at this moment; ``engine.state`` is FAILED when it can store nothing any more. Raises
        BrokerNotRunning."""

        async def counted(node: KafkaNode) -> KafkaNodeStatistics:
            return node.statistics()

        return self._thread().ask(counted)

    def _thread(self) -> BrokerThread:
        if (running := self._running) is None:
            raise BrokerNotRunning("this broker is not running: start it first")
        return running

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()


_running: WeakSet[Broker] = WeakSet()


def _stop_all() -> None:
    for broker in list(_running):
        with suppress(Exception):
            broker._stop(EXIT_SECONDS_MAX)


# ``atexit`` would be too late: the pools of threads that closing needs are gone by then. This has no public name.
if (_before_pools_close := getattr(threading, "_register_atexit", None)) is not None:
    _before_pools_close(_stop_all)
