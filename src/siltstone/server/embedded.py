"""``siltstone.Broker`` is a real broker inside a Python process, or several brokers that form a cluster, for tests and
notebooks.

Each has an event loop in a thread of its own (``broker_thread``), so the caller needs none. A broker without a folder
uses a temporary one, which is deleted when the broker stops; the write-ahead log is then not synced, since the folder
would not survive a power failure anyway.
"""

import asyncio
import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext, suppress
from functools import wraps
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Concatenate, ParamSpec, Self, TypeVar
from weakref import WeakSet

import msgspec

from siltstone.kafka_client.client_settings import settings_of_mapping
from siltstone.kafka_client.cluster import Cluster
from siltstone.kafka_client.connection import Security, parse_bootstrap
from siltstone.kafka_client.failures import TopicUnknown
from siltstone.kafka_client.topic_records import TopicRecord, read_records
from siltstone.kafka_client.topics import create_topic
from siltstone.metadata.credentials import credentials_of
from siltstone.metadata.users import AlterUsers
from siltstone.model.access import LoginMechanism, ScramMechanism, SecurityProtocol
from siltstone.model.errors import InvalidRequest, SiltstoneError
from siltstone.model.secret import Secret
from siltstone.model.serving_limits import SCRAM_ROUNDS_MIN
from siltstone.object_store.faults import BucketFaults
from siltstone.runtime.clock import SystemClock
from siltstone.runtime.randomness import system_randomness
from siltstone.server.broker_thread import BrokerNotRunning, BrokerThread, StoppedEarly
from siltstone.server.kafka_node import KafkaNode, KafkaNodeStatistics
from siltstone.server.network.addresses import ListenerAddress, parse_addresses
from siltstone.server.network.self_signed import TLS_FOLDER, own_certificate
from siltstone.server.node_flags import flags_of_nodes
from siltstone.server.settings.node import NodeSettings, load_node_settings

EMBEDDED_SETTINGS = {"groups.group_initial_rebalance_delay_ms": "0"}
"""A new consumer group starts at once; by default a broker waits three seconds for more members, as Kafka does."""

TEMPORARY_SETTINGS = {"engine.wal.sync": "never"}

_PROTOCOLS = {
    (False, False): SecurityProtocol.PLAINTEXT,
    (True, False): SecurityProtocol.SSL,
    (False, True): SecurityProtocol.SASL_PLAINTEXT,
    (True, True): SecurityProtocol.SASL_SSL,
}
"""Whether the broker encrypts, and whether it has users → what it speaks."""

EXIT_SECONDS_MAX = 5.0
"""How long a program that ends without ``stop`` waits for its brokers. Giving up loses nothing: acknowledged records
are in the write-ahead log."""

log = logging.getLogger(__name__)


P = ParamSpec("P")
T = TypeVar("T")
B = TypeVar("B", bound="Broker")


def _fails_at_the_caller(method: Callable[Concatenate[B, P], T]) -> Callable[Concatenate[B, P], T]:
    """Makes the method's errors begin at its caller: a test that fails shows the test, and not our source."""

    @wraps(method)
    def call(self: B, *args: P.args, **kwargs: P.kwargs) -> T:
        __tracebackhide__ = True  # pytest leaves such a frame out
        try:
            return method(self, *args, **kwargs)
        except SiltstoneError as failure:
            raise failure.with_traceback(None)  # noqa: B904  the same error, with the cause that it has

    return call  # type: ignore[return-value]  # mypy wants the name of its first parameter, too


