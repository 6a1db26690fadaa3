"""``siltstone.Broker``: a real broker inside a Python process, for tests and notebooks.

Its event loop runs in a thread (``broker_thread``), so the caller needs none. A broker without a folder uses a
temporary one, which is deleted when the broker stops; the write-ahead log is then not synced, since the folder would
not survive a power failure anyway.
"""

import asyncio
import logging
import threading
from collections.abc import Mapping
from contextlib import nullcontext, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Self
from weakref import WeakSet

from siltstone.kafka_client.cluster import Cluster
from siltstone.kafka_client.connection import parse_bootstrap
from siltstone.kafka_client.topic_records import TopicRecord, read_records
from siltstone.kafka_client.topics import create_topic
from siltstone.object_store.faults import BucketFaults
from siltstone.runtime.clock import SystemClock
from siltstone.runtime.randomness import system_randomness
from siltstone.server.broker_thread import BrokerNotRunning, BrokerThread, StoppedEarly
from siltstone.server.kafka_node import KafkaNode, KafkaNodeStatistics
from siltstone.server.network.addresses import parse_addresses
from siltstone.server.settings.store import load_settings

EMBEDDED_SETTINGS = {"groups.group_initial_rebalance_delay_ms": "0"}
"""A new consumer group starts at once; by default a broker waits three seconds for more members, as Kafka does."""

TEMPORARY_SETTINGS = {"engine.wal.sync": "never"}

EXIT_SECONDS_MAX = 5.0
"""How long a program that ends without ``stop`` waits for its brokers. Giving up loses nothing: acknowledged records
are in the write-ahead log."""

log = logging.getLogger(__name__)