class Broker:
    """A Kafka broker on 127.0.0.1 that runs for the duration of the ``with``. It may be used from any thread.

    >>> with siltstone.Broker() as broker:
    ...     Producer({"bootstrap.servers": broker.bootstrap_servers})

    ``folder`` is the folder of the store, which is kept when the broker stops; None: a temporary folder. ``port`` 0:
    any free port. ``nodes``: how many nodes form a cluster, with the numbers 0, 1 and so on (``engine.node_id`` is the
    first); each listens one port higher than the one before, unless ``port`` is 0. ``tls``: the broker encrypts, with a
    certificate that it makes in its folder (extra ``tls``). ``users``: name → password, such as
    ``{"ada": "pencil"}``; clients then log in as one of them. ``client_config`` has what clients need.
    ``settings`` has values by key, such as ``{"broker.num_partitions": "4", "topics.retention.ms": "60000"}``.
    ``faults``: failures of the bucket, such as ``siltstone.BucketFaults(refuses_writes=True)``. They can be changed
    while the broker runs, begin when a temporary store has been made, and end when the broker stops.

    An ``async with`` starts and stops the broker without blocking the event loop. Starting raises SettingRefused,
    CannotListen (the port is in use), and what opening a store raises, such as WalInUse (another process has the store
    open). docs/testing-your-code.md shows how tests use it.
    """

    def __init__(
        self,
        folder: Path | str | None = None,
        *,
        port: int = 0,
        nodes: int = 1,
        tls: bool = False,
        users: Mapping[str, str] | None = None,
        settings: Mapping[str, str] | None = None,
        faults: BucketFaults | None = None,
    ) -> None:
        if nodes < 1:
            raise InvalidRequest(f"Broker(nodes={nodes}): a cluster has at least one node")
        self._given_folder = None if folder is None else Path(folder)
        self._port = port
        self._node_count = nodes
        self._settings = dict(settings or {})
        self._users = {name: Secret(password) for name, password in (users or {}).items()}
        self._protocol = _PROTOCOLS[tls, bool(self._users)]
        self.faults = faults or BucketFaults()
        self._changing = threading.Lock()
        self._temporary: TemporaryDirectory[str] | None = None
        self._running: dict[int, BrokerThread] = {}
        self._addresses: dict[int, str] = {}
        self._flags: dict[int, dict[str, str]] = {}
        self._is_new = False

    def __repr__(self) -> str:
        return f"<siltstone.Broker {','.join(self._addresses.values()) or 'not running'}>"

    @property
    def bootstrap_servers(self) -> str:
        """HOST:PORT of the broker, for any Kafka client; with several nodes, of all nodes that run, with commas between
        them. Raises BrokerNotRunning."""
        if not (addresses := list(self._addresses.values())):
            raise BrokerNotRunning(
                "this broker is not running: use it as a context manager, or call start() first"
            )
        return ",".join(addresses)

    def client_config(self, user: str | None = None) -> dict[str, str]:
        """Returns what a Kafka client needs to connect, by librdkafka's names: ``Producer(broker.client_config())``.
        With users it logs in as ``user``, by default as the first of them. Raises BrokerNotRunning, and InvalidRequest
        for a user that the broker was not given."""
        config = {"bootstrap.servers": self.bootstrap_servers}
        if self._protocol.is_encrypted:
            authority = str(self.folder / TLS_FOLDER / "ca.pem")
            config |= {"security.protocol": str(self._protocol), "ssl.ca.location": authority}
        if self._users or user is not None:
            config |= self._login_config(user)
        return config

    def _login_config(self, user: str | None) -> dict[str, str]:
        name = next(iter(self._users), "") if user is None else user
        if name not in self._users:
            known = ", ".join(self._users) or "none: give some, as Broker(users={...})"
            raise InvalidRequest(f"this broker was given no user {name}; its users are {known}")
        return {
            "security.protocol": str(self._protocol),
            "sasl.mechanism": str(LoginMechanism.SCRAM_SHA_512),
            "sasl.username": name,
            "sasl.password": self._users[name].revealed(),
        }

    @property
    def addresses(self) -> dict[int, str]:
        """Node → HOST:PORT, of the nodes that run."""
        return dict(self._addresses)

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
        """Starts all nodes; returns when clients can connect. A stopped broker can be started again; with a temporary
        folder it is then empty."""
        with self._changing:
            if self._running:
                raise BrokerNotRunning("this broker is running already: make another one")
            try:
                self._make_folder()
                self._flags = flags_of_nodes(self._first_settings(), self._node_count)
                self._start([*self._flags], after_the_first=self._put_users)
            except BaseException:
                self._give_up()
                raise
        return self

    def restart(self, node_id: int | None = None) -> Self:
        """Stops the broker if it runs, and starts it again on the same store and the same port, so that clients
        reconnect; also after ``kill``. With ``node_id`` only this node. Raises what ``start`` and ``stop`` raise."""
        with self._changing:
            if not self._flags:
                raise BrokerNotRunning("this broker was never started, or was stopped: start it first")
            restarted = [*self._flags] if node_id is None else [self._known(node_id)]
            try:
                self._stop_nodes(restarted, None)
                self._start(restarted)
            except BaseException:
                self._give_up()
                raise
        return self

    @_fails_at_the_caller
    def kill(self, node_id: int | None = None) -> None:
        """Ends the broker as SIGKILL ends a process: connections break, requests have no answers, and nothing more is
        uploaded or committed. With ``node_id`` only this node. The store stays as it is, a temporary one too:
        ``restart`` recovers what was acknowledged, and ``stop`` gives the store up."""
        with self._changing:
            self._thread()
            for number in [*self._running] if node_id is None else [self._known(node_id)]:
                if (running := self._running.pop(number, None)) is None:
                    raise BrokerNotRunning(f"node {number} is not running: restart it first")
                self._addresses.pop(number)
                running.kill()
            if not self._running:
                _running.discard(self)

    def _known(self, node_id: int) -> int:
        if node_id not in self._flags:
            numbers = ", ".join(map(str, self._flags))
            raise InvalidRequest(f"this broker has no node {node_id}: its nodes are {numbers}")
        return node_id

    def _make_folder(self) -> None:
        if self._given_folder is None and self._temporary is None:
            # When a program ends without ``stop``, the broker's thread may still write files during the clean-up.
            self._temporary = TemporaryDirectory(prefix="siltstone-", ignore_cleanup_errors=True)
            self._is_new = True

    def _first_settings(self) -> NodeSettings:
        """Returns the settings of the first node, which listens on the given port and on nothing else."""
        return msgspec.structs.replace(
            self._load({}),
            listeners=f"{self._protocol}://127.0.0.1:{self._port}",
            advertised_listeners="",
            listener_security_protocol_map="",
        )

    def _load(self, flags: Mapping[str, str]) -> NodeSettings:
        defaults = {**EMBEDDED_SETTINGS, **(TEMPORARY_SETTINGS if self._temporary else {})}
        return load_node_settings(
            self.folder,
            defaults=defaults,
            flags={**self._tls_settings(), **self._login_settings(), **self._settings, **flags},
            origin="Broker(settings=…)",
        )

    def _tls_settings(self) -> dict[str, str]:
        """Returns the settings of the listener with TLS, whose certificate is made when it is missing."""
        if not self._protocol.is_encrypted:
            return {}
        own = own_certificate(self.folder.absolute() / TLS_FOLDER, (), SystemClock().now_ms())
        return own.settings_of(self._protocol)

    def _login_settings(self) -> dict[str, str]:
        """Returns the setting by which clients may log in by every mechanism of a name and a password."""
        if not (self._users and self._protocol.is_encrypted):
            return {}
        by_password = [each for each in LoginMechanism if each is not LoginMechanism.OAUTHBEARER]
        return {f"listener.{self._protocol}.sasl_mechanisms": ",".join(by_password)}

    def _addresses_of(self, settings: NodeSettings) -> tuple[ListenerAddress, ...]:
        return parse_addresses([settings.listeners], settings=settings.named_listeners)

    def _start(self, numbers: Iterable[int], after_the_first: Callable[[], None] = lambda: None) -> None:
        """Starts the nodes one after the other, since the first one creates the store, and the others know from their
        start what is put into its metadata then. A node that is started again gets its earlier port."""
        for number in numbers:
            settings = self._load(self._flags[number])
            running = BrokerThread(settings, self._addresses_of(settings), self.faults)
            with self.faults.paused() if self._is_new else nullcontext():
                address = running.start()
            self._flags[number] = {**self._flags[number], "listeners": f"{self._protocol}://{address}"}
            self._running[number] = running
            if len(self._running) == 1:
                after_the_first()
            self._addresses = dict(sorted({**self._addresses, number: address}.items()))
        self._is_new = False
        _running.add(self)

    def _put_users(self) -> None:
        """Sets the passwords of the users, before anybody has heard of the broker's address."""
        if not self._users:
            return
        rng = system_randomness()
        command = AlterUsers(
            credentials=tuple(
                (name, credential)
                for name, password in self._users.items()
                for credential in credentials_of(password, ScramMechanism, SCRAM_ROUNDS_MIN, rng)
            )
        )

        async def put(node: KafkaNode) -> None:
            await node.node.metadata.execute(command)

        self._thread().ask(put)

    def stop(self) -> None:
        """Commits everything that was acknowledged, then stops the broker. May be called more than once and from any
        thread. Raises the error with which the broker's thread ended, if any.

        It takes no longer than the settings network.close_time_limit_ms and engine.close_time_limit_ms together. When
        not everything could be committed by then, it raises StoppedEarly, with what is left to the next start; a broker
        with a temporary folder, which has no next start, logs that instead."""
        self._stop(None)

    def _stop(self, seconds_max: float | None) -> None:
        with self._changing:
            self.faults.end()  # otherwise a stop would wait for the bucket
            try:
                self._stop_nodes([*self._running], seconds_max)
            except StoppedEarly as early:
                if self._temporary is None:
                    raise
                log.warning("a temporary folder is deleted with what it held: %s", early)
            finally:
                self._forget()

    def _stop_nodes(self, numbers: Iterable[int], seconds_max: float | None) -> None:
        """Stops the nodes side by side. Raises the first failure when all have ended."""
        ending = {number for number in numbers if number in self._running}
        stopped = [self._running.pop(number) for number in sorted(ending)]
        self._addresses = {number: self._addresses[number] for number in self._running}
        failures: list[Exception] = []
        for running in stopped:
            running.ask_to_stop(ends_with=ending)
        for running in stopped:
            try:
                running.stop(seconds_max)
            except Exception as failure:
                failures.append(failure)
        if failures:
            raise failures[0]

    def _give_up(self) -> None:
        """Stops the nodes that did start, after a start that failed."""
        with suppress(Exception):
            self._stop_nodes([*self._running], None)
        self._forget()

    def _forget(self) -> None:
        _running.discard(self)
        self._running, self._addresses, self._flags = {}, {}, {}
        temporary, self._temporary = self._temporary, None
        if temporary is not None:
            temporary.cleanup()

    @_fails_at_the_caller
    def flush(self) -> None:
        """Uploads everything acknowledged so far; returns when it is in objects, which Spark can read. Raises
        BrokerNotRunning, and EngineNotRunning with the reason if the disk or the bucket has failed."""

        async def flushed(node: KafkaNode) -> None:
            await node.node.engine.flush()

        self._thread()
        for running in [*self._running.values()]:
            running.ask(flushed)

    @_fails_at_the_caller
    def create_topic(
        self, name: str, *, partitions: int | None = None, config: Mapping[str, str] | None = None
    ) -> str:
        """Creates a topic and returns its name. ``config``: by name, such as ``{"cleanup.policy": "compact"}``.
        Raises KafkaRefusal, for example if the topic exists, and BrokerNotRunning."""
        with self._cluster() as cluster:
            create_topic(cluster, name, partitions, config or {})
        return name

    @_fails_at_the_caller
    def records(self, topic: str) -> list[TopicRecord]:
        """Returns all records that the topic holds now, sorted by partition and offset, without joining a group. A
        topic that no client has created yet has none. Everything is in memory: this is for tests. Raises
        BrokerNotRunning."""
        with self._cluster() as cluster, suppress(TopicUnknown):
            return read_records(cluster, topic)
        return []

    def _cluster(self) -> Cluster:
        security = Security(settings_of_mapping(self.client_config(), "client_config"))
        return Cluster(parse_bootstrap(self.bootstrap_servers), SystemClock(), system_randomness(), security)

    @_fails_at_the_caller
    def statistics(self, node_id: int | None = None) -> KafkaNodeStatistics:
        """Returns the current statistics of the broker, or of one node of several (by default the lowest that runs);
        ``engine.state`` is FAILED when it can store no more records. Raises BrokerNotRunning."""

        async def counted(node: KafkaNode) -> KafkaNodeStatistics:
            return node.statistics()

        return self._thread(node_id).ask(counted)

    def _thread(self, node_id: int | None = None) -> BrokerThread:
        number = min(self._running, default=None) if node_id is None else self._known(node_id)
        if number is None or (running := self._running.get(number)) is None:
            name = "this broker" if node_id is None else f"node {node_id}"
            raise BrokerNotRunning(f"{name} is not running: start it first")
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
        threads = list(broker._running.values())
        with suppress(Exception):
            broker._stop(EXIT_SECONDS_MAX)
        for each in threads:
            each.park()


# ``atexit`` callbacks run after the thread pools that stopping needs have shut down; this earlier hook is not public.
if (_before_pools_close := getattr(threading, "_register_atexit", None)) is not None:
    _before_pools_close(_stop_all)