class Broker:
    """A Kafka broker on 127.0.0.1 that runs for the duration of the ``with``. It may be used from any thread.

    >>> with siltstone.Broker() as broker:
    ...     Producer({"bootstrap.servers": broker.bootstrap_servers})

    ``folder`` is the folder of the store, which is kept when the broker stops; None: a temporary folder. ``port`` 0:
    any free port. ``settings`` has values by key, such as ``{"broker.num_partitions": "4", "topics.retention.ms":
    "60000"}``. ``faults``: what the bucket does wrong, such as ``siltstone.BucketFaults(refuses_writes=True)``; they
    can be changed while the broker runs, begin when a temporary store has been made, and end when the broker stops.
    An ``async with`` starts and stops the broker without blocking the event loop. Starting raises SettingRefused,
    CannotListen (the port is in use), and what opening a store raises, such as WalInUse (another process has the store
    open). docs/testing-your-code.md shows how tests use it.
    """

    def __init__(
        self,
        folder: Path | str | None = None,
        *,
        port: int = 0,
        settings: Mapping[str, str] | None = None,
        faults: BucketFaults | None = None,
    ) -> None:
        self._given_folder = None if folder is None else Path(folder)
        self._port = port
        self._settings = dict(settings or {})
        self.faults = faults or BucketFaults()
        self._changing = threading.Lock()
        self._temporary: TemporaryDirectory[str] | None = None
        self._running: BrokerThread | None = None
        self._bootstrap_servers: str | None = None
        self._last_port: int | None = None

    def __repr__(self) -> str:
        return f"<siltstone.Broker {self._bootstrap_servers or 'not running'}>"

    @property
    def bootstrap_servers(self) -> str:
        """HOST:PORT of the broker, for any Kafka client. Raises BrokerNotRunning."""
        if (address := self._bootstrap_servers) is None:
            raise BrokerNotRunning(
                "this broker is not running: use it as a context manager, or call start() first"
            )
        return address

    @property
    def folder(self) -> Path:
        """The folder of the store, for example for ``siltstone streams --store``. Raises BrokerNotRunning if the
        folder is temporary and the broker is not running."""
        if self._given_folder is not None:
            return self._given_folder
        if (temporary := self._temporary) is None:
            raise BrokerNotRunning(
                "this broker is not running, so its temporary folder does not exist: start it first, or give a folder"
            )
        return Path(temporary.name)

    def start(self) -> Self:
        """Starts the broker; returns when clients can connect. A stopped broker can be started again; with a temporary
        folder it is then empty."""
        with self._changing:
            if self._running is not None:
                raise BrokerNotRunning("this broker is running already: make another one")
            try:
                self._start(self._port)
            except BaseException:
                self._forget()
                raise
        return self

    def restart(self) -> Self:
        """Stops the broker if it runs, and starts it again on the same store and the same port, so that clients
        reconnect; also after ``kill``. Raises what ``start`` and ``stop`` raise."""
        with self._changing:
            port = self._last_port
            if port is None:
                raise BrokerNotRunning("this broker was never started, or was stopped: start it first")
            running, self._running = self._running, None
            try:
                if running is not None:
                    running.stop()
                self._start(port)
            except BaseException:
                self._forget()
                raise
        return self

    def kill(self) -> None:
        """Ends the broker as SIGKILL ends a process: connections break, requests have no answers, and nothing more is
        uploaded or committed. The store stays as it is, a temporary one too: ``restart`` recovers what was
        acknowledged, and ``stop`` gives the store up."""
        with self._changing:
            running, self._running = self._thread(), None
            self._bootstrap_servers = None
            _running.discard(self)
            running.kill()

    def _start(self, port: int) -> None:
        is_new = self._given_folder is None and self._temporary is None
        if is_new:
            # When a program ends without ``stop``, the broker's thread may still write files during the clean-up.
            self._temporary = TemporaryDirectory(prefix="siltstone-", ignore_cleanup_errors=True)
        defaults = {**EMBEDDED_SETTINGS, **(TEMPORARY_SETTINGS if self._temporary else {})}
        settings = load_settings(
            self.folder, defaults=defaults, flags=self._settings, origin="Broker(settings=…)"
        )
        running = BrokerThread(settings, parse_addresses([f"127.0.0.1:{port}"]), self.faults)
        with self.faults.paused() if is_new else nullcontext():
            self._bootstrap_servers = running.start()
        self._last_port = int(self._bootstrap_servers.rpartition(":")[2])
        self._running = running
        _running.add(self)

    def stop(self) -> None:
        """Commits everything that was acknowledged, then stops the broker. May be called more than once and from any
        thread. Raises the error with which the broker's thread ended, if any.

        It takes no longer than the settings network.close_time_limit_ms and engine.close_time_limit_ms together. When
        not everything could be committed by then, it raises StoppedEarly, with what is left to the next start; a broker
        with a temporary folder, which has no next start, logs that instead."""
        self._stop(None)

    def _stop(self, seconds_max: float | None) -> None:
        with self._changing:
            running = self._running
            self.faults.end()  # else a stop would wait for the bucket
            try:
                if running is not None:
                    running.stop(seconds_max)
            except StoppedEarly as early:
                if self._temporary is None:
                    raise
                log.warning("a temporary folder is deleted with what it held: %s", early)
            finally:
                self._forget()

    def _forget(self) -> None:
        _running.discard(self)
        self._running = self._bootstrap_servers = self._last_port = None
        temporary, self._temporary = self._temporary, None
        if temporary is not None:
            temporary.cleanup()

    def flush(self) -> None:
        """Uploads everything acknowledged so far; returns when it is in objects, which Spark can read. Raises
        BrokerNotRunning, and EngineNotRunning with the reason if the disk or the bucket has failed."""

        async def flushed(node: KafkaNode) -> None:
            await node.node.engine.flush()

        self._thread().ask(flushed)

    def create_topic(
        self, name: str, *, partitions: int | None = None, config: Mapping[str, str] | None = None
    ) -> str:
        """Creates a topic and returns its name. ``config``: by name, such as ``{"cleanup.policy": "compact"}``.
        Raises KafkaRefusal, for example if the topic exists, and BrokerNotRunning."""
        with self._cluster() as cluster:
            create_topic(cluster, name, partitions, config or {})
        return name

    def records(self, topic: str) -> list[TopicRecord]:
        """All records that the topic holds now, sorted by partition and offset, without joining a group. Everything is
        in memory: this is for tests. Raises TopicUnknown, BrokerNotRunning."""
        with self._cluster() as cluster:
            return read_records(cluster, topic)

    def _cluster(self) -> Cluster:
        return Cluster(parse_bootstrap(self.bootstrap_servers), SystemClock(), system_randomness())

    def statistics(self) -> KafkaNodeStatistics:
        """The current statistics of the broker; ``engine.state`` is FAILED when it can store no more records. Raises
        BrokerNotRunning."""

        async def counted(node: KafkaNode) -> KafkaNodeStatistics:
            return node.statistics()

        return self._thread().ask(counted)

    def _thread(self) -> BrokerThread:
        if (running := self._running) is None:
            raise BrokerNotRunning("this broker is not running: start it first")
        return running

    async def __aenter__(self) -> Self:
        return await asyncio.to_thread(self.start)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.stop)

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


# ``atexit`` callbacks run after the thread pools that stopping needs have shut down; this earlier hook is not public.
if (_before_pools_close := getattr(threading, "_register_atexit", None)) is not None:
    _before_pools_close(_stop_all)
